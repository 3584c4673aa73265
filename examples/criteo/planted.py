"""A population of Criteo-shaped examples whose click probability is known.

Every categorical field draws ranks from a Zipf law over its own cardinality; the id that a reader sees is a 64-bit hash of
(field, rank), so half of all ids are negative and nearly all are large. The logit of a click is

    bias + sum of one weight per id + a few pairwise products of hidden vectors of ids + smooth functions of the numbers

All weights are pure functions of (seed, field, rank). So the probability of each example is known, and with it the AUC that
no model can beat except by luck: the AUC of the true probability on the very examples that are evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Distinct values of C1 to C26 in Criteo's 45 million rows. Capped below: a demo of some 100,000 rows sees far fewer.
CARDINALITIES = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
# Shares of examples without a value, close to those of Criteo's training set.
NUMERIC_MISSING = (0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.01, 0.04, 0.45, 0.04, 0.77, 0.22)
CATEGORICAL_MISSING = (
    0.0, 0.0, 0.03, 0.03, 0.0, 0.12, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03, 0.0,
    0.0, 0.0, 0.03, 0.0, 0.0, 0.44, 0.44, 0.03, 0.76, 0.0, 0.03, 0.44, 0.44,
)  # fmt: skip
# The numbers are counts: exp(normal(mean, deviation)), rounded down, minus a shift that makes I2 reach below zero.
NUMERIC_LOG_MEAN = (0.5, 2.0, 1.8, 1.5, 7.0, 3.5, 1.8, 2.0, 4.0, 0.1, 0.6, 0.1, 1.5)
NUMERIC_LOG_STDDEV = (1.0, 1.8, 1.2, 0.9, 2.0, 1.6, 1.2, 0.9, 1.3, 0.5, 0.8, 0.6, 1.0)
NUMERIC_SHIFT = (0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

# Pairs of fields (by index) whose hidden vectors multiply. Small fields: a pair of values then recurs often enough to be learned.
PAIRS = ((5, 13), (16, 22), (8, 24), (5, 16), (13, 22))
HIDDEN_DIM = 2

# Standard deviations in the logit. Ids carry most of it: a model without embeddings stays far below the reachable AUC.
ID_STDDEV = 0.42
PAIR_STDDEV = 0.30
NUMERIC_STDDEV = 0.20
BIAS = -1.4
# The weight of rank r shrinks as 1 / sqrt(1 + r / TAIL_RANK). An id that is seen a few times cannot be learned by anyone; with
# full weights there the reachable AUC would say nothing about a model.
TAIL_RANK = 30.0


class Batch(NamedTuple):
    """Some examples. A missing number is NaN; a missing id is where `id_present` is False (its value is then 0)."""

    numbers: np.ndarray  # float32 [n, 13]
    ids: np.ndarray  # int64 [n, 26]
    id_present: np.ndarray  # bool [n, 26]
    label: np.ndarray  # float32 [n], 0 or 1
    probability: np.ndarray  # float64 [n], the true probability of label 1


def mix64(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection on uint64 that spreads every bit over all."""
    x = x.astype(np.uint64)
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed_normal(keys: np.ndarray, stream: int) -> np.ndarray:
    """A standard normal for each key, by Box and Muller from two hashes; `stream` tells independent draws apart."""
    a = mix64(mix64(keys) ^ np.uint64(2 * stream + 1))
    b = mix64(mix64(keys) ^ np.uint64(2 * stream + 2))
    unit = 2.0**-53
    u = ((a >> np.uint64(11)).astype(np.float64) + 0.5) * unit
    v = ((b >> np.uint64(11)).astype(np.float64) + 0.5) * unit
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """The exact area under the ROC curve; ties count half. Both classes must occur."""
    score, label = np.asarray(score), np.asarray(label) > 0.5
    positives, negatives = int(label.sum()), int((~label).sum())
    if not positives or not negatives:
        raise ValueError(
            "auc: label has %d positives and %d negatives; both must occur, use more examples" % (positives, negatives)
        )
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2.0
    rank_sum = mean_rank[inverse][label].sum()
    return float((rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives))


class Population:
    """All that is fixed by the seed: cardinalities, ids, weights. `sample` draws examples from it.

    Args:
      seed: any integer; the same seed gives the same ids, weights and, with the same stream, the same examples.
      zipf: exponent of the Zipf law, above 0.
      max_cardinality: cap on the number of distinct ids of one field, at least 1.
    """

    def __init__(self, seed: int = 2026, zipf: float = 1.2, max_cardinality: int = 200_000) -> None:
        if zipf <= 0 or max_cardinality < 1:
            raise ValueError(
                "Population: zipf is %s and max_cardinality is %s; wanted zipf > 0, max_cardinality >= 1"
                % (zipf, max_cardinality)
            )
        self.seed = seed
        self.cardinalities = [min(c, max_cardinality) for c in CARDINALITIES]
        self._cdf = [np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -zipf) for n in self.cardinalities]
        self._ids = [self._keys(field, np.arange(n)).view(np.int64) for field, n in enumerate(self.cardinalities)]
        self._weights = [self._id_weights(field, n) for field, n in enumerate(self.cardinalities)]
        self._hidden = {field: self._hidden_vectors(field) for pair in PAIRS for field in pair}
        numeric_keys = self._keys(1000, np.arange(len(NUMERIC_LOG_MEAN)))
        self._slope = hashed_normal(numeric_keys, 0)
        self._bump = hashed_normal(numeric_keys, 1)
        self._missing_number = hashed_normal(numeric_keys, 2)

    def sample(self, n: int, stream: int) -> Batch:
        """Draws `n` examples; `stream` (at least 0) numbers independent draws, a shard's for example."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed & (2**63 - 1), stream])))
        ranks, present = self._sample_ranks(rng, n)
        standard = rng.standard_normal((n, len(NUMERIC_LOG_MEAN)))
        number_present = rng.random(standard.shape) >= np.asarray(NUMERIC_MISSING)
        logit = BIAS + self._id_effects(ranks, present) + self._number_effects(standard, number_present)
        probability = 1.0 / (1.0 + np.exp(-logit))
        label = (rng.random(n) < probability).astype(np.float32)
        counts = np.floor(np.exp(np.asarray(NUMERIC_LOG_MEAN) + np.asarray(NUMERIC_LOG_STDDEV) * standard))
        numbers = np.where(number_present, counts - np.asarray(NUMERIC_SHIFT), np.nan).astype(np.float32)
        ids = np.stack([table[ranks[:, f]] for f, table in enumerate(self._ids)], axis=1)
        return Batch(numbers, np.where(present, ids, 0), present, label, probability)

    def _keys(self, field: int, ranks: np.ndarray) -> np.ndarray:
        base = mix64(np.asarray([self.seed & (2**63 - 1)], np.uint64)) ^ np.uint64((field + 1) << 40)
        return mix64(base + ranks.astype(np.uint64))

    def _id_weights(self, field: int, n: int) -> np.ndarray:
        ranks = np.arange(n)
        tail = 1.0 / np.sqrt(1.0 + ranks / TAIL_RANK)
        return ID_STDDEV * tail * hashed_normal(self._keys(field, ranks), 3)

    def _hidden_vectors(self, field: int) -> np.ndarray:
        keys = self._keys(field, np.arange(self.cardinalities[field]))
        return np.stack([hashed_normal(keys, 4 + d) for d in range(HIDDEN_DIM)], axis=1)

    def _sample_ranks(self, rng: np.random.Generator, n: int) -> tuple:
        ranks = np.empty((n, len(self._cdf)), np.int64)
        for field, cdf in enumerate(self._cdf):
            ranks[:, field] = np.searchsorted(cdf, rng.random(n) * cdf[-1], side="right")
        present = rng.random(ranks.shape) >= np.asarray(CATEGORICAL_MISSING)
        return ranks, present

    def _id_effects(self, ranks: np.ndarray, present: np.ndarray) -> np.ndarray:
        effect = np.zeros(len(ranks))
        for field, weights in enumerate(self._weights):
            effect += weights[ranks[:, field]] * present[:, field]
        for a, b in PAIRS:
            product = np.sum(self._hidden[a][ranks[:, a]] * self._hidden[b][ranks[:, b]], axis=1) / np.sqrt(HIDDEN_DIM)
            effect += PAIR_STDDEV * np.clip(product, -3.0, 3.0) * (present[:, a] & present[:, b])
        return effect

    def _number_effects(self, standard: np.ndarray, present: np.ndarray) -> np.ndarray:
        value = self._slope * standard + self._bump * (np.exp(-(standard**2)) - 0.577)
        return NUMERIC_STDDEV * np.where(present, value, self._missing_number).sum(axis=1)
