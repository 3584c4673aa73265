"""Bucketized columns in lookups: their buckets are taken as the dense ids that they are, and nothing makes them sparse."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, lookup_passes, minimized, running

v1 = tf.compat.v1
fc = tf.feature_column
NUMBERS = np.array([[0.5], [-3.0], [np.nan], [2.0], [1.0], [1e30]], np.float32)
BOUNDARIES = [-1.0, 0.0, 1.0]
MADE_SPARSE = {"Range", "Tile", "Transpose", "Pack", "SparseReshape"}


def bucketized(name, shape=(1,)):
    return fc.bucketized_column(fc.numeric_column(name, shape), BOUNDARIES)


def fed(array, shape=(None, 1)):
    return v1.placeholder_with_default(array, shape)


def embedded(shape=(None, 1), array=NUMBERS, combiner="mean"):
    columns = [fc.embedding_column(bucketized(name), 4, combiner) for name in "ab"]
    features = {"a": fed(array, shape), "b": fed(-array, shape)}
    return minimized([v1.feature_column.input_layer(features, columns)])


def linear():
    return minimized(
        [v1.feature_column.linear_model({"a": fed(NUMBERS), "b": fed(-NUMBERS)}, [bucketized(k) for k in "ab"])]
    )


PROGRAMS = {
    "embeddings": embedded,
    "sums": lambda: embedded(combiner="sum"),
    "a batch of known size": lambda: embedded((6, 1)),
    "no rows": lambda: embedded(array=NUMBERS[:0]),
    "linear model": linear,
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_nothing_makes_buckets_sparse(kind):
    same = check_same(PROGRAMS[kind], lookup_passes())
    counts = running(same.graph, same.fetches[0])
    assert counts["TfBoosterPrepareLookups"] == 1 and counts["Bucketize"] == 2
    assert not MADE_SPARSE & set(counts)


def chain(dense, buckets=4, columns=1, rows=None, read=None):
    """What TensorFlow makes of a bucketized column, with a part of it changed."""
    batch = tf.shape(dense)[0] if rows is None else rows
    i1 = tf.reshape(tf.tile(tf.expand_dims(tf.range(0, batch), 1), [1, columns]), [-1])
    i2 = tf.tile(tf.range(0, columns), [batch])
    values = tf.reshape(dense if read is None else read, [-1]) + buckets * i2
    return tf.SparseTensor(
        tf.cast(tf.transpose(tf.stack((i1, i2))), tf.int64), values, tf.cast(tf.stack([batch, columns]), tf.int64)
    )


def buckets(array=NUMBERS, shape=(None, 1)):
    return tf.raw_ops.Bucketize(input=fed(array, shape), boundaries=BOUNDARIES)


def looked_up(sparse):
    weights = v1.get_variable("w", [8, 3], initializer=v1.random_normal_initializer(seed=1), use_resource=True)
    return [1.0 * tf.nn.safe_embedding_lookup_sparse(weights, sparse)]


def missing():
    """What is no Bucketize may have a −1, which TensorFlow gives a row of zeros just the same."""
    return chain(fed(np.array([[1], [-1], [3]], np.int32)))


OTHERS = {
    "two columns": lambda: chain(buckets(np.tile(NUMBERS, 2), (None, 2)), columns=2),
    "not of buckets": missing,
    "another tensor's rows": lambda: chain(buckets(), rows=tf.shape(buckets(NUMBERS))[0]),
    "fewer rows": lambda: chain(buckets(), rows=tf.shape(buckets())[0] - 2, read=buckets()[:-2]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_computed_as_they_were(kind):
    assert MADE_SPARSE & set(check_same(lambda: looked_up(OTHERS[kind]()), lookup_passes()).running())


def test_the_chain_by_hand_is_known():
    """So that the tests above differ from what is known in one part alone."""
    assert not MADE_SPARSE & set(check_same(lambda: looked_up(chain(buckets())), lookup_passes()).running())
