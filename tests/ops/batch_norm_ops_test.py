"""TfBoosterBatchNorm and its gradient: shapes, an empty batch, errors; numbers are tested in cc/core/normalization and tests/passes."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

ops = _native.ops()


def forward(x, gamma=(), beta=()):
    return ops.tf_booster_batch_norm(x=x, gamma=list(gamma), beta=list(beta), epsilon=1e-3)


def test_all_dimensions_but_the_last_are_the_batch():
    x = np.random.RandomState(0).standard_normal((4, 5, 3)).astype(np.float32)
    one, flat = forward(x), forward(x.reshape(20, 3))
    assert one.y.shape == (4, 5, 3) and one.mean.shape == one.variance.shape == (3,)
    for a, b in zip(one, flat):
        np.testing.assert_array_equal(np.reshape(a, -1), np.reshape(b, -1))
    grads = ops.tf_booster_batch_norm_grad(
        dy=tf.ones_like(x), x=x, mean=one.mean, variance=one.variance, gamma=[], epsilon=1e-3
    )
    assert grads.dx.shape == (4, 5, 3) and grads.dgamma.shape == (3,)
    np.testing.assert_array_equal(grads.dbeta, [20.0] * 3)


def test_an_empty_batch_has_no_moments():
    x = tf.zeros([0, 3])
    mean, variance = tf.nn.moments(x, [0])
    made = forward(x)
    assert made.y.shape == (0, 3) and np.isnan(mean).all() and np.isnan(variance).all()
    assert np.isnan(made.mean).all() and np.isnan(made.variance).all()


@tf.function(autograph=False)
def unknown_shapes(x, gamma):
    """Of shapes that the op sees when it runs."""
    x, gamma = (tf.raw_ops.PlaceholderWithDefault(input=t, shape=tf.TensorShape(None)) for t in (x, gamma))
    return forward(x, [gamma])


def test_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input 1 has shape \[2\], wanted \[3\], the units of x"):
        unknown_shapes(tf.zeros([4, 3]), tf.zeros([2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x has shape \[\], wanted \[..., units\]"):
        unknown_shapes(tf.zeros([]), tf.zeros([2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_gamma is 2, wanted 0 or 1"):
        forward(tf.zeros([4, 3]), [tf.ones([3]), tf.ones([3])])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy has shape \[4,2\], wanted that of x, \[4,3\]"):
        ops.tf_booster_batch_norm_grad(
            dy=tf.zeros([4, 2]), x=tf.zeros([4, 3]), mean=tf.zeros([3]), variance=tf.ones([3]), gamma=[], epsilon=1e-3
        )
