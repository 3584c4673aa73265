"""The pass indicator_columns: one op makes ones among zeros of the ids of all features, bit for bit as TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_waits

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.indicator_columns import IndicatorColumns
from tf_booster.passes.sparse_features import SparseFeatures

v1 = tf.compat.v1
fc = tf.feature_column
PASSES = [IndicatorColumns(), SparseFeatures()]
MANY = np.array([[3, -1, 3], [-1, -1, -1], [0, -2, 9], [7, 2**40, 1]])
NUMBERS = np.array([[0.5, -3.0], [np.nan, 2.0], [1.0, 1e30]], np.float32)


def fed(array, dtype=None, shape=None):
    array = np.asarray(array, dtype)
    return v1.placeholder_with_default(array, shape or [None, *array.shape[1:]])


def layer(columns, **features):
    """The layer, twice the layer: what reads it is not what is fetched by name."""
    return [2.0 * v1.feature_column.input_layer(features, columns)]


def indicator(column):
    return fc.indicator_column(column)


def identity(name, depth=8, **kwargs):
    return fc.categorical_column_with_identity(name, depth, **kwargs)


def sparse(array):
    array = np.asarray(array)
    places = np.argwhere(array >= 0)
    return tf.SparseTensor(fed(places), fed(array[array >= 0]), v1.placeholder_with_default(np.array(array.shape), [2]))


PROGRAMS = {
    "dense ids": lambda: layer(
        [indicator(identity("a")), indicator(identity("b", 5))], a=fed(MANY), b=fed(MANY[:, :1], np.int32)
    ),
    "sparse ids": lambda: layer([indicator(identity("a"))], a=sparse(MANY % 8)),
    "default": lambda: layer([indicator(identity("a", default_value=2))], a=fed(MANY)),
    "words": lambda: layer(
        [indicator(fc.categorical_column_with_vocabulary_list("a", ["x", "y"], num_oov_buckets=1))],
        a=fed([["x", ""], ["z", "y"], ["", ""]], object),
    ),
    "hashes": lambda: layer([indicator(fc.categorical_column_with_hash_bucket("a", 11))], a=fed([["x"], ["y"]], object)),
    "crosses": lambda: layer([indicator(fc.crossed_column(["a", "b"], 13))], a=fed(MANY), b=fed(MANY)),
    "buckets": lambda: layer(
        [fc.bucketized_column(fc.numeric_column("a", [2]), [-1.0, 0.0, 1.0])], a=fed(NUMBERS)
    ),
    "buckets as ids": lambda: layer(
        [indicator(fc.bucketized_column(fc.numeric_column("a"), [-1.0, 0.0]))], a=fed(NUMBERS[:, :1])
    ),
    "no rows": lambda: layer([indicator(identity("a"))], a=fed(np.zeros([0, 3], np.int64))),
    "one bucket": lambda: layer([indicator(identity("a", 1))], a=fed(MANY)),
    "by hand": lambda: [-tf.reduce_sum(tf.one_hot(fed(MANY), 6), -2), -tf.reduce_sum(tf.one_hot(fed(MANY), 6), 1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_same_by_one_op(kind):
    counts = check_same(PROGRAMS[kind], PASSES).running()
    assert counts["TfBoosterMultiHot"] == 1 and not counts["OneHot"]
    assert counts["SparseToDense"] == 0 if kind in ("dense ids", "buckets as ids") else counts["SparseToDense"] <= 1


def one_hot(array=MANY, **kwargs):
    return tf.one_hot(fed(array), 6, **kwargs)


def two_readers():
    one = one_hot()
    return [tf.reduce_sum(one, -2), tf.reduce_sum(one, -1)]


OTHERS = {
    "other numbers": lambda: [tf.reduce_sum(one_hot(on_value=2.0), -2)],
    "other zeros": lambda: [tf.reduce_sum(one_hot(off_value=0.5), -2)],
    "integers": lambda: [tf.reduce_sum(one_hot(dtype=tf.int32), -2)],
    "summed over columns": lambda: [tf.reduce_sum(one_hot(), -1)],
    "a dimension is kept": lambda: [tf.reduce_sum(one_hot(), -2, keepdims=True)],
    "columns first": lambda: [tf.reduce_sum(one_hot(axis=1), 1)],
    "of a vector": lambda: [one_hot(MANY[:, 0]) + 1.0],
    "of three dimensions": lambda: [tf.reduce_sum(one_hot(MANY[None]), -2)],
    "unknown rank": lambda: [tf.reduce_sum(tf.one_hot(v1.placeholder_with_default(MANY, None), 6), -2)],
    "read by others": two_readers,
    "depth of the batch": lambda: [tf.reduce_sum(tf.one_hot(fed(MANY), tf.shape(fed(MANY))[0]), -2)],
    "another shape": lambda: [tf.reshape(one_hot(), [-1, 6]) + 1.0],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_stay(kind):
    counts = check_same(lambda: [tf.identity(tensor) for tensor in OTHERS[kind]()], PASSES).running()
    assert not counts["TfBoosterMultiHot"] and counts["OneHot"]


def test_missing_values_other_than_minus_one_are_not_looked_through():
    """A feature of which 0 stands for none: what is made sparse and dense again is another tensor."""

    def program():
        dense = fed([[0, 1], [2, 0]])
        where = tf.where(tf.not_equal(dense, tf.constant(0, tf.int64)))
        made = tf.SparseTensor(where, tf.gather_nd(dense, where), tf.shape(dense, out_type=tf.int64))
        return [-tf.reduce_sum(tf.one_hot(tf.sparse.to_dense(made, -1), 4), -2)]

    check_same(program, PASSES)


def test_places_out_of_order_are_still_refused():
    graph = tf.Graph()
    with graph.as_default(), v1.Session() as session:
        places = fed(np.array([[1, 0], [0, 0]]))
        ids = tf.SparseTensor(places, fed(np.array([1, 2])), v1.placeholder_with_default(np.array([2, 1]), [2]))
        (made,) = layer([indicator(identity("a"))], a=ids)
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of order"):
            session.run(made)


def test_it_waits_for_what_the_ops_before_waited_for():
    made = lambda ids: [-tf.reduce_sum(tf.one_hot(ids, 6), -2), -tf.reshape(tf.one_hot(ids, 6), [-1, 18])]  # noqa: E731
    check_waits(lambda: fed(MANY), made, PASSES, "TfBoosterMultiHot")


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        kept = PROGRAMS["dense ids"]()
        first = pipelines.rewrite(graph, Options(), only=PASSES[:1]).passes[0]
        assert first.changes == ["2 features' ids become ones among zeros by 1 op"]
        before = len(graph.get_operations())
        pipelines.rewrite(graph, Options(), only=PASSES[:1])
    assert len(graph.get_operations()) == before
    del kept


@pytest.mark.parametrize(
    "depths, apart, ids, message",
    [
        ([3], [False], [[1]], None),
        ([3], [True], [1], "rank 2"),
        ([0], [False], [[1]], "at least 1"),
        ([3, 3], [True], [[1]], "wanted 1"),
    ],
)
def test_what_the_op_refuses(depths, apart, ids, message):
    with tf.Graph().as_default(), v1.Session() as session:
        make = _native.ops().tf_booster_multi_hot
        if message is None:
            (made,) = make(ids=[tf.constant(ids, tf.int64)], depths=depths, apart=apart)
            assert session.run(made).tolist() == [[0.0, 1.0, 0.0]]
            (unknown,) = make(ids=[v1.placeholder_with_default(np.array([1]), None)], depths=[3], apart=[False])
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"MultiHot .*ids\[0\] has shape \[1\], wanted"):
                session.run(unknown)
        else:
            with pytest.raises(ValueError, match=message):
                make(ids=[tf.constant(ids, tf.int64)], depths=depths, apart=apart)
