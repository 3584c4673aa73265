"""The pass known_shapes: shapes of which one dimension is unknown are not computed, others are."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, minimized, running, variable

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.known_shapes import KnownShapes
from tf_booster.passes.same_shapes import SameShapes

v1 = tf.compat.v1
PASSES = [KnownShapes()]
ROWS = 6
SHAPES = ("BroadcastGradientArgs", "DynamicStitch", "GatherV2", "Prod", "Shape", "ShapeN", "StridedSlice", "Unpack")


def given(*columns, rows=ROWS, seed=0, batch=None):
    array = np.random.RandomState(seed).standard_normal((rows, *columns)).astype(np.float32)
    return v1.placeholder_with_default(array, [batch, *columns])


def computed(same):
    """What a program still computes from shapes, by type of op."""
    counts = running(same.graph, *same.fetches)
    return {kind: counts[kind] for kind in SHAPES if counts[kind]}


def tensordot(x=None):
    return tf.tensordot(given(5, 4) if x is None else x, variable("kernel", 4, 3), axes=[[-1], [0]])


def two_layers():
    hidden = tf.nn.relu(tf.nn.bias_add(tensordot(), tf.squeeze(variable("bias", 1, 3), 0)))
    return tf.sigmoid(tf.tensordot(hidden, variable("out", 3, 2), axes=(-1, 0)))


def heads():
    """Attention of two heads over five places."""
    x = given(5, 4)
    split = tf.transpose(tf.reshape(x, [tf.shape(x)[0], 5, 2, 2]), [0, 2, 1, 3])
    weights = tf.nn.softmax(tf.matmul(split, split, transpose_b=True))
    return tf.reshape(tf.transpose(tf.matmul(weights, split), [0, 2, 1, 3]), [-1, 5, 4])


def of_rows_in_a_row():
    x = given(5, 4)
    return tf.reshape(tf.reshape(x, [tf.shape(x)[0] * 5, 4]) * 2.0, [-1, 20])


ALONE = {
    "tensordot": tensordot,
    "of a matrix": lambda: tensordot(given(4)),
    "of four dimensions": lambda: tensordot(given(2, 5, 4)),
    "one row": lambda: tensordot(given(5, 4, rows=1)),
    "no rows": lambda: tensordot(given(5, 4, rows=0)),
    "two layers": two_layers,
    "heads": heads,
    "rows in a row": of_rows_in_a_row,
    "the rest by -1": lambda: (lambda x: tf.reshape(x, [tf.shape(x)[0], -1]))(given(5, 4)),
    "unstacked": lambda: (lambda x: tf.reshape(x, [tf.unstack(tf.shape(x))[0], 20]))(given(5, 4)),
    "by 64-bit shapes": lambda: (lambda x: tf.reshape(x, [tf.shape(x, tf.int64)[0], 20]))(given(5, 4)),
    "behind a join": lambda: tensordot(tf.concat([given(5, 3), given(5, 1, seed=1)], 2)),
    "behind parts": lambda: tensordot(tf.split(given(5, 8), 2, axis=2)[1]),
    "behind a stack": lambda: tensordot(tf.stack([given(4, seed=i) for i in range(5)], 1)),
    "behind a part": lambda: tensordot(tf.slice(given(9, 4), [0, 2, 0], [-1, 5, 4])),
    "behind a lookup": lambda: tensordot(v1.nn.embedding_lookup(variable("rows", 9, 4), tf.cast(tf.abs(given(5)), tf.int64))),
    "behind a sum": lambda: tensordot(tf.reduce_sum(given(2, 5, 4), 1)),
    "strings": lambda: (lambda x: tf.reshape(tf.as_string(x), [tf.shape(x)[0], 20]))(tf.identity(given(5, 4))),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
def test_no_shapes_are_computed(kind):
    same = check_same(lambda: [ALONE[kind]()], PASSES)
    assert computed(same) == {}, same.report.passes[0]


def broadcast():
    x = given(5, 4)
    return x * tf.squeeze(variable("a", 1, 4), 0) + variable("b", 5, 4) * tf.reduce_mean(
        x * variable("c", 1, 4), 1, keepdims=True
    )


TRAINED = {
    "tensordot": tensordot,
    "of a matrix": lambda: tensordot(given(4)),
    "no rows": lambda: tensordot(given(5, 4, rows=0)),
    "one row": lambda: tensordot(given(5, 4, rows=1)),
    "two layers": two_layers,
    "heads": lambda: heads() * variable("scale", 5, 4),
    "broadcast": broadcast,
    "broadcast of one row": lambda: given(5, 4, rows=1) * tf.squeeze(variable("a", 1, 4), 0),
    "sums": lambda: tf.reduce_sum(given(5, 4) * variable("a", 5, 4), 2),
    "products of matrices": lambda: (lambda x: tf.matmul(x, x * variable("a", 5, 4), transpose_b=True))(given(5, 4)),
}


@pytest.mark.parametrize("kind", TRAINED)
def test_gradients(kind):
    """Nor are any where a program trains, but for what repeats a sum's gradient, which has to know how often."""
    same = check_same(lambda: minimized([TRAINED[kind]()]), [KnownShapes(), SameShapes()])
    left = computed(same)
    assert not [kind for kind in left if kind not in ("Shape", "StridedSlice", "GatherV2", "Prod")], left
    assert left.get("Shape", 0) <= 4, left  # One more with TensorFlow 2.12 than with later ones.


def test_shapes_that_wait_for_what_runs_before_every_step():
    def build():
        steps = v1.get_variable("steps", initializer=0, use_resource=True, trainable=False)
        y = two_layers()
        with tf.control_dependencies([steps.assign_add(1)]):
            fetches = minimized([y])
        with tf.control_dependencies([fetches[-1]]):
            return [*fetches[:-1], steps.read_value(), fetches[-1]]

    same = check_same(build, PASSES)
    assert computed(same).get("Shape", 0) <= 3
    assert running(same.graph, same.fetches[0])["AssignAddVariableOp"] == 0
    assert running(same.graph, same.fetches[-1])["AssignAddVariableOp"] == 1
    # They wait for it by what they reshape.
    assert not [
        op for op in same.graph.get_operations() if op.name.startswith("tf_booster/shape") and op.control_inputs
    ]


@pytest.mark.parametrize("are_axes", [False, True])
def test_what_alone_waits(are_axes):
    """Nothing but a shape, or axes of a sum that are none, waits for the count."""

    def build():
        steps = v1.get_variable("steps", initializer=0, use_resource=True, trainable=False)
        x = given(5, 4)
        y, z = tf.sin(x), tf.cos(x)
        with tf.control_dependencies([steps.assign_add(1)]):
            shape, other = tf.shape(y), tf.shape(z)
        if are_axes:
            axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=other)
            result = tf.reduce_sum(y, axes, keepdims=True) + 1.0
        else:
            result = tf.reshape(y, [shape[0], 20])
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, result.op)
        return [result]

    same = check_same(build, PASSES)
    assert computed(same) == {} and running(same.graph, *same.fetches)["AssignAddVariableOp"] == 1


def test_a_row_that_may_be_many():
    """Both have an unknown number of rows, of which one is 1: its gradient has to be summed."""

    def build():
        row = given(5, 4, rows=1, seed=1) * variable("a", 5, 4)
        return minimized([given(5, 4) * row])

    assert computed(check_same(build, PASSES))["BroadcastGradientArgs"] == 1


def checked():
    """Reshapes by the shape of a tensor that is checked; nothing else needs it."""
    x = given(5, 4)
    with tf.control_dependencies([tf.debugging.Assert(v1.placeholder_with_default(True, [], name="allowed"), ["no"])]):
        same = tf.identity(x)
    return tf.reshape(x, [tf.shape(same)[0], 20])


def within_a_branch():
    x = given(5, 4)
    kernel = variable("kernel", 4, 3)

    def branch():
        return tf.tensordot(x, kernel, axes=[[-1], [0]])

    return tf.cond(tf.reduce_sum(x) > -1e9, branch, lambda: -branch())


def for_xla():
    with tf.xla.experimental.jit_scope():
        return tensordot()


STAY = {
    "compiled by XLA": for_xla,
    "two unknown dimensions": lambda: tensordot(tf.ensure_shape(v1.placeholder_with_default(np.ones((2, 3, 4), np.float32), [None, None, 4]), [None, None, 4])),
    "rows of another": lambda: tf.reshape(given(5, 4), [tf.shape(given(3, seed=1))[0], 20]),
    "half the rows": lambda: (lambda x: tf.reshape(x, [tf.shape(x)[0] // 2, 40]))(given(5, 4)),
    "no columns": lambda: (lambda x: tf.reshape(x, [tf.shape(x)[0], 0]))(given(0)),
    "a checked tensor": checked,
    "unknown rank": lambda: (lambda x: tf.reshape(x, [tf.shape(x)[0], 20]))(v1.placeholder_with_default(np.ones((6, 5, 4), np.float32), None)),
    "a shape that is fed": lambda: tf.reshape(given(5, 4), v1.placeholder_with_default([6, 20], [2])),
}  # fmt: skip


@pytest.mark.parametrize("kind", STAY)
def test_others_stay(kind):
    same = check_same(lambda: [STAY[kind]()], PASSES)
    assert [op for op in same.graph.get_operations() if op.type == "Reshape" and op.inputs[1].op.type != "Const"]


def test_control_flow_is_left_alone():
    check_same(lambda: [within_a_branch()], PASSES)


def test_a_tensor_is_checked_still():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        y = [checked(), two_layers()]
        session.run(v1.global_variables_initializer())
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].changes == ["4 reshapes to constant shapes"]
        assert session.run(y)[0].shape == (ROWS, 20)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(y[0], {"allowed:0": False})


def test_what_does_not_fit_fails_as_before():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x, other = given(5, 4), given(3, seed=1)
        y = [tf.reshape(x, [tf.shape(other)[0], 20]), tensordot(x)]
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
            session.run(y, {other: np.ones((2, 3), np.float32)})


def test_other_numbers_of_rows_and_a_fetch_by_name():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        y = tf.identity(two_layers(), name="y")
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
        session.run(v1.global_variables_initializer())
        for rows in (0, 1, 9):
            assert session.run(y.name, {"PlaceholderWithDefault:0": np.ones((rows, 5, 4), np.float32)}).shape == (
                rows,
                5,
                2,
            )
        shapes = [op for op in graph.get_operations() if op.type == "Shape"]
        assert session.run(shapes[0].outputs[0]).tolist() == [ROWS, 5, 4]


def test_a_second_run_changes_nothing():
    check_second_run(lambda: minimized([two_layers()]), [], KnownShapes())
