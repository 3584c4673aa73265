"""Functions of each element by itself give the bits that TensorFlow gives the element alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

UNARY = {"Log": tf.raw_ops.Log, "Log1p": tf.raw_ops.Log1p}
BINARY = {"Maximum": tf.raw_ops.Maximum, "Minimum": tf.raw_ops.Minimum}


def numbers(dtype, count):
    rng = np.random.default_rng(7)
    tiny = np.finfo(dtype).tiny
    odd = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, tiny, -tiny, np.finfo(dtype).max, 88.7, -88.7, 709.7, -745.0]
    wide = rng.standard_normal(count) * 10.0 ** rng.integers(-6, 6, count)
    return np.concatenate([odd, wide, rng.random(count)]).astype(dtype)


def bits(values):
    return np.asarray(values).view({4: np.uint32, 8: np.uint64}[values.dtype.itemsize])


def rows(values, length):
    return values[: len(values) // length * length].reshape(-1, length)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype, length", [(np.float32, 1), (np.float32, 2), (np.float32, 3), (np.float64, 1)])
def test_unary(name, dtype, length):
    x = rows(numbers(dtype, 600), length)
    alone = np.stack([UNARY[name](x=row).numpy() for row in x])
    np.testing.assert_array_equal(bits(_native.ops().tf_booster_unary_of_each(x, function=name).numpy()), bits(alone))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype, length", [(np.float32, 1), (np.float32, 3), (np.float64, 1)])
def test_binary(name, dtype, length):
    x = rows(numbers(dtype, 300), length)
    y = rows(np.roll(numbers(dtype, 300), 5), length)
    op = _native.ops().tf_booster_binary_of_each
    alone = np.stack([BINARY[name](x=a, y=b).numpy() for a, b in zip(x, y)])
    np.testing.assert_array_equal(bits(op(x, y, function=name).numpy()), bits(alone))
    for one in numbers(dtype, 0)[:8]:
        alone = np.stack([BINARY[name](x=one, y=row).numpy() for row in x])
        np.testing.assert_array_equal(bits(op(one, x, function=name).numpy()), bits(alone))
        alone = np.stack([BINARY[name](x=row, y=one).numpy() for row in x])
        np.testing.assert_array_equal(bits(op(x, one, function=name).numpy()), bits(alone))


def test_shapes():
    op = _native.ops().tf_booster_binary_of_each
    assert op(np.zeros([0, 2], np.float32), np.float32(1), function="Maximum").shape == [0, 2]
    assert op(np.zeros([1, 1], np.float32), np.float32(1), function="Maximum").shape == [1, 1]
    assert op(np.float32(1), np.zeros([1, 1], np.float32), function="Maximum").shape == [1, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have one shape, or one element"):
        op(np.zeros([2, 3], np.float32), np.zeros([3], np.float32), function="Maximum")
