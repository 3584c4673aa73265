"""TfBoosterGatherBatchMatMul against numpy: every form, sizes of 0, broadcasting, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

INVALID = tf.errors.InvalidArgumentError


def gather_matmul(x, y, rows, gathered, **adj):
    x, y = tf.constant(x, tf.float32), tf.constant(y, tf.float32)
    return _native.ops().tf_booster_gather_batch_mat_mul(x=x, y=y, rows=rows, gathered=gathered, **adj)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_equals_numpy(data):
    size = lambda low, high: data.draw(st.integers(low, high))
    few, batch = size(1, 4), size(0, 9)
    m, k, n = size(0, 5) or 1, size(0, 20), size(0, 19)
    inner = [size(1, 3) for _ in range(size(0, 2))]
    gathered, adj_x, adj_y = data.draw(st.sampled_from("xy")), data.draw(st.booleans()), data.draw(st.booleans())
    rows = np.array([size(0, few - 1) for _ in range(batch)], data.draw(st.sampled_from([np.int32, np.int64])))
    other = data.draw(st.sampled_from([batch, 1, size(2, 5)] if batch == 1 else [batch, 1]))
    random = np.random.RandomState(batch)

    def side(name, *matrix):
        own = [d if data.draw(st.booleans()) else 1 for d in inner]
        return random.standard_normal([few if name == gathered else other, *own, *matrix]).astype(np.float32)

    x = side("x", *((k, m) if adj_x else (m, k)))
    y = side("y", *((n, k) if adj_y else (k, n)))
    found = gather_matmul(x, y, rows, gathered, adj_x=adj_x, adj_y=adj_y)
    left, right = (x[rows], y) if gathered == "x" else (x, y[rows])
    left = np.swapaxes(left, -1, -2) if adj_x else left
    right = np.swapaxes(right, -1, -2) if adj_y else right
    want = np.matmul(left.astype(np.float64), right)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_shapes_are_known_as_far_as_they_can_be():
    with tf.Graph().as_default():
        holder = tf.compat.v1.placeholder
        rows = holder(tf.int32, [None])
        made = (
            lambda x, y, **how: _native.ops()
            .tf_booster_gather_batch_mat_mul(x=holder(tf.float32, x), y=holder(tf.float32, y), rows=rows, **how)
            .shape.as_list()
        )
        assert made([None, 1, 8], [3, 6, 8], gathered="y", adj_y=True) == [None, 1, 6]
        assert made([3, 2, 6, 8], [7, 2, 8, None], gathered="x") == [7, 2, 6, None]
        assert tf.TensorShape(None).rank is None
        with pytest.raises(ValueError, match="x has rank 3, y rank 4; wanted one rank"):
            made([1, 2, 3], [1, 1, 3, 4], gathered="x")
        with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 5"):
            made([1, 2, 3], [1, 5, 4], gathered="x")


@pytest.mark.parametrize(
    "x, y, rows, message",
    [
        ([4, 1, 3], [2, 3, 5], [0, 1, 2, 0], r"rows\[2\] = 2 is not in \[0, 2\), the rows of y"),
        ([4, 1, 3], [2, 3, 5], [0, 1, -1, 0], r"rows\[2\] = -1 is not in"),
        ([4, 1, 3], [2, 3, 5], [0, 1, 1], r"x is \[4,1,3\], rows is \[3\]; wanted a row for each of them, or one"),
        ([4, 1, 3], [0, 3, 5], [0, 0, 0, 0], r"rows\[0\] = 0 is not in \[0, 0\)"),
    ],
)
def test_what_does_not_fit_is_told(x, y, rows, message):
    with pytest.raises(INVALID, match=message):
        gather_matmul(np.ones(x), np.ones(y), tf.constant(rows), "y")


def test_infinities_and_nan_stay_in_their_rows():
    x, y = np.ones([3, 1, 2]), np.ones([2, 2, 4])
    x[1, 0, 0] = np.nan
    y[1, 1, 3] = np.inf
    found = gather_matmul(x, y, tf.constant([0, 0, 1]), "y").numpy()[:, 0]
    assert np.isnan(found[1]).all() and not np.isnan(found[[0, 2]]).any()
    assert np.isinf(found[2]).tolist() == [False, False, False, True]
