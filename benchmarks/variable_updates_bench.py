"""The updates of a step alone, TensorFlow's ops beside ours: 100 small Variables, 8 large ones, 26 tables, one big table."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import sessions
from benchmarks.harness import OURS, Result, contest
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.01),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.01),
}
SMALL = [(64, 32), (32,)] * 50
LARGE = [(1024, 1024)] * 8
TABLES = [(1000, 16)] * 26
BIG_TABLE = [(500_000, 16)]
BATCH = 2048
STEPS = 10  # In one turn.


def run(threads: int) -> Iterator[Result]:
    for name in OPTIMIZERS:
        yield contest_of("small", name, SMALL, 0, threads)
    yield contest_of("large", "adam", LARGE, 0, threads)
    for name in OPTIMIZERS:
        yield contest_of("tables", name, TABLES, BATCH, threads)
    yield contest_of("big", "adam", BIG_TABLE, BATCH, threads)


def contest_of(what: str, optimizer: str, shapes: List[Tuple[int, ...]], rows: int, threads: int) -> Result:
    """Rows: how many rows of each Variable have a gradient; 0 for dense gradients."""
    plain, fused = (session(OPTIMIZERS[optimizer](), shapes, rows, fuse) for fuse in (False, True))
    for sess, train, _ in (plain, fused):
        sess.run(train)
    for want, have in zip(plain[0].run(plain[2]), fused[0].run(fused[2])):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-7)
    both = {OURS: fused, "TensorFlow": plain}
    runners = {name: sessions.turn_of(sess, train, STEPS) for name, (sess, train, _) in both.items()}
    facts = {"Variables": len(shapes), "rows with a gradient": rows or "all"}
    rates = contest(runners, STEPS * 1e6, seconds=3.0)
    return Result("variable_updates", f"{what} {optimizer}", shapes[0][-1], "uniform", threads, "steps/s", rates, facts)


def session(optimizer: Any, shapes: List[Tuple[int, ...]], rows: int, fuse: bool) -> Tuple[Any, Any, Any]:
    """A session, its train op, and its Variables."""
    with tf.Graph().as_default() as graph:
        rng = np.random.RandomState(0)
        make = lambda shape, trainable: v1.Variable(  # noqa: E731
            tf.constant(rng.standard_normal(shape), tf.float32), trainable=trainable, use_resource=True
        )
        variables = [make(shape, True) for shape in shapes]
        grads: List[Any] = [make((rows or shape[0], *shape[1:]), False).read_value() for shape in shapes]
        if rows:
            ids = [v1.Variable(rng.randint(0, shape[0], rows), trainable=False, use_resource=True) for shape in shapes]
            grads = [tf.IndexedSlices(g, i.read_value(), tf.constant(s)) for g, i, s in zip(grads, ids, shapes)]
        train = optimizer.apply_gradients(zip(grads, variables))
        if fuse:
            assert VariableUpdates().run(GraphView(graph)).modified
        sess = v1.Session(graph=graph)
        sess.run(v1.global_variables_initializer())
        return sess, train, variables
