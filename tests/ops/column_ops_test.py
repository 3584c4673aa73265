"""TfBoosterConcatColumns and TfBoosterSplitColumns: TensorFlow's numbers, and errors that say what was wanted."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.bool])
def test_join_and_split(dtype):
    rng = np.random.default_rng(0)
    parts = [tf.cast(rng.integers(0, 2, (2, 3, width)), dtype) for width in (1, 8, 0, 33, 4)]
    joined = _native.ops().tf_booster_concat_columns(values=parts)
    assert np.array_equal(joined.numpy(), tf.concat(parts, -1).numpy())
    back = _native.ops().tf_booster_split_columns(value=joined, size_splits=[1, 8, 0, -1, 4], num_split=5)
    for part, mine in zip(parts, back):
        assert np.array_equal(part.numpy(), mine.numpy())


def test_shapes_are_inferred():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3])
        y = tf.compat.v1.placeholder(tf.float32, [4, None])
        assert _native.ops().tf_booster_concat_columns(values=[x, x]).shape.as_list() == [None, 6]
        assert _native.ops().tf_booster_concat_columns(values=[x, y]).shape.as_list() == [4, None]
        first, second = _native.ops().tf_booster_split_columns(value=x, size_splits=[1, -1], num_split=2)
        assert first.shape.as_list() == [None, 1] and second.shape.as_list() == [None, None]


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 3)], [(2, 3), (3,)], [(), ()]])
def test_shapes_that_do_not_fit(shapes):
    with pytest.raises(tf.errors.InvalidArgumentError, match="TfBoosterConcatColumns.*values"):
        _native.ops().tf_booster_concat_columns(values=[tf.zeros(shape) for shape in shapes])


@pytest.mark.parametrize("sizes", [[1, 2], [1, 4], [-1, -1], [-2, 5], [6, -1], [3]])
def test_sizes_that_do_not_fit(sizes):
    with pytest.raises(tf.errors.InvalidArgumentError, match="TfBoosterSplitColumns.*size_splits"):
        _native.ops().tf_booster_split_columns(value=tf.zeros([2, 4]), size_splits=sizes, num_split=2)
