"""tf_booster.unique: y[idx] == x, each value once."""

import hypothesis
import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1


def check(x, y, idx):
    assert y.dtype == x.dtype and y.ndim == 1 and idx.shape == x.shape
    np.testing.assert_array_equal(y[idx], x)
    assert len(np.unique(x)) == len(y)


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    npst.arrays(
        st.sampled_from([np.int32, np.int64]),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40),
        elements=st.one_of(st.integers(-4, 4), st.integers(-(2**31), 2**31 - 1)),
    ),
    st.sampled_from([tf.int32, tf.int64]),
)
def test_small(x, out_idx):
    y, idx = tf_booster.unique(x, out_idx=out_idx)
    assert idx.dtype == out_idx
    check(x, y.numpy(), idx.numpy())


@pytest.mark.parametrize(
    "x",
    [
        np.random.RandomState(1).zipf(1.05, 300_000) * -(2**40),
        np.arange(300_000),
        np.arange(200_000, dtype=np.int64) << 44,
        np.full(100_000, -(2**63)),
        np.array([0, -1, 2**63 - 1, -(2**63)] * 30_000),
        np.random.RandomState(1).randint(-(2**31), 2**31, 300_000).astype(np.int32),
    ],
    ids=["zipf", "sequential", "high bits only", "all the same", "extremes", "int32"],
)
def test_large(x):
    y, idx = tf_booster.unique(x)
    check(x, y.numpy(), idx.numpy())


def test_in_a_graph_and_in_a_function():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.int64, [None, 2])
        y, idx = tf_booster.unique(x)
        assert y.shape.as_list() == [None] and idx.shape.as_list() == [None, 2]
        check(np.array([[1, 2], [2, 2]]), *session.run([y, idx], {x: [[1, 2], [2, 2]]}))
    y, idx = tf.function(tf_booster.unique)(tf.constant([3, 3, 1]))
    check(np.array([3, 3, 1], np.int32), y.numpy(), idx.numpy())


@pytest.mark.parametrize(
    "x, out_idx, message",
    [
        ([1.0], tf.int32, "unique: x is float32, wanted int32 or int64"),
        (["a"], tf.int32, "unique: x is string, wanted"),
        ([1], tf.uint8, "unique: out_idx is uint8, wanted"),
    ],
)
def test_wrong_dtypes(x, out_idx, message):
    with pytest.raises(TypeError, match=message):
        tf_booster.unique(x, out_idx)
