"""Dense features of ids in front of hash tables: a probe takes them whole, so that no op makes them sparse."""

import numpy as np
import pytest
import tensorflow as tf
from fused_pairs import Program, expect_same
from lookup_pair import running

import tf_booster

v1 = tf.compat.v1
column = tf_booster.feature_column.categorical_column_with_hash_table

FEATURES = {
    "one": np.array([[3], [-1], [5], [3]], np.int64),
    "few": np.array([[7, -1], [-1, -1], [-2, 7], [np.iinfo(np.int64).max, 0]], np.int64),
    "int32": np.array([[1, 2], [3, -1], [-1, 1], [-5, -1]], np.int32),
    "none": np.full([4, 2], -1, np.int64),
}
MADE_SPARSE = {"Where", "GatherNd", "TfBoosterSparseFromDense"}


def by_columns(features):
    columns = [tf.feature_column.embedding_column(column(name), 3, combiner="sqrtn") for name in features]
    return v1.feature_column.input_layer(features, columns)


def by_linear_model(features):
    return v1.feature_column.linear_model(features, [column(name) for name in features])


def by_a_shared_table(features):
    names = ["one", "few"]
    columns = tf.feature_column.shared_embeddings([column(name) for name in names], 2)
    return tf.keras.layers.DenseFeatures(columns)({name: features[name] for name in names})


def as_sparse(dense):
    """The same ids, in a way that no pass knows."""
    where = tf.where(tf.logical_not(tf.equal(dense, -1)))
    return tf.SparseTensor(where, tf.gather_nd(dense, where), tf.shape(dense, tf.int64))


def trained(layer, made=lambda dense: dense, **options):
    def build():
        features = {name: v1.placeholder_with_default(ids, [None, ids.shape[1]]) for name, ids in FEATURES.items()}
        out = layer({name: made(dense) for name, dense in features.items()})
        return {"out": out, "train": v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum((out - 1) ** 2))}

    program = Program(build, fuse=True, **options)
    return program, [program.run(["out", "train"])[0] for _ in range(4)]


@pytest.mark.parametrize("layer", [by_columns, by_linear_model, by_a_shared_table])
def test_it_trains_as_with_sparse_ids(layer):
    dense, outs = trained(layer)
    assert not MADE_SPARSE & set(running(dense.graph, *dense.nodes.values()))
    for other, wanted in (trained(layer, as_sparse), trained(layer, disable_passes=("sparse_lookups",))):
        assert MADE_SPARSE & set(running(other.graph, *other.nodes.values()))
        np.testing.assert_array_equal(outs, wanted)
        expect_same(dense, other)
