"""TfBoosterMultiMatMul, TfBoosterJoinedMultiMatMul and TfBoosterMultiBiasGrad against TensorFlow's ops; the sums themselves are tested in cc/core/products."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

v1 = tf.compat.v1
SHAPES = [(1, 1, 1), (7, 3, 5), (256, 8, 8), (5, 0, 3), (0, 4, 2), (33, 17, 40)]  # Rows, inner, columns.


def normal(*shape):
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32)


def evaluate(*fetches):
    with v1.Session() as sess:
        return sess.run(list(fetches))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("bias, relu", [(False, False), (True, False), (True, True)])
def test_products(transpose_a, transpose_b, bias, relu):
    with tf.Graph().as_default():
        a = [tf.constant(normal(k, m) if transpose_a else normal(m, k)) for m, k, _ in SHAPES]
        b = [tf.constant(normal(n, k) if transpose_b else normal(k, n)) for _, k, n in SHAPES]
        biases = [tf.constant(normal(n)) for _, _, n in SHAPES] if bias else []
        made = _native.ops().tf_booster_multi_mat_mul(
            a=a, b=b, bias=biases, transpose_a=transpose_a, transpose_b=transpose_b, relu=relu
        )
        want = [tf.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b) for x, y in zip(a, b)]
        want = [x + y for x, y in zip(want, biases)] if bias else want
        want = [tf.nn.relu(x) for x in want] if relu else want
        assert [t.shape.as_list() for t in made] == [[m, n] for m, _, n in SHAPES]
        for mine, theirs in zip(*evaluate(made, want)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_of_biases(relu):
    with tf.Graph().as_default():
        upstream = [tf.constant(normal(m, n)) for m, _, n in SHAPES]
        features = [tf.nn.relu(tf.constant(normal(m, n) - 0.2)) for m, _, n in SHAPES] if relu else []
        biases, gradients = _native.ops().tf_booster_multi_bias_grad(upstream=upstream, relu=features)
        want = [tf.raw_ops.ReluGrad(gradients=g, features=f) for g, f in zip(upstream, features)]
        want_biases = [tf.raw_ops.BiasAddGrad(out_backprop=g) for g in want or upstream]
        found = evaluate(biases, want_biases, gradients, want)
        for mine, theirs in zip(found[0], found[1]):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        assert len(found[2]) == len(found[3])
        for mine, theirs in zip(found[2], found[3]):
            np.testing.assert_array_equal(mine, theirs)


def test_an_infinite_gradient_of_a_relu_that_is_off_is_nan_as_in_tensorflow():
    with tf.Graph().as_default():
        upstream, features = tf.constant([[np.inf, np.inf, 1.0]]), tf.constant([[0.0, 2.0, np.nan]])
        _, (mine,) = _native.ops().tf_booster_multi_bias_grad(upstream=[upstream], relu=[features])
        np.testing.assert_array_equal(evaluate(mine)[0], [[np.nan, np.inf, 0.0]])


@pytest.mark.parametrize(
    "a, b, bias, message",
    [
        ([2, 3], [4, 5], None, r"a\[0\] has shape \[2,3\], which does not fit b\[0\] of shape \[4,5\]"),
        ([2, 3], [3, 5], [4], r"bias\[0\] has shape \[4\], wanted \[5\]"),
        ([2, 3, 1], [3, 5], None, r"a\[0\] has shape \[2,3,1\], wanted rank 2"),
    ],
)
def test_shapes_that_do_not_fit(a, b, bias, message):
    with tf.Graph().as_default():
        unknown = [v1.placeholder_with_default(tf.zeros(shape), None) for shape in (a, b, bias) if shape]
        (made,) = _native.ops().tf_booster_multi_mat_mul(a=[unknown[0]], b=[unknown[1]], bias=unknown[2:])
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            evaluate(made)


def test_relu_of_another_shape():
    with tf.Graph().as_default():
        unknown = [v1.placeholder_with_default(tf.zeros(shape), None) for shape in ([2, 3], [3, 3])]
        made, _ = _native.ops().tf_booster_multi_bias_grad(upstream=[unknown[0]], relu=[unknown[1]])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"relu\[0\] has shape \[3,3\], wanted that of upstream"
        ):
            evaluate(made)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]])
@pytest.mark.parametrize("rows", [0, 1, 70])
def test_joined_products(rows, order):
    with tf.Graph().as_default():
        a = [tf.constant(normal(rows, k)) for k in (8, 3, 5)]
        b = [tf.constant(normal(k, n)) for k, n in ((8, 8), (3, 1), (5, 20))]
        bias = [tf.constant(normal(n)) for n in (8, 1, 20)]
        others = [tf.constant(normal(rows, n)) for n in (13, 0)]
        made = _native.ops().tf_booster_joined_multi_mat_mul(a=a, b=b, bias=bias, others=others, order=order, relu=True)
        parts = [*_native.ops().tf_booster_multi_mat_mul(a=a, b=b, bias=bias, relu=True), *others]
        assert made.shape.as_list() == [rows, 42]
        mine, theirs = evaluate(made, tf.concat([parts[i] for i in order], 1))
        np.testing.assert_array_equal(mine, theirs)


def test_joined_products_of_other_rows():
    with tf.Graph().as_default():
        a = [tf.zeros([4, 2]), v1.placeholder_with_default(tf.zeros([5, 2]), None)]
        b = [tf.zeros([2, 3])] * 2
        made = _native.ops().tf_booster_joined_multi_mat_mul(a=a, b=b, bias=[], others=[], order=[0, 1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="product 1 has 5 rows, but product 0 has 4"):
            evaluate(made)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 2], [-1, 0]])
def test_joined_products_in_an_order_that_has_not_all(order):
    with tf.Graph().as_default():
        made = _native.ops().tf_booster_joined_multi_mat_mul(
            a=[tf.zeros([4, 2])], b=[tf.zeros([2, 3])], bias=[], others=[tf.zeros([4, 1])], order=order
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match="order must have each of 0 to 1 once"):
            evaluate(made)


def test_gradients_of_biases_that_are_columns():
    widths, rows = (8, 1, 17, 0, 3), 70
    with tf.Graph().as_default():
        upstream, relu = tf.constant(normal(rows, 30)), tf.nn.relu(tf.constant(normal(rows, 29)))
        read = {"upstream_column": [2, 10, 11, 28, 27], "relu_column": [0, 12, 11, 3, 26], "columns": widths}
        biases, gradients = _native.ops().tf_booster_multi_bias_grad(upstream=[upstream] * 5, relu=[relu] * 5, **read)
        assert [t.shape.as_list() for t in gradients] == [[rows, n] for n in widths]
        want_biases, want = _native.ops().tf_booster_multi_bias_grad(
            upstream=[upstream[:, c : c + n] for c, n in zip(read["upstream_column"], widths)],
            relu=[relu[:, c : c + n] for c, n in zip(read["relu_column"], widths)],
        )
        for mine, theirs in zip(*evaluate([*biases, *gradients], [*want_biases, *want])):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("first", [-1, 2])
def test_gradients_of_columns_that_are_not_there(first):
    with tf.Graph().as_default():
        made, _ = _native.ops().tf_booster_multi_bias_grad(
            upstream=[tf.zeros([4, 4])], relu=[], columns=[3], upstream_column=[first], relu_column=[]
        )
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"upstream\[0\] has shape \[4,4\], which has no columns"
        ):
            evaluate(made)
