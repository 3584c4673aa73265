"""Joins and splits of many narrow tensors after the pass: fewer ops, the same bits, and what is left."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_waits, run

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
ROWS = 6


def program(parts, width=3, axis=1, batch=ROWS, beside=True):
    """Parts that are joined, with numbers beside them that nothing is trained of; their sum of squares is trained."""

    def build():
        values = [
            v1.get_variable(f"v{i}", [ROWS, width], initializer=v1.random_normal_initializer(seed=i), use_resource=True)
            for i in range(parts)
        ]
        placed = [v1.placeholder_with_default(tf.tanh(v), [batch, width]) for v in values]
        if beside:
            placed.append(v1.placeholder_with_default(np.ones((ROWS, width), np.float32), [batch, width]))
        joined = tf.concat(placed, axis)
        loss = tf.reduce_sum(tf.square(joined) * tf.cumsum(tf.ones_like(joined), 1))
        return [loss, joined, v1.train.GradientDescentOptimizer(0.01).minimize(loss)]

    return build


def live(outcome):
    """Types of the ops that the train op and the fetches need."""
    found, work = set(), [op for op in outcome.graph.get_operations() if op.type == "ResourceApplyGradientDescent"]
    while work:
        op = work.pop()
        if op not in found:
            found.add(op)
            work += [t.op for t in op.inputs] + list(op.control_inputs)
    return collections.Counter(op.type for op in found)


@pytest.mark.parametrize("batch", [ROWS, None])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("parts", [5, 20])
def test_a_join_and_its_gradient(parts, axis, batch):
    outcome = check_same(program(parts, axis=axis, batch=batch), [Columns()])
    counts = live(outcome)
    assert counts["TfBoosterConcatColumns"] == counts["TfBoosterSplitColumns"] == 1
    assert counts["ConcatV2"] == counts["SplitV"] == 0
    assert counts["Slice"] == counts["ShapeN"] == 0
    kind = "SplitV" if parts == 20 else "groups of Slices"
    assert outcome.report.passes[0].changes == [f"1 ConcatV2, 1 {kind}: columns copied by kernels for narrow parts"]


@pytest.mark.parametrize(
    "built", [program(2, beside=False), program(5, width=65), program(5, axis=0)], ids=["few", "wide", "rows"]
)
def test_what_is_left(built):
    with tf.Graph().as_default() as graph:
        built()
        before = graph.as_graph_def()
        report = pipelines.rewrite(graph, Options(), only=[Columns()])
        assert not report.passes[0].modified and graph.as_graph_def() == before


@pytest.mark.parametrize("batch", [ROWS, 0, None])
@pytest.mark.parametrize("axis", [1, -2])
def test_a_stack_and_its_gradient(axis, batch):
    def build():
        values = v1.get_variable("v", [ROWS, 5], initializer=v1.random_normal_initializer(seed=1), use_resource=True)
        fed = v1.placeholder_with_default(values[: ROWS if batch is None else batch], [batch, 5])
        stacked = tf.stack([tf.sin(fed * i) for i in range(7)], axis)
        loss = tf.reduce_sum(stacked * tf.cumsum(tf.ones_like(stacked), 1))
        return [loss, tf.identity(stacked), v1.train.GradientDescentOptimizer(0.01).minimize(loss)]

    outcome = check_same(build, [Columns()])
    counts = live(outcome)
    assert counts["TfBoosterConcatColumns"] == counts["TfBoosterSplitColumns"] == 1
    assert counts["Unpack"] == 0 and not [op for op in outcome.graph.get_operations() if op.type == "Pack" and
                                          op.outputs[0].shape.rank == 3 and op.outputs[0].consumers()]  # fmt: skip
    assert outcome.report.passes[0].changes == ["1 Pack, 1 Unpack: columns copied by kernels for narrow parts"]


@pytest.mark.parametrize("axis", [0, 2])
def test_stacks_along_other_axes_are_left(axis):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder_with_default(np.ones((4, 6), np.float32), [None, 6])
        for part in tf.unstack(tf.ensure_shape(tf.stack([x * i for i in range(6)], axis), [None] * 3), 6, axis):
            tf.exp(part)
        assert not pipelines.rewrite(graph, Options(), only=[Columns()]).passes[0].modified


def test_an_axis_that_is_fed_is_left():
    def build():
        axis = v1.placeholder_with_default(1, [])
        return [tf.concat([tf.fill([2, 3], float(i)) for i in range(6)], axis)]

    assert live(check_same(build, [Columns()]))["TfBoosterConcatColumns"] == 0


def test_in_a_v1_cond_it_is_left():
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder_with_default(np.ones((4, 3), np.float32), [None, 3])
            v1.cond(tf.reduce_sum(x) > 0, lambda: tf.concat([x * i for i in range(6)], 1), lambda: tf.zeros([4, 18]))
            assert not pipelines.rewrite(graph, Options(), only=[Columns()]).passes[0].modified
    finally:
        v1.enable_control_flow_v2()


def test_splits_of_users():
    def build():
        x = tf.reshape(tf.range(60), [2, 3, 10])
        sizes = v1.placeholder_with_default([2, -1, 0, 5, 1], [5])
        return [*tf.split(x, sizes, 2), *tf.split(x, [4, 1, 1, 4], -1), tf.concat([x, x, x, x + 1], 2)]

    outcome = run(build, [Columns()], steps=1)
    plain = run(build, steps=1)
    assert [value.tolist() for value in outcome.values] == [value.tolist() for value in plain.values]


def test_what_waits_and_is_waited_for():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.control_dependencies([counter.assign_add(1.0)]):
            joined = tf.concat([tf.fill([2, 2], float(i)) for i in range(5)], 1)
        with tf.control_dependencies([joined.op]):
            return [tf.identity(counter.read_value()), tf.square(joined)]

    outcome = run(build, [Columns()], steps=2)
    assert outcome.values[0] == 1.0 and outcome.values[2] == 2.0


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        program(5)()
        assert pipelines.rewrite(graph, Options(), only=[Columns()]).passes[0].modified
        ops = graph.get_operations()
        assert not Columns().requires(GraphView(graph)) and not Columns().run(GraphView(graph)).modified
        assert graph.get_operations() == ops
        made = next(op for op in ops if op.type == "TfBoosterConcatColumns")
        assert GraphView(graph).originals(made) == ["concat"]


@pytest.mark.parametrize("made", ["TfBoosterConcatColumns", "TfBoosterSplitColumns"])
def test_what_the_constants_of_a_join_or_a_split_wait_for(made):
    """tf.control_dependencies has an op wait by its constants, where it has some: the axis, and the sizes of a split."""
    is_join = made == "TfBoosterConcatColumns"

    def inputs():
        width = 3 if is_join else 20
        return [v1.placeholder_with_default(np.ones((ROWS, width), np.float32), [None, width]) for _ in range(5)]

    def build(given):
        return [tf.concat(given, 1)] if is_join else tf.split(given[0], [3, 5, 4, 6, 2], 1)

    check_waits(inputs, lambda given: [-end for end in build(given)], [Columns()], made)
