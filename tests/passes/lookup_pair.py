"""One program twice: as TensorFlow runs it, and after some passes; with what both compute.

Grappler's arithmetic optimizer is off: it regroups factors by what it finds around them, so that two graphs of the same ops at
one place differ in the last bit there if they differ elsewhere.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.base import Pass
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.order_free_unique import OrderFreeUnique
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.variable_gathers import VariableGathers

v1 = tf.compat.v1


class Outcome(NamedTuple):
    values: List[np.ndarray]  # Of every fetch at every step, then of every trainable Variable.
    graph: tf.Graph
    report: Any
    fetches: List[Any]

    def running(self) -> collections.Counter:
        """How often each type of op occurs among what the fetches need."""
        return running(self.graph, *self.fetches)


def _config() -> v1.ConfigProto:
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.arithmetic_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return config


def lookup_passes() -> List[Pass]:
    return [SparseLookups(), VariableGathers(), OrderFreeUnique()]


def run(
    program: Callable[[], Sequence[Any]], passes: Sequence[Pass] = (), steps: int = 3, feed: Callable[[], Dict] = dict
) -> Outcome:
    """`program` builds a graph and returns its fetches; a train op may be among them."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(7)
        fetches = list(program())
        report = pipelines.rewrite(graph, Options(), only=passes) if passes else None
        with v1.Session(config=_config()) as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            values = []
            for _ in range(steps):
                values += [v for v in session.run(fetches, feed()) if v is not None]
            values += session.run(v1.trainable_variables())
    return Outcome([np.asarray(v) for v in values], graph, report, fetches)


def check_same(program: Callable[[], Sequence[Any]], passes: Sequence[Pass] = (), **kwargs: Any) -> Outcome:
    """Runs both; every bit must be the same."""
    plain = run(program, **kwargs)
    boosted = run(program, passes or lookup_passes(), **kwargs)
    assert len(plain.values) == len(boosted.values)
    for i, (a, b) in enumerate(zip(plain.values, boosted.values)):
        np.testing.assert_array_equal(a, b, err_msg=f"value {i}")
        assert a.dtype != np.float32 or a.view(np.uint32).tolist() == b.view(np.uint32).tolist(), f"bits of value {i}"
    return boosted


def running(graph: tf.Graph, *fetches: Any) -> collections.Counter:
    """How often each type of op occurs among what `fetches` need."""
    seen, work = set(), [f if isinstance(f, tf.Operation) else f.op for f in fetches]
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work.extend([t.op for t in op.inputs] + list(op.control_inputs))
    assert all(op.graph is graph for op in seen)
    return collections.Counter(op.type for op in seen)


def minimized(outputs: Sequence[tf.Tensor], optimizer: Any = None) -> List[Any]:
    """`outputs`, a loss of them that depends on each element in its own way, and the train op."""
    loss = tf.add_n([tf.reduce_sum(tf.sin(x * (1.0 + 0.1 * i)) * tf.cos(0.3 * x)) for i, x in enumerate(outputs)])
    optimizer = optimizer or v1.train.AdagradOptimizer(0.1)
    return [*outputs, loss, optimizer.minimize(loss)]


def variable(name: str, rows: int, dim: int, dtype: tf.DType = tf.float32) -> tf.Variable:
    values = np.random.RandomState(rows + dim).standard_normal((rows, dim))
    return v1.get_variable(name, initializer=tf.constant(values, dtype), use_resource=True)


def as_input(array: np.ndarray) -> tf.Tensor:
    """Of unknown size, as what comes from a parser is."""
    return v1.placeholder_with_default(array, [None] * array.ndim)


def sparse_input(rows: Sequence[Sequence[int]], dtype: Any = np.int64, shape: Sequence[int] = ()) -> tf.SparseTensor:
    """A SparseTensor of unknown size with these ids in its rows; rank 2 unless `shape` reshapes its dense shape."""
    indices = [(r, c) for r, ids in enumerate(rows) for c in range(len(ids))]
    values = np.array([i for ids in rows for i in ids], dtype)
    dense = [len(rows), max([len(ids) for ids in rows] + [1])]
    return sparse_tensor(np.array(indices, np.int64).reshape(-1, 2), values, dense)


def sparse_tensor(indices: np.ndarray, values: np.ndarray, dense_shape: Sequence[int]) -> tf.SparseTensor:
    return tf.SparseTensor(
        tf.ensure_shape(as_input(indices), [None, indices.shape[1]]),
        as_input(values),
        tf.ensure_shape(as_input(np.array(dense_shape, np.int64)), [len(dense_shape)]),
    )


def ragged_ids(seed: int, rows: int, ids: int, low: int = -2, longest: int = 25) -> List[List[int]]:
    """Rows of all lengths from none to more than the blocks that TensorFlow sums in; duplicates; ids from `low` on."""
    rng = np.random.RandomState(seed)
    return [list(rng.randint(low, ids, rng.randint(0, longest))) for _ in range(rows)]


def check_second_run(build: Callable[[], Any], before: Sequence[Pass], tested: Pass) -> None:
    """A second run of the pass `tested`, behind those of `before`, changes nothing."""
    with tf.Graph().as_default() as graph:
        build()
        assert pipelines.rewrite(graph, Options(), only=[*before, tested]).passes[-1].modified
        ops = graph.get_operations()
        assert not tested.run(GraphView(graph)).modified
        assert graph.get_operations() == ops


def check_waits(
    inputs: Callable[[], Any], build: Callable[[Any], Sequence[tf.Tensor]], passes: Sequence[Pass], made: str
) -> None:
    """What `build` makes of `inputs` behind an assertion waits for it still, when `passes` have made ops of type `made` of it."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        given, allowed = inputs(), v1.placeholder_with_default(True, [])
        with tf.control_dependencies([tf.debugging.Assert(allowed, ["not allowed"])]):
            ends = build(given)
        pipelines.rewrite(graph, Options(), only=passes)
        session.run(v1.tables_initializer())
        assert running(graph, ends[0])[made]
        for end in ends:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
                session.run(end, {allowed: False})
