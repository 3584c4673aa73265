"""Training WDL, DeepFM and DLRM: plain TensorFlow, the same code rewritten, hash tables, TFRA. Batches come from memory.

First each trains for an epoch of click data whose best AUC is known. AUC is that of predictions before an example is trained on, second half
of the epoch. Rewritten Variables must train to plain TensorFlow's losses, in sessions without Grappler: with it sums are regrouped, and losses part.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import end_to_end_models as models
from benchmarks import graph_models, peers, sessions
from benchmarks.graph_rewrite_bench import TABLES, tfra_lookup
from benchmarks.harness import OURS, Result, contest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples"))
from criteo.planted import Population, auc  # noqa: E402

v1 = tf.compat.v1
EXAMPLES = 1 << 17
STDDEV = 0.02  # Of what embeddings begin with.
STEPS = 10  # In one turn.
SAME = 1e-5  # Of losses, relative, where a pass sums in another order; others train to the same bits.
ORDERS = (range(models.DIM)[::-1], *(np.random.RandomState(seed).permutation(models.DIM) for seed in (1, 2, 3)))


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for batch in (512, 2048):
        for model in models.MODELS:
            yield contest_of(model, batch, threads)


def contest_of(model: str, batch: int, threads: int) -> Result:
    data, reachable = _clicks(batch)
    facts: Dict[str, Any] = {"batch": batch, "tables": models.FIELDS, "reachable AUC": f"{reachable:.4f}"}
    identity = graph_models.column_lookup(
        lambda name, shape: tf.feature_column.categorical_column_with_identity(name, shape.rows), STDDEV
    )
    hashed = graph_models.column_lookup(
        lambda name, _: tf_booster.feature_column.categorical_column_with_hash_table(name), STDDEV
    )
    made = {
        OURS: _session(model, data, identity, threads, rewritten=True),
        TABLES: _session(model, data, hashed, threads, rewritten=True),
        "TensorFlow": _session(model, data, identity, threads),
    }
    tfra = peers.tfra()
    if tfra:
        made["TFRA"] = _session(model, data, tfra_lookup(tfra), threads, wrap=tfra.DynamicEmbeddingOptimizer)
    reached = {name: _epoch(session, fetches, data["label"])[1] for name, (session, fetches) in made.items()}

    def losses(**kwargs: Any) -> np.ndarray:
        return _epoch(*_session(model, data, identity, threads, grappler=False, **kwargs), data["label"])[0]

    ours, plain = losses(rewritten=True), losses()
    if model == "dlrm":  # Dots of pairs are summed in another order.
        facts["losses apart by"] = _check_losses(ours, plain, (losses(order=list(order)) for order in ORDERS))
    else:
        np.testing.assert_array_equal(ours, plain)
    np.testing.assert_allclose(reached[OURS], reached["TensorFlow"], atol=1e-4)
    runners = {name: sessions.turn_of(session, list(fetches[:2]), STEPS) for name, (session, fetches) in made.items()}
    rates = contest(runners, STEPS * batch, seconds=4.0)
    facts.update({f"AUC of {name}": f"{value:.4f}" for name, value in reached.items()})
    return Result("end_to_end", model, batch, "zipf", threads, "M samples/s", rates, facts)


def _check_losses(ours: np.ndarray, plain: np.ndarray, reordered: Iterator[np.ndarray]) -> str:
    """The largest relative difference, which may be SAME, or what TensorFlow shows against itself when only the order of its sums changes.

    At some step a Relu's input lies within rounding of 0 and changes sides: from there on losses differ by much more than rounding. Which orders do that is chance, so
    that one of `reordered` must come as far, up to the factor of 2 by which such runs differ. They are trained only if they are needed.
    """
    apart = np.max(np.abs(ours / plain - 1))
    shown: List[float] = []
    while apart > max([SAME, *(2 * other for other in shown)]):
        other = next(reordered, None)
        if other is None:
            raise AssertionError(f"losses are {apart:.1e} apart, TensorFlow's own with sums in other orders {shown}")
        shown.append(np.max(np.abs(other / plain - 1)))
    return f"{apart:.1e}" + (f" (TensorFlow's with sums in other orders {max(shown):.1e})" if shown else "")


def _clicks(batch: int) -> Tuple[Dict[str, np.ndarray], float]:
    """Features by name, [batches, batch, columns], and the AUC that no model can beat on the second half."""
    drawn = Population(max_cardinality=models.SHAPE.rows).sample(EXAMPLES, 0)
    half = len(drawn.label) // 2
    data = {f"C{i}": (drawn.ids[:, i] % models.SHAPE.rows)[:, None] for i in range(models.FIELDS)}
    data["numbers"] = (0.25 * np.arcsinh(np.nan_to_num(drawn.numbers))).astype(np.float32)
    data["label"] = drawn.label[:, None]
    batched = {name: values.reshape([-1, batch, values.shape[1]]) for name, values in data.items()}
    return batched, auc(drawn.probability[half:], drawn.label[half:])


def _session(
    model: str,
    data: Dict[str, np.ndarray],
    lookup: graph_models.Lookup,
    threads: int,
    rewritten: bool = False,
    wrap: Any = lambda optimizer: optimizer,
    grappler: bool = True,
    **kwargs: Any,
) -> Tuple[v1.Session, Tuple]:
    """An initialized session, and what a step fetches: the train op, the loss, the logits."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        dataset = tf.data.Dataset.from_tensor_slices(data).cache().repeat().prefetch(2)
        features = v1.data.make_one_shot_iterator(dataset).get_next()
        fetches = models.build(model, features, lookup, wrap, **kwargs)
        if rewritten:
            tf_booster.rewrite_graph(graph)
        return sessions.initialized(threads, grappler), fetches


def _epoch(session: v1.Session, fetches: Tuple, labels: np.ndarray) -> Tuple[np.ndarray, float]:
    """The losses of an epoch, and the AUC of its second half."""
    run_step = session.make_callable(list(fetches))
    _, losses, logits = zip(*[run_step() for _ in range(len(labels))])
    half = len(labels) // 2
    return np.array(losses), auc(np.concatenate(logits[half:])[:, 0], labels[half:].reshape(-1))
