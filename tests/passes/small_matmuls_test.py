"""Small layers after the pass: a few ops, the same numbers but for the order of sums, and what is left with its reason."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.small_matmuls import SmallMatMuls

v1 = tf.compat.v1
TOWERS = 5


def tower(x, i, activation, add, widths=(6, 3), dtype=tf.float32):
    with v1.variable_scope(f"tower_{i}", use_resource=True):
        for layer, width in enumerate(widths):
            shape = [x.shape[1], width]
            initializer = v1.glorot_uniform_initializer(seed=10 * i + layer)
            x = tf.matmul(x, v1.get_variable(f"kernel_{layer}", shape, dtype, initializer))
            bias = v1.get_variable(f"bias_{layer}", [width], dtype, v1.constant_initializer(0.1))
            x = activation(tf.nn.bias_add(x, bias) if add == "bias_add" else x + bias)
    return x


def build(activation=tf.nn.relu, add="bias_add", towers=TOWERS, widths=(6, 3), dtype=tf.float32):
    """Towers side by side; returns the loss and the train op."""
    x = v1.placeholder_with_default(np.random.RandomState(0).standard_normal((40, 9)), [None, 9])
    x = tf.cast(x, dtype)
    out = [tower(tf.sin(x * (1.0 + 0.1 * i)), i, activation, add, widths, dtype) for i in range(towers)]
    loss = tf.reduce_mean(tf.square(tf.concat(out, 1) - 0.5))
    return loss, v1.train.GradientDescentOptimizer(0.3).minimize(loss)


def rewrite(graph, passes=None):
    report = pipelines.rewrite(graph, Options(), only=passes or [SmallMatMuls()])
    return next(p for p in report.passes if p.name == "small_matmuls")


def train(program, boosted, steps=30):
    with tf.Graph().as_default() as graph:
        fetches = program()
        result = rewrite(graph) if boosted else None
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            losses = [sess.run(fetches)[0] for _ in range(steps)]
            return losses, sess.run(v1.trainable_variables()), graph, result


def running(graph, name="GradientDescent"):
    """Types of the ops that the train op needs."""
    seen, work = set(), [graph.get_operation_by_name(name)]
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work += [t.op for t in op.inputs] + list(op.control_inputs)
    return collections.Counter(op.type for op in seen)


def check(program):
    """Trains plain and boosted; returns what runs, and the pass's result."""
    losses, variables, _, _ = train(program, False)
    my_losses, my_variables, graph, result = train(program, True)
    np.testing.assert_allclose(my_losses, losses, rtol=1e-5)
    for mine, theirs in zip(my_variables, variables):
        assert np.linalg.norm(mine - theirs) <= 1e-5 * np.linalg.norm(theirs)
    return running(graph), result


def test_layers_with_relu():
    counts, result = check(build)
    assert counts["TfBoosterMultiMatMul"] == 2 + 2 * 2 and counts["TfBoosterMultiBiasGrad"] == 2
    assert not [t for t in ("MatMul", "BiasAdd", "Relu", "ReluGrad", "BiasAddGrad") if counts[t]]
    assert result.changes == ["10 layers by 2 ops", "20 products by 4 ops", "10 gradients of biases by 2 ops"]
    assert result.other_bits
    assert result.skipped == []


@pytest.mark.parametrize("add", ["bias_add", "+"])
def test_layers_with_other_activations(add):
    counts, _ = check(lambda: build(tf.tanh, add))
    assert counts["TfBoosterMultiMatMul"] == 6 and counts["Tanh"] == counts["TanhGrad"] == 2 * TOWERS
    assert not [t for t in ("MatMul", "BiasAdd", "BiasAddGrad") if counts[t]]
    assert counts["AddV2"] <= 1  # The gradient of the mean has one.


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        build()
        rewrite(graph)
        ops = graph.get_operations()
        assert not SmallMatMuls().run(GraphView(graph)).modified
        assert graph.get_operations() == ops


def test_what_stands_between_stays_as_it_is():
    """A MatMul that others read keeps its own result; its BiasAdd is left then."""

    def program():
        loss, _ = build(towers=4, widths=(6,))
        graph = v1.get_default_graph()
        products = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul" and "grad" not in op.name][:4]
        loss += tf.add_n([tf.reduce_sum(tf.square(p)) for p in products]) * 1e-3
        with tf.name_scope("second"):
            return loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    losses, variables, _, _ = train(program, False)
    my_losses, my_variables, graph, _ = train(program, True)
    np.testing.assert_allclose(my_losses, losses, rtol=1e-5)
    counts = running(graph, "second/GradientDescent")
    assert counts["MatMul"] == 0 and counts["BiasAdd"] == counts["Relu"] == 4


@pytest.mark.parametrize(
    "program",
    [
        lambda: build(towers=3),
        lambda: build(widths=(300,)),
        lambda: build(dtype=tf.float64),
        lambda: tf.cond(tf.constant(True), build, lambda: (tf.constant(0.0), tf.no_op())),
    ],
    ids=["few", "large", "float64", "in a function"],
)
def test_what_is_left(program):
    with tf.Graph().as_default() as graph:
        program()
        before = graph.as_graph_def()
        result = rewrite(graph)
        assert not result.modified and graph.as_graph_def() == before


def test_products_in_a_v1_cond_are_left():
    with tf.Graph().as_default() as graph:
        v1.disable_control_flow_v2()
        try:
            x = v1.placeholder_with_default(np.ones((4, 3), np.float32), [None, 3])
            weights = [v1.get_variable(f"w{i}", [3, 2], use_resource=True) for i in range(5)]
            v1.cond(tf.reduce_sum(x) > 0, lambda: tf.add_n([x @ w for w in weights]), lambda: tf.zeros([4, 2]))
            assert not rewrite(graph).modified
        finally:
            v1.enable_control_flow_v2()


def test_what_xla_compiles_is_left():
    with tf.Graph().as_default() as graph:
        with tf.xla.experimental.jit_scope():
            build()
        assert not rewrite(graph).modified


def test_what_the_layers_waited_for_still_runs_first():
    with tf.Graph().as_default() as graph:
        seen = v1.get_variable("seen", [], initializer=v1.zeros_initializer(), use_resource=True)
        x = tf.ones([2, 3])
        with tf.control_dependencies([seen.assign_add(1.0)]):
            products = [tf.matmul(x, tf.ones([3, 2]) * float(i)) for i in range(4)]
        total = tf.add_n(products)
        assert rewrite(graph).modified
        with v1.Session() as sess:
            sess.run(seen.initializer)
            np.testing.assert_array_equal(sess.run(total), np.full((2, 2), 18.0))
            assert sess.run(seen) == 1.0


def test_names_lead_back():
    with tf.Graph().as_default() as graph:
        build()
        rewrite(graph)
        made = [op for op in graph.get_operations() if op.name.startswith("tf_booster/")]
        names = {name for op in made for name in GraphView(graph).originals(op)}
        assert len(made) == 8 and {"tower_0/MatMul", "tower_4/Relu_1"} <= names
