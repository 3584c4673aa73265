"""Lookups of dense ids in Variables after the pass: one gather, constant shapes in gradients, the same bits and errors."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import as_input, check_same, minimized, run, running, v1, variable

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.variable_gathers import VariableGathers

PASS = [VariableGathers()]
lookup = tf.nn.embedding_lookup


def ids(seed, shape, high, dtype=np.int64):
    return as_input(np.random.RandomState(seed).randint(0, high, shape).astype(dtype))


def gathers_of(outcome):
    return [op for op in outcome.graph.get_operations() if op.type == "TfBoosterMultiGather"]


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (0, 3)])
def test_ids_of_any_rank(shape):
    def program():
        return minimized([lookup(variable(f"v{i}", 9 + i, 3 + i), ids(i, shape, 9)) for i in range(4)])

    outcome = check_same(program, PASS)
    (gather,) = gathers_of(outcome)
    assert gather.get_attr("N") == 4
    counts = running(outcome.graph, outcome.graph.get_operation_by_name("Adagrad"))
    assert counts["ResourceGather"] == counts["Size"] == counts["ExpandDims"] == 0


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64])
def test_dtypes_and_vectors_of_scalars(dtype):
    def program():
        tables = [
            v1.Variable(tf.cast(tf.range(24) * (i + 1), dtype), trainable=False, use_resource=True, name=f"v{i}")
            if i
            else v1.Variable(tf.cast(tf.reshape(tf.range(24), [6, 2, 2]), dtype), trainable=False, use_resource=True)
            for i in range(3)
        ]
        return [tf.cast(tf.gather(t, ids(i, (3, 2), 6, np.int32)), tf.float64) * 1.0 for i, t in enumerate(tables)]

    (gather,) = gathers_of(check_same(program, PASS))
    assert gather.get_attr("N") == 3


def test_groups_by_dtype_and_index_type():
    def program():
        x = [lookup(variable(f"v{i}", 5, 2), ids(i, (3,), 5, (np.int32, np.int64)[i % 2])) for i in range(4)]
        return minimized([*x, tf.cast(lookup(variable("d", 5, 2, tf.float64), ids(9, (3,), 5)), tf.float32)])

    assert sorted(op.get_attr("N") for op in gathers_of(check_same(program, PASS))) == [2, 2]


def test_one_variable_twice_and_chains_of_lookups():
    def program():
        table = variable("v", 7, 7)
        first = lookup(table, ids(1, (4,), 7))
        second = lookup(table, tf.argmax(first, axis=1))
        third = lookup(table, ids(2, (4,), 7))
        return minimized([first, second, third])

    (gather,) = gathers_of(check_same(program, PASS))
    assert gather.get_attr("N") == 2  # The second lookup needs the first.


@pytest.mark.parametrize("bad", [-1, 7])
def test_index_outside_is_the_same_error(bad):
    def program():
        index = as_input(np.array([[0, 1], [bad, 2]]))
        return [tf.gather(variable("a", 9, 2), index + 1) * 1.0, tf.gather(variable("b", 7, 2), index) * 1.0]

    for passes in ((), PASS):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{bad}.* is not in \\[0, 7\\)"):
            run(program, passes)


def test_variable_that_is_not_initialized_is_the_same_error():
    errors = []
    for boosted in (False, True):
        with tf.Graph().as_default() as graph:
            fetches = [tf.gather(variable(f"v{i}", 5, 2), ids(i, (3,), 5)) * 1.0 for i in range(2)]
            if boosted:
                assert pipelines.rewrite(graph, Options(), only=PASS).passes[0].modified
            with v1.Session() as session, pytest.raises(tf.errors.OpError) as caught:
                session.run(fetches)
            errors.append(type(caught.value))
    assert errors[0] is errors[1]


def test_reads_and_writes_keep_their_order():
    def program():
        a, b = variable("a", 4, 2), variable("b", 4, 2)
        index = ids(1, (3,), 4)
        before = [lookup(a, index) * 1.0, lookup(b, index) * 1.0]
        with tf.control_dependencies(before), tf.control_dependencies([a.assign_add(tf.ones([4, 2]))]):
            after = [lookup(a, index) * 1.0, lookup(b, index) * 1.0]
        return before + after

    outcome = check_same(program, PASS)
    assert [op.get_attr("N") for op in gathers_of(outcome)] == [2, 2]


def test_loops_are_left_with_a_reason():
    def program():
        table = variable("v", 6, 3)
        total = v1.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, x + tf.reduce_sum(tf.gather(table, tf.range(i)))),
            (tf.constant(0), tf.constant(0.0)),
        )[1]
        return [total * 1.0, tf.gather(table, ids(1, (3,), 6)) * 1.0, tf.gather(table, ids(2, (3,), 6)) * 1.0]

    v1.disable_control_flow_v2()
    try:
        outcome = check_same(program, PASS)
    finally:
        v1.enable_control_flow_v2()
    (result,) = outcome.report.passes
    assert any("tf.while_loop" in reason for _, reason in result.skipped)
    assert [op.get_attr("N") for op in gathers_of(outcome)] == [2]


def test_results_that_may_be_fetched_beside_an_update_are_left():
    def program():
        tables = [variable(f"v{i}", 5, 2) for i in range(2)]  # tf.gather of TensorFlow 2.12 puts a copy behind the op.
        return minimized(
            [
                tf.raw_ops.ResourceGather(resource=t.handle, indices=ids(i, (3,), 5), dtype=t.dtype)
                for i, t in enumerate(tables)
            ]
        )

    outcome = check_same(program, PASS)
    assert gathers_of(outcome) == []
    assert all("may be fetched" in reason for _, reason in outcome.report.passes[0].skipped)


def test_batch_dims_are_left():
    def program():
        table = variable("v", 4, 6)
        return [tf.gather(table, ids(1, (4, 2), 6), batch_dims=1) * 1.0]

    outcome = check_same(program, PASS)
    assert gathers_of(outcome) == []
