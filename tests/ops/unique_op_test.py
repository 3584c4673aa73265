"""TfBoosterUnique against numpy."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native


def check(x, out_idx=tf.int32):
    y, idx = (a.numpy() for a in _native.ops().tf_booster_unique(x, out_idx=out_idx))
    assert y.dtype == x.dtype and idx.dtype == out_idx.as_numpy_dtype and idx.shape == x.shape
    np.testing.assert_array_equal(np.sort(y), np.unique(x))
    np.testing.assert_array_equal(y[idx], x)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("out_idx", [tf.int32, tf.int64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (100,), (0, 2), (3, 4, 5)])
def test_shapes_and_types(dtype, out_idx, shape):
    check(np.random.RandomState(0).randint(-7, 7, shape).astype(dtype), out_idx)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("out_idx", [tf.int32, tf.int64])
@pytest.mark.parametrize("n", [0, 1, 200, 100_000])
def test_counts(dtype, out_idx, n):
    x = np.random.RandomState(0).randint(-7, 50, n).astype(dtype)
    y, idx, count = (a.numpy() for a in _native.ops().tf_booster_unique_with_counts(x, out_idx=out_idx))
    assert idx.dtype == count.dtype == out_idx.as_numpy_dtype
    np.testing.assert_array_equal(y[idx], x)
    np.testing.assert_array_equal(count, [np.sum(x == value) for value in y])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_extreme_values(dtype):
    info = np.iinfo(dtype)
    check(np.asarray([0, -1, info.min, info.max, 0, info.min, 1, -1], dtype))


@pytest.mark.parametrize("distinct", [1, 1000, 300_000])
def test_large_batches_on_all_threads(distinct):
    check(np.random.RandomState(1).randint(0, distinct, 300_000).astype(np.int64))


def test_static_shapes():
    with tf.Graph().as_default():
        out = _native.ops().tf_booster_unique(tf.compat.v1.placeholder(tf.int32, [None, 3]))
        assert out.y.shape.as_list() == [None] and out.idx.shape.as_list() == [None, 3]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), max_size=200))
def test_any_values(values):
    check(np.asarray(values, np.int64))
