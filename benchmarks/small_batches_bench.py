"""1 to 256 ids: what an op costs before it has much to do, beside TensorFlow's own ops. Rates are of ops, not of ids.

find: `DenseHashTable`, and `ResourceGather`, which looks nothing up. lookup, as training does it: distinct ids, their rows, a row
for each id; TensorFlow: `tf.unique` and a gather. apply: Adagrad on distinct rows. unique: int64.
A step of a session runs many ops one after another, so that what the session itself costs is not in it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import data, tables
from benchmarks.harness import OURS, Result, contest
from benchmarks.optimizer_bench import HYPER, Variables
from tf_booster import _native

v1 = tf.compat.v1
DIM, ROWS = 16, 1 << 16
SIZES = (1, 16, 64, 256)
COPIES = 256


def fill(session: v1.Session, filled: List[Any]) -> np.ndarray:
    """All keys; tables that start alike with ROWS rows."""
    keys = data.keys_of(np.arange(ROWS))
    session.run([v1.tables_initializer(), v1.global_variables_initializer()])
    tables.fill(session, filled, keys, DIM)
    return (keys % 1000).astype(np.float32)[:, None] * 1e-3 + np.arange(DIM, dtype=np.float32)


def lookup(table: tables.OurTable, ids: tf.Tensor) -> tf.Tensor:
    return table.gather(table.probe(ids))


def plain_lookup(variables: Variables, ranks: tf.Tensor) -> tf.Tensor:
    distinct, places = tf.unique(ranks)
    return tf.gather(variables.gather(0, distinct), places)


def apply_builders(session, ours: tables.OurTable, variables: Variables, keys, ranks, size: int) -> Dict[str, Callable]:
    grads = tables.held(np.random.default_rng(size).normal(size=(size, DIM)).astype(np.float32))
    ones, fields = tables.held(np.ones(size, np.int64)), tables.held(np.zeros(size, np.int32))
    codes = tables.held(np.arange(size) + 1)
    session.run(v1.variables_initializer(v1.global_variables()[-4:]))
    handles = tables.held(session.run(ours.probe(keys).handles))
    session.run(v1.variables_initializer(v1.global_variables()[-1:]))
    return {
        OURS: lambda: ours.apply(keys, fields, ones, handles, codes, grads, HYPER["adagrad"]),
        "TensorFlow": lambda: variables.apply(ranks, grads),
    }


def contests(session, ours, theirs, variables, size: int) -> Iterator[Tuple[str, Dict[str, Callable]]]:
    distinct = np.random.default_rng(size).permutation(ROWS)[:size]
    keys, ranks = tables.held(data.keys_of(distinct)), tables.held(distinct)
    session.run(v1.variables_initializer(v1.global_variables()[-2:]))
    gather = lambda: variables.gather(0, ranks)  # noqa: E731
    yield "find", {OURS: lambda: ours.find(keys), theirs.name: lambda: theirs.find(keys), "ResourceGather": gather}
    yield "lookup", {OURS: lambda: lookup(ours, keys), "TensorFlow": lambda: plain_lookup(variables, ranks)}
    yield "apply", apply_builders(session, ours, variables, keys, ranks, size)
    yield "unique", {OURS: lambda: _native.ops().tf_booster_unique(keys), "TensorFlow": lambda: tf.unique(keys)}


def run(threads: int) -> Iterator[Result]:
    with tf.Graph().as_default(), tables.session(threads) as session:
        ours, theirs = tables.OurTable(DIM, "adagrad"), tables.TensorFlowTable(DIM)
        variables = Variables("adagrad", fill(session, [ours, theirs]))
        session.run(v1.global_variables_initializer())
        for size in SIZES:
            for what, builders in contests(session, ours, theirs, variables, size):
                chains = {name: tables.chain([build] * COPIES) for name, build in builders.items()}
                runners = {name: tables.runner(session, op) for name, op in chains.items()}
                rates = contest(runners, COPIES)
                yield Result(
                    "small_batches",
                    what,
                    DIM,
                    f"{size} id{'s' * (size > 1)}",
                    threads,
                    "M ops/s",
                    rates,
                    {"rows": ROWS},
                )
        found = session.run([ours.find(data.keys_of(np.arange(ROWS))), variables.gather(0, np.arange(ROWS))])
        np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)  # The same updates have been applied.
