"""Small layers that write where they are joined, and gradients read where they would be split: the same bits, and what is left."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_second_run, run, running

from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_layers import JoinedLayers
from tf_booster.passes.small_matmuls import SmallMatMuls

v1 = tf.compat.v1
BATCH = 40
TYPES = ("TfBoosterJoinedMultiMatMul", "TfBoosterConcatColumns", "TfBoosterSplitColumns")


def before():
    return [SmallMatMuls(), Columns()]


def tower(x, i, width, activation):
    shape = [x.shape[1], width]
    kernel = v1.get_variable(f"kernel_{i}", shape, initializer=v1.glorot_uniform_initializer(seed=i), use_resource=True)
    bias = v1.get_variable(f"bias_{i}", [width], initializer=v1.constant_initializer(0.1), use_resource=True)
    y = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return y if activation is None else activation(y)


def program(towers=5, activation=tf.nn.relu, batch=None, numbers=True, more=None, wait=lambda: []):
    """Layers of several widths, numbers among them, joined. more: what else is made of the layers, for the loss. wait: what layers wait for."""

    def build():
        values = np.random.RandomState(0).standard_normal((BATCH, 6)).astype(np.float32)
        x = v1.placeholder_with_default(values, [batch, 6])
        with tf.control_dependencies(wait()):
            out = [tower(tf.sin(x * (1.0 + 0.1 * i)), i, 3 + i % 3, activation) for i in range(towers)]
            joined = tf.concat([*out[:2], x, *out[2:]] if numbers else out, 1)
        loss = tf.reduce_sum(tf.square(joined) * tf.cumsum(tf.ones_like(joined) * 0.01, 1))
        loss = loss if more is None else loss + more(out)
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, joined, train]

    return build


def check(built, want):
    """Bits are those without the pass; `want`: how often each of TYPES runs in the training step."""
    plain, outcome = run(built, before()), run(built, [*before(), JoinedLayers()])
    assert len(plain.values) == len(outcome.values)
    for mine, theirs in zip(outcome.values, plain.values):
        assert mine.tobytes() == theirs.tobytes()
    counts = running(outcome.graph, outcome.graph.get_collection(v1.GraphKeys.TRAIN_OP)[0])
    assert tuple(counts[op_type] for op_type in TYPES) == want
    return outcome.report.passes[-1].changes


@pytest.mark.parametrize("batch", [BATCH, None])
@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("towers", [5, 20])
def test_layers_with_relu(towers, numbers, batch):
    changes = check(program(towers, batch=batch, numbers=numbers), (1, 0, 0))
    assert changes == ["1 joins, to which layers write", "1 splits, which are read where they lie"]


def test_layers_without_relu():
    # The split's parts are gradients of products as well, so it stays.
    assert check(program(activation=None), (1, 0, 1)) == ["1 joins, to which layers write"]


def test_a_split_alone():
    """A layer's result is read elsewhere: the layers keep their tensors, but gradients are read where they lie."""

    def more(out):
        weights = v1.get_variable("weights", [4], initializer=v1.ones_initializer(), use_resource=True)
        return tf.reduce_sum(tf.stop_gradient(out[4]) * weights)

    changes = check(program(more=more), (0, 1, 0))
    assert changes == ["1 splits, which are read where they lie"]


def test_what_leads_back_into_the_join():
    def build():
        x = v1.placeholder_with_default(
            np.random.RandomState(0).standard_normal((BATCH, 6)).astype(np.float32), [None, 6]
        )
        out = [tower(tf.sin(x * (1.0 + 0.1 * i)), i, 4, tf.nn.relu) for i in range(5)]
        (slope,) = tf.gradients(tf.add_n(out), v1.trainable_variables()[1])
        joined = tf.concat([*out, x * tf.reduce_sum(slope)], 1)
        loss = tf.reduce_sum(tf.square(joined))
        train = v1.train.GradientDescentOptimizer(0.001).minimize(loss)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, train]

    assert check(build, (0, 1, 1)) == []  # The gradient goes through the slope, too, so the split stays.


def test_what_waits_and_is_waited_for():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True, trainable=False)
        fetches = program(wait=lambda: [counter.assign_add(1.0).op])()
        with tf.control_dependencies([fetches[1].op]):
            return [*fetches, tf.identity(counter.read_value())]

    check(build, (1, 0, 0))


def test_a_layer_and_a_part_of_the_gradient_can_be_fetched_still():
    def build():
        fetches = program()()
        graph = v1.get_default_graph()
        relu = next(op for op in graph.get_operations() if op.type == "Relu")
        part = next(op for op in graph.get_operations() if op.type == "ReluGrad")
        return [*fetches[:2], relu.outputs[0], part.inputs[0], part.outputs[0], fetches[2]]

    check(build, (1, 0, 0))


def test_a_second_run_changes_nothing():
    check_second_run(program(), before(), JoinedLayers())


def test_names_lead_back():
    outcome = run(program(), [*before(), JoinedLayers()], steps=1)
    view = GraphView(outcome.graph)
    (made,) = view.ops("TfBoosterJoinedMultiMatMul")
    names = view.originals(made)
    assert "MatMul" in names and "Relu_4" in names and "concat" in names
