"""The pass crossed_columns: one op crosses all features, with TensorFlow's buckets at TensorFlow's places."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, lookup_passes, minimized, running, sparse_input

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.crossed_columns import CrossedColumns
from tf_booster.passes.indicator_columns import IndicatorColumns
from tf_booster.passes.sparse_features import SparseFeatures

v1 = tf.compat.v1
fc = tf.feature_column
PASSES = [*lookup_passes(), IndicatorColumns(), CrossedColumns(), SparseFeatures()]
MADE = "TfBoosterCrossColumns"
WORDS = np.array([["a"], [""], ["b"], ["long enough to be on the heap"], ["a"]], object)
TWO_WORDS = np.array([["a", "b"], ["", "c"], ["", ""], ["d", "d"], ["a", ""]], object)
INTS = np.array([[3], [-1], [0], [2**62], [-(2**63)]])
SMALL = np.array([[3], [-1], [0], [7], [1]])
NUMBERS = np.array([[0.5], [-3.0], [np.nan], [2.0], [1e30]], np.float32)
SPARSE_WORDS = [["a", "b"], [], ["c"], ["d", "e", "d"], [""]]


def fed(array, dtype=None):
    array = np.asarray(array, dtype)
    return v1.placeholder_with_default(array, [None, *array.shape[1:]])


def sparse(rows, dtype=object):
    return sparse_input(rows, dtype)


def bucketized(name, size=1):
    return fc.bucketized_column(fc.numeric_column(name, [size]), [-1.0, 0.0, 1.0])


def embedding(*columns):
    return [fc.embedding_column(column, 4) for column in columns]


def layer(columns, **features):
    return minimized([v1.feature_column.input_layer(features, columns)])


def linear(columns, **features):
    return minimized([v1.feature_column.linear_model(features, columns)])


def cross(*keys, buckets=17, **kwargs):
    return fc.crossed_column(list(keys), buckets, **kwargs)


def identity(name):
    return fc.categorical_column_with_identity(name, 8, default_value=0)


# What is crossed, and whether that is one result a row, which lookups read as the dense ids that they are.
PROGRAMS = {
    "words": (lambda: layer(embedding(cross("a", "b"), cross("a", "b", "c")), a=fed(WORDS), b=fed(WORDS[::-1]), c=fed(WORDS)), True),
    "integers": (lambda: layer(embedding(cross("a", "b")), a=fed(INTS), b=fed(SMALL, np.int32)), True),
    "linear model": (lambda: linear([cross("a", "b"), cross("a", "b", "c")], a=fed(WORDS), b=fed(SMALL), c=fed(WORDS)), True),
    "a key of its own": (lambda: linear([cross("a", "b", hash_key=7), cross("b", "c", hash_key=2**63 - 1)], a=fed(WORDS), b=fed(WORDS), c=fed(WORDS)), True),
    "buckets": (lambda: linear([cross(bucketized("a"), "b")], a=fed(NUMBERS), b=fed(WORDS)), True),
    "buckets alone": (lambda: linear([cross(bucketized("a"), bucketized("b"))], a=fed(NUMBERS), b=fed(-NUMBERS)), True),
    "several a row": (lambda: layer(embedding(cross("a", "b")), a=fed(TWO_WORDS), b=fed(TWO_WORDS)), False),
    "buckets of two": (lambda: linear([cross(bucketized("a", 2), "b")], a=fed(np.tile(NUMBERS, 2)), b=fed(WORDS)), False),
    "sparse": (lambda: layer(embedding(cross("a", "b")), a=sparse(SPARSE_WORDS), b=fed(WORDS)), False),
    "sparse ones": (lambda: layer(embedding(cross("a", "b")), a=sparse(SPARSE_WORDS), b=sparse([[1], [2], [], [3, 4], [5]], np.int64)), False),
    "ids": (lambda: linear([cross(identity("a"), identity("b"))], a=fed(SMALL), b=fed(SMALL)), False),
    "a vocabulary": (
        lambda: linear([cross(fc.categorical_column_with_vocabulary_list("a", ["a", "b"]), "b")], a=fed(TWO_WORDS), b=fed(WORDS)),
        False,
    ),
    "of one feature": (lambda: linear([cross("a", "a")], a=fed(TWO_WORDS)), False),
    "no rows": (lambda: layer(embedding(cross("a", "b")), a=fed(WORDS[:0]), b=fed(INTS[:0])), True),
    "no entries": (lambda: linear([cross("a", "b")], a=sparse([[], [], []]), b=fed(WORDS[:3])), False),
    "indicator": (lambda: [2.0 * v1.feature_column.input_layer({"a": fed(WORDS), "b": fed(TWO_WORDS)}, [fc.indicator_column(cross("a", "b"))])], False),
    "a wide and a deep part": (
        lambda: linear([cross("a", "b")], a=fed(WORDS), b=fed(INTS)) + layer(embedding(cross("a", "b")), a=fed(WORDS), b=fed(INTS)),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_same_by_one_op(kind):
    program, dense = PROGRAMS[kind]
    same = check_same(program, PASSES)
    graph, made = same.graph, same.fetches
    counts = running(graph, made[0])
    assert counts[MADE] == 1 and not counts["SparseCross"]
    if kind not in ("a vocabulary", "ids"):
        assert not {"GatherNd", "TfBoosterSparseFromDense"} & set(counts)
    (prepared, *_) = [op for op in graph.get_operations() if op.type == "TfBoosterPrepareLookups"] or [None]
    if prepared is not None:
        assert prepared.get_attr("num_sparse") == (0 if dense else prepared.get_attr("N"))


def by_hand(hashed=True):
    """tf.sparse.cross_hashed, and twice the same cross."""
    a, b = sparse(SPARSE_WORDS), sparse([[1], [2], [], [3, 4], [5]], np.int64)
    crossed = [tf.sparse.cross_hashed([a, b, a], 100), tf.sparse.cross_hashed([b, a])]
    if not hashed:
        crossed = [tf.sparse.cross([a, a])]
    return [tf.identity(part) for one in crossed for part in (one.indices, one.values, one.dense_shape)]


def test_crosses_by_hand():
    counts = check_same(by_hand, PASSES).running()
    assert counts[MADE] == 1 and not counts["SparseCross"]


def test_strings_stay():
    check_same(lambda: by_hand(hashed=False), PASSES)
    with tf.Graph().as_default() as graph:
        by_hand(hashed=False)
        assert not pipelines.rewrite(graph, Options(), only=[CrossedColumns()]).passes[0].modified


def test_features_that_are_shared_are_hashed_once():
    with tf.Graph().as_default() as graph:
        made = linear(
            [cross("a", "b"), cross("b", "c"), cross("a", "b", "c")], a=fed(WORDS), b=fed(WORDS), c=fed(WORDS)
        )
        result = pipelines.rewrite(graph, Options(), only=PASSES)
    (changes,) = [p.changes for p in result.passes if p.name == "crossed_columns"]
    assert changes == ["3 crosses of features by 1 op"]
    (op,) = [op for op in graph.get_operations() if op.type == MADE]
    assert len(op.get_attr("Tfeatures")) == 3 and op.get_attr("num_keys") == [2, 3, 2] and running(graph, made[0])[MADE]


def test_another_missing_value_is_not_looked_through():
    """A feature of which 0 stands for none."""

    def program():
        dense = fed([[0, 1], [2, 0]])
        where = tf.where(tf.not_equal(dense, tf.constant(0, tf.int64)))
        made = tf.SparseTensor(where, tf.gather_nd(dense, where), tf.shape(dense, out_type=tf.int64))
        return [tf.identity(tf.sparse.cross_hashed([made, fed([["a"], ["b"]], object)]).values)]

    check_same(program, PASSES)


def test_places_out_of_order_are_left_out_as_by_tensorflow():
    def program():
        places = fed(np.array([[1, 0], [0, 0], [2, 0]]))
        ids = tf.SparseTensor(places, fed(np.array([1, 2, 3])), v1.placeholder_with_default(np.array([3, 1]), [2]))
        made = tf.sparse.cross_hashed([ids, fed([["a"], ["b"], ["c"]], object)])
        return [tf.identity(made.values), tf.identity(made.indices), tf.identity(made.dense_shape)]

    check_same(program, PASSES)


def test_inside_of_control_flow_it_stays():
    with tf.Graph().as_default() as graph:
        a, b = fed(WORDS), fed(WORDS)
        tf.cond(
            v1.placeholder_with_default(True, []),
            lambda: tf.sparse.cross_hashed([a, b]).values,
            lambda: tf.zeros([0], tf.int64),
        )
        assert not pipelines.rewrite(graph, Options(), only=[CrossedColumns()]).passes[0].modified


def test_it_waits_for_what_the_ops_before_waited_for():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        numbers, allowed = fed(SMALL), v1.placeholder_with_default(True, [])
        with tf.control_dependencies([tf.debugging.Assert(allowed, ["not allowed"])]):
            made = layer(embedding(cross(identity("a"), "b")), a=numbers, b=fed(WORDS))[0]
        pipelines.rewrite(graph, Options(), only=PASSES)
        assert running(graph, made)[MADE]
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
            session.run(made, {allowed: False})


def test_a_second_run_changes_nothing():
    check_second_run(PROGRAMS["words"][0], lookup_passes(), CrossedColumns())


def test_rows_that_differ_are_refused():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        made = tf.identity(tf.sparse.cross_hashed([fed(WORDS), fed(WORDS[:3])]).values)
        pipelines.rewrite(graph, Options(), only=[CrossedColumns()])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"features\[1\] has 3 rows, wanted 5"):
            session.run(made)
