"""Graphs with an unknown batch, plain and rewritten by the pass xla_padding: the same values for batches of any size."""

import numpy as np
import tensorflow as tf

from tf_booster import options as booster_options
from tf_booster.passes import pipelines, xla_padding_plan
from tf_booster.passes.xla_padding import XlaPadding

v1 = tf.compat.v1
SIZES = (0, 1, 20, 33, 100)
# XLA's exponentials are a few ulp from TensorFlow's, its sums are in another order, a product and a sum are one op: 2^-24 for each of some
# 20 terms and ops, of numbers around 1, of which differences are taken.
CLOSE = dict(rtol=4e-6, atol=1e-6)


def make_small_clusters(monkeypatch):
    """Small ones do not pay; of 16 rows and more they are compiled all the same."""
    for cost in ("_LAUNCH_NS", "_PADDING_NS", "_SUM_NS"):
        monkeypatch.setattr(xla_padding_plan, cost, 0.0)


def rewrite(graph, *more):
    return pipelines.rewrite(graph, booster_options.Options(), only=[XlaPadding(), *more]).passes[0]


def rows_of(sizes=SIZES, columns=8):
    rng = np.random.RandomState(7)
    return [rng.standard_normal((size, columns)).astype(np.float32) for size in sizes]


def values(build, rewritten, batches, feed=lambda x, rows: {x: rows}):
    """What `build`(x [None, 8]) gives for each batch, each run three times: XLA compiles a size when it comes again. And the graph and the result."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(3)
        x = v1.placeholder(tf.float32, [None, 8], "x")
        fetches = build(x)
        result = rewrite(graph) if rewritten else None
        session.run(v1.global_variables_initializer())
        runs = [[session.run(fetches, feed(x, rows)) for _ in range(3)] for rows in batches]
    return runs, graph, fetches, result


def check_same(build, exact=False, sizes=SIZES, modified=True):
    plain, _, _, _ = values(build, False, rows_of(sizes))
    ours, graph, fetches, result = values(build, True, rows_of(sizes))
    for expected, found in zip(plain, ours):
        for run in found:
            for a, b in zip(tf.nest.flatten(expected[0]), tf.nest.flatten(run)):
                assert a.shape == b.shape and a.dtype == b.dtype
                if exact or a.dtype.kind != "f":
                    np.testing.assert_array_equal(b, a)
                else:
                    np.testing.assert_allclose(b, a, **CLOSE)
    assert result.modified == modified, (result.changes, result.skipped)
    return graph, fetches, result


def dense(x, columns):
    kernel = tf.constant(np.random.RandomState(5).standard_normal((x.shape[-1], columns)) / 3, tf.float32)
    return tf.matmul(x, kernel) + tf.constant(0.1, shape=[columns])


def layer(x, columns):
    """Of a tensor of rank 3."""
    return v1.layers.dense(x, columns, kernel_initializer=v1.glorot_uniform_initializer(1))


def attention(x):
    """A product of rank 3 by tensordot, whose shapes are computed of the batch's size."""
    keys = tf.reshape(tf.tanh(x), [tf.shape(x)[0], 4, 2])
    hidden = tf.nn.sigmoid(layer(keys, 3) * 2.0)
    weights = tf.nn.softmax(tf.reduce_sum(hidden, 2))
    return tf.reduce_sum(keys * weights[:, :, None], 1)
