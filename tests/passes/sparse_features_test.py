"""The pass sparse_features: dense features are made sparse by one op, with TensorFlow's entries in TensorFlow's order."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same

from tf_booster.options import Options
from tf_booster.passes import fetches, named_features, pipelines
from tf_booster.passes.sparse_features import SparseFeatures

v1 = tf.compat.v1
PASSES = [SparseFeatures()]
INTS = [[3, -1], [-1, -1], [0, -2], [7, 7]]
WORDS = [["a", ""], ["", ""], ["b", "long enough to be on the heap"]]


def made_sparse(array, missing=None, dtype=None):
    dense = v1.placeholder_with_default(np.array(array, dtype), [None] * np.ndim(array))
    if missing is None:
        missing = "" if dense.dtype == tf.string else -1
    where = tf.where(tf.not_equal(dense, tf.constant(missing, dense.dtype)))
    return [where, tf.gather_nd(dense, where)]


def fetched(tensors):
    """Copies: what is fetched itself keeps its op."""
    return [tf.identity(tensor) for tensor in tensors]


FEATURES = {
    "int64": lambda: [made_sparse(INTS, dtype=np.int64), made_sparse([[-1, 5, 6]], dtype=np.int64)],
    "int32": lambda: [made_sparse(INTS, dtype=np.int32), made_sparse([1, -1], dtype=np.int32)],
    "strings": lambda: [made_sparse(WORDS), made_sparse([[[""], ["x"]]])],
    "empty": lambda: [made_sparse(np.zeros([0, 3], np.int64)), made_sparse(np.zeros([2, 0], np.int64))],
    "nothing is there": lambda: [made_sparse([[-1, -1]], dtype=np.int64), made_sparse([[-1]], dtype=np.int64)],
}


@pytest.mark.parametrize("kind", FEATURES)
def test_one_op_gives_the_same(kind):
    counts = check_same(lambda: fetched(tensor for pair in FEATURES[kind]() for tensor in pair), PASSES).running()
    assert counts["TfBoosterSparseFromDense"] == 1 and not counts["GatherNd"] and not counts["Where"]


OTHERS = {
    "one alone": lambda: [made_sparse(INTS, dtype=np.int64)],
    "of two types": lambda: [made_sparse(INTS, dtype=np.int64), made_sparse(INTS, dtype=np.int32)],
    "another value is missing": lambda: [made_sparse(INTS, 0, np.int64), made_sparse(INTS, 0, np.int64)],
    "floats": lambda: [made_sparse([[1.0, -1.0]]), made_sparse([[1.0, 2.0]])],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_stay(kind):
    same = check_same(lambda: fetched(tensor for pair in OTHERS[kind]() for tensor in pair), PASSES)
    assert not same.running()["TfBoosterSparseFromDense"]


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        kept = fetched(tensor for pair in FEATURES["int64"]() for tensor in pair)
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].changes == [
            "2 dense features made sparse by 1 op"
        ]
        before = len(graph.get_operations())
        pipelines.rewrite(graph, Options(), only=PASSES)
    assert len(graph.get_operations()) == before
    del kept


@pytest.mark.parametrize("alike", [True, False])
def test_features_that_are_fed_one_by_one_are_merged_where_the_same_fetches_need_them(alike):
    """As in an export: it is known what is ever fetched."""
    with tf.Graph().as_default() as graph:
        features = {name: v1.placeholder(tf.int64, [None, 2], name) for name in "abc"}
        sizes = []
        for dense in features.values():
            where = tf.where(tf.not_equal(dense, tf.constant(-1, tf.int64)))
            sizes.append(tf.size(tf.gather_nd(dense, where)))
        predictions = {"all": tf.add_n(sizes)}
        if not alike:
            predictions["one"] = tf.identity(sizes[0])
        spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, predictions)
        fetches.note_spec(graph, spec)
        named_features.note_spec(graph, features, spec)
        report = pipelines.rewrite(graph, Options(), only=PASSES)
        assert report.passes[0].changes == [f"{3 if alike else 2} dense features made sparse by 1 op"]
        with v1.Session() as session:
            if not alike:
                assert session.run(predictions["one"], {"a:0": [[1, -1]]}) == 1
            values = {"a:0": [[1, -1]], "b:0": [[-1, -1]], "c:0": [[2, 3], [4, -1]]}
            assert session.run(predictions["all"], values) == 4


def test_without_an_estimator_features_that_are_fed_one_by_one_stay():
    with tf.Graph().as_default() as graph:
        for name in "ab":
            dense = v1.placeholder(tf.int64, [None, 2], name)
            where = tf.where(tf.not_equal(dense, tf.constant(-1, tf.int64)))
            tf.identity(tf.gather_nd(dense, where), f"{name}_ids")
        assert not pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
        with v1.Session() as session:
            assert session.run("a_ids:0", {"a:0": [[5, -1]]}).tolist() == [5]
