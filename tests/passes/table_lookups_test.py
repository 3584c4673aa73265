"""Lookups of hash tables go through the same fused ops as those of Variables, with the same numbers as without."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import as_input, minimized, running, v1

import tf_booster
from tf_booster.options import Options
from tf_booster.passes import pipelines

LOOKUPS = ("sparse_lookups", "variable_gathers", "unique")


def train(program, off):
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(3)
        fetches = program()
        report = pipelines.rewrite(graph, Options(disable_passes=off))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            values = [np.asarray(v) for _ in range(4) for v in session.run(fetches) if v is not None]
    return values, graph, report, fetches[-1]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_columns_of_tables_are_summed_up_by_fused_ops(combiner):
    ids = np.random.RandomState(0).choice([-(2**63), -1, 0, 5, 7, 2**62], (30, 3))

    def program():
        features = {name: as_input(np.roll(ids, i, 0)) for i, name in enumerate("abc")}
        features = {name: tf.ensure_shape(x, [None, 3]) for name, x in features.items()}
        make = tf_booster.feature_column.categorical_column_with_hash_table
        columns = [tf.feature_column.embedding_column(make(name, tf.int64), 4, combiner=combiner) for name in features]
        return minimized([v1.feature_column.input_layer(features, columns)])

    plain, *_ = train(program, LOOKUPS)
    values, graph, report, train_op = train(program, ())
    for a, b in zip(plain, values):
        np.testing.assert_array_equal(a, b)
    (result,) = [p for p in report.passes if p.name == "sparse_lookups"]
    assert result.skipped == []
    assert sum(op.get_attr("N") for op in graph.get_operations() if op.type == "TfBoosterPoolLookups") == 3
    counts = running(graph, train_op)
    assert counts["TfBoosterPoolLookups"] == 1 and counts["SparseFillEmptyRows"] == counts["SparseSegmentMean"] == 0
