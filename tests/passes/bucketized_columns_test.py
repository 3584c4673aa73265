"""The pass bucketized_columns: one op puts the numbers of all features into buckets, TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, check_waits, lookup_passes, minimized, running

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.bucketized_columns import BucketizedColumns
from tf_booster.passes.crossed_columns import CrossedColumns
from tf_booster.passes.indicator_columns import IndicatorColumns

v1 = tf.compat.v1
fc = tf.feature_column
PASSES = [BucketizedColumns()]
ALL = [*lookup_passes(), IndicatorColumns(), CrossedColumns(), *PASSES]
MADE = "TfBoosterMultiBucketize"
NUMBERS = [[0.5, -3.0], [np.nan, 2.0], [1.0, 1e30], [-0.0, np.inf], [-np.inf, 0.1]]
FEW, MANY = [-1.0, 0.0, 1.0], list(np.linspace(-5, 5, 300))


def fed(array, dtype=np.float32):
    array = np.asarray(array, dtype)
    return v1.placeholder_with_default(array, [None, *array.shape[1:]])


def bucketize(numbers, boundaries):
    return 1 * tf.raw_ops.Bucketize(input=numbers, boundaries=boundaries)


def layers():
    columns = [fc.bucketized_column(fc.numeric_column(name, [2]), FEW) for name in "ab"]
    crosses = [fc.crossed_column([columns[0], columns[1]], 20), fc.crossed_column([columns[0], "c"], 20)]
    features = {"a": fed(NUMBERS), "b": -fed(NUMBERS), "c": v1.placeholder_with_default([["x"]] * 5, [None, 1])}
    wide = v1.feature_column.linear_model(features, [*columns, *crosses])
    deep = v1.feature_column.input_layer(features, [columns[0], fc.embedding_column(columns[1], 3)])
    return minimized([wide, deep])


INTEGERS = np.array([[1, -1], [0, 2**31 - 1], [-(2**31), 3]])
PROGRAMS = {
    "float32": lambda: [bucketize(fed(NUMBERS), FEW), bucketize(fed(NUMBERS), MANY), bucketize(fed(NUMBERS[0]), [])],
    "float64": lambda: [
        bucketize(fed(NUMBERS, np.float64), FEW),
        bucketize(fed([0.1, np.float32(0.1)], np.float64), [0.1]),
    ],
    "int32": lambda: [bucketize(fed(INTEGERS, np.int32), [-0.5, 1.0, 1.5, 2.0**31])],
    "int64": lambda: [bucketize(fed(INTEGERS * 2**31 + 1, np.int64), [-0.5, 1.0, 2.0**62])],
    "equal boundaries": lambda: [bucketize(fed(NUMBERS), [0.0, 0.0, 0.0, 2.0, 2.0])],
    "infinite ones": lambda: [bucketize(fed(NUMBERS), [-np.inf, 0.0, np.inf])],
    "no rows": lambda: [bucketize(fed(np.zeros([0, 3])), FEW), bucketize(fed(NUMBERS), FEW)],
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_same_by_one_op(kind):
    counts = check_same(PROGRAMS[kind], PASSES).running()
    assert counts[MADE] == 1 and not counts["Bucketize"]


def test_columns_of_all_kinds():
    counts = check_same(layers, ALL).running()
    assert counts[MADE] == 1 and counts["TfBoosterCrossColumns"] == 1 and not counts["Bucketize"]


def test_types_stay_apart():
    with tf.Graph().as_default() as graph:
        made = [bucketize(fed(NUMBERS), FEW), bucketize(fed(INTEGERS, np.int64), FEW)]
        pipelines.rewrite(graph, Options(), only=PASSES)
        assert running(graph, *made)[MADE] == 2


@pytest.mark.parametrize("boundaries", [[1.0, 0.0], [0.0, np.nan, 1.0]])
def test_boundaries_that_are_not_in_order_stay(boundaries):
    with tf.Graph().as_default() as graph:
        kept = bucketize(fed(NUMBERS), boundaries)
        assert not pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
    del kept


def test_it_waits_for_what_the_ops_before_waited_for():
    check_waits(lambda: fed(NUMBERS), lambda x: [bucketize(x, FEW), bucketize(x, MANY)], PASSES, MADE)


def test_a_second_run_changes_nothing():
    check_second_run(PROGRAMS["float32"], [], BucketizedColumns())


def test_the_report():
    with tf.Graph().as_default() as graph:
        kept = PROGRAMS["float32"]()
        report = pipelines.rewrite(graph, Options(), only=PASSES)
        assert report.passes[0].changes == ["buckets of 3 features by 1 op"]
    del kept


@pytest.mark.parametrize(
    "boundaries, counts, message",
    [
        ([1.0, 0.0], [2], r"boundaries of numbers\[0\] fall"),
        ([0.0, 1.0], [1], "2 boundaries, wanted 1"),
        ([0.0], [2], "num_boundaries has 2, wanted 0 to the 1"),
        ([0.0], [-1], "num_boundaries has -1"),
        ([0.0], [1, 0], "num_boundaries has 2 entries, wanted 1"),
    ],
)
def test_what_the_op_refuses(boundaries, counts, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _native.ops().tf_booster_multi_bucketize(
            numbers=[tf.constant([1.0])], boundaries=boundaries, num_boundaries=counts
        )
