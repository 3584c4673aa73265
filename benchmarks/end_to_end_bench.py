"""Training WDL, DeepFM and DLRM: plain TensorFlow, the same code rewritten, hash tables, TFRA. Batches come from memory.

First each trains for an epoch of click data whose best AUC is known. AUC is that of predictions before an example is trained on, second half
of the epoch. Rewritten Variables must train to plain TensorFlow's losses.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterator, Tuple

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
# Steps whose losses are compared closely. Later a Relu's input that lies within rounding of 0 may change sides: so DLRM's at batch 512, step 60.
SAME = 32


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for batch in (512, 2048):
        for model in models.MODELS:
            yield contest_of(model, batch, threads)


def contest_of(model: str, batch: int, threads: int) -> Result:
    data, reachable = _clicks(batch)
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
    losses, reached = {}, {}
    for name, (session, fetches) in made.items():
        losses[name], reached[name] = _epoch(session, fetches, data["label"])
    np.testing.assert_allclose(losses[OURS][:SAME], losses["TensorFlow"][:SAME], rtol=1e-5)
    np.testing.assert_allclose(losses[OURS], losses["TensorFlow"], rtol=1e-3)
    np.testing.assert_allclose(reached[OURS], reached["TensorFlow"], atol=1e-4)
    runners = {name: sessions.turn_of(session, list(fetches[:2]), STEPS) for name, (session, fetches) in made.items()}
    rates = contest(runners, STEPS * batch, seconds=4.0)
    facts = {"batch": batch, "tables": models.FIELDS, "reachable AUC": f"{reachable:.4f}"}
    facts.update({f"AUC of {name}": f"{value:.4f}" for name, value in reached.items()})
    return Result("end_to_end", model, batch, "zipf", threads, "M samples/s", rates, facts)


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
) -> Tuple[v1.Session, Tuple]:
    """An initialized session, and what a step fetches: the train op, the loss, the logits."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        dataset = tf.data.Dataset.from_tensor_slices(data).cache().repeat().prefetch(2)
        features = v1.data.make_one_shot_iterator(dataset).get_next()
        fetches = models.build(model, features, lookup, wrap)
        if rewritten:
            tf_booster.rewrite_graph(graph)
        return sessions.initialized(threads), fetches


def _epoch(session: v1.Session, fetches: Tuple, labels: np.ndarray) -> Tuple[np.ndarray, float]:
    """The losses of an epoch, and the AUC of its second half."""
    run_step = session.make_callable(list(fetches))
    _, losses, logits = zip(*[run_step() for _ in range(len(labels))])
    half = len(labels) // 2
    return np.array(losses), auc(np.concatenate(logits[half:])[:, 0], labels[half:].reshape(-1))
