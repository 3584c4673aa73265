"""A training step of a model with 38 tables and 100 dense Variables: plain TensorFlow, the same code rewritten, hash tables, TFRA.

All take their batches from memory. Rewritten Variables train to plain TensorFlow's losses; that is checked first.
"""

from __future__ import annotations

from typing import Any, Iterator, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import graph_models, peers, sessions
from benchmarks.graph_models import Shape
from benchmarks.harness import OURS, Result, contest
from tf_booster.passes.fetches import executed
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
SHAPE = Shape(tables=38, variables=100)
STEPS = 20  # In one turn.
CHOOSING = 60  # By then the pipeline has tried how it runs best.
TABLES = f"{OURS} tables"


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for optimizer in ("adagrad", "adam"):
        for batch in (256, 2048):
            yield contest_of(optimizer, batch, threads)


def contest_of(optimizer: str, batch: int, threads: int) -> Result:
    data = graph_models.batches(SHAPE, batch)
    identity = graph_models.column_lookup(
        lambda name, shape: tf.feature_column.categorical_column_with_identity(name, shape.rows)
    )
    hashed = graph_models.column_lookup(
        lambda name, _: tf_booster.feature_column.categorical_column_with_hash_table(name)
    )
    made = {
        OURS: _session(data, identity, _optimizer(optimizer), threads, rewritten=True),
        TABLES: _session(data, hashed, _optimizer(optimizer), threads, rewritten=True),
        "TensorFlow": _session(data, identity, _optimizer(optimizer), threads),
    }
    tfra = peers.tfra()
    if tfra:
        wrapped = tfra.DynamicEmbeddingOptimizer(_optimizer(optimizer))
        made["TFRA"] = _session(data, tfra_lookup(tfra), wrapped, threads)
    losses = {name: [session.run(fetches)[1] for _ in range(STEPS)] for name, (session, fetches, _) in made.items()}
    np.testing.assert_allclose(losses[OURS], losses["TensorFlow"], rtol=1e-5)
    for session, fetches, _ in made.values():
        for _ in range(CHOOSING):
            session.run(fetches)
    runners = {name: sessions.turn_of(session, list(fetches), STEPS) for name, (session, fetches, _) in made.items()}
    rates = contest(runners, STEPS * batch, seconds=4.0)
    ops = {f"ops of {name}": count for name, (_, _, count) in made.items()}
    fewer = 1 - ops[f"ops of {OURS}"] / ops["ops of TensorFlow"]
    facts = {"batch": batch, "tables": SHAPE.tables, "Variables": SHAPE.variables, **ops, "fewer ops": f"{fewer:.0%}"}
    return Result("graph_rewrite", optimizer, batch, "zipf", threads, "M samples/s", rates, facts)


def _optimizer(name: str) -> Any:
    return v1.train.AdagradOptimizer(0.02) if name == "adagrad" else v1.train.AdamOptimizer(0.002)


def _session(data: Any, lookup: Any, optimizer: Any, threads: int, rewritten: bool = False) -> Tuple[Any, Any, int]:
    """An initialized session, what a step fetches, and how many ops a step has."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        fetches = graph_models.build(SHAPE, graph_models.input_of(data), lookup, optimizer)
        if rewritten:
            tf_booster.rewrite_graph(graph)
        session = sessions.initialized(threads)
        return session, fetches, len(executed(GraphView(graph), [fetches[0].name, fetches[1].op.name]))


def tfra_lookup(tfra: Any) -> graph_models.Lookup:
    """Lookups in TFRA's tables, one for each name."""

    def lookup(shape: Shape, name: str, dim: int, ids: Any) -> tf.Tensor:
        table = tfra.get_variable(
            name, tf.int64, tf.float32, devices=["/CPU:0"], initializer=tf.keras.initializers.Zeros(), dim=dim
        )
        if isinstance(ids, tf.SparseTensor):
            return tfra.safe_embedding_lookup_sparse(table, ids, combiner="mean", name=f"{name}_lookup")
        rows = tfra.embedding_lookup_unique(table, tf.reshape(ids, [-1]), dim, name=f"{name}_lookup")
        return tf.reshape(rows, [-1, dim])

    return lookup
