"""Keys and gradients to measure with."""

from __future__ import annotations

import numpy as np

DISTRIBUTIONS = ("uniform", "zipf")
ZIPF_EXPONENT = 1.05


def keys_of(ranks: np.ndarray) -> np.ndarray:
    """One int64 for each rank, spread over all 64 bits, as hashed ids are."""
    x = ranks.astype(np.uint64) + np.uint64(0x632BE59BD9B4E019)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


def ranks(distribution: str, population: int, count: int, seed: int) -> np.ndarray:
    """`count` draws from [0, population): all alike, or rank r with weight (r + 1)^-1.05."""
    random = np.random.default_rng(seed)
    if distribution == "uniform":
        return random.integers(0, population, count)
    weights = np.cumsum(np.arange(1, population + 1, dtype=np.float64) ** -ZIPF_EXPONENT)
    return np.searchsorted(weights, random.random(count) * weights[-1])


def unique_share(keys: np.ndarray) -> float:
    return len(np.unique(keys)) / len(keys)
