"""What feature columns build around lookups, plain and after the lookup passes: the same bits, and no chain left over."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, lookup_passes, minimized, run, running, v1

fc = tf.feature_column
ROWS = 40


def feature(seed, kind):
    rng = np.random.RandomState(seed)
    if kind == "string":
        words = np.array(["", "a", "bb", "ccc", "ö", "x" * 40])
        return words[rng.randint(0, len(words), (ROWS, 3))].astype(object)
    return rng.randint(-1, 9, (ROWS, 3)).astype(kind)


def inputs(kinds, sparse, static=False):
    """Features of one iterator, dense or sparse. static: whether the batch's size is known, so that tf.shape is a constant."""
    data = {name: feature(i, kind) for i, (name, kind) in enumerate(kinds.items())}
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(11, drop_remainder=static)
    batch = v1.data.make_one_shot_iterator(dataset).get_next()
    if sparse:
        for name, x in batch.items():
            missing = "" if x.dtype == tf.string else tf.constant(-1, x.dtype)
            indices = tf.where(tf.not_equal(x, missing))
            batch[name] = tf.SparseTensor(indices, tf.gather_nd(x, indices), tf.shape(x, tf.int64))
    return batch


CATEGORICAL = {
    "identity": (np.int64, lambda name: fc.categorical_column_with_identity(name, 9)),
    "identity of int32": (np.int32, lambda name: fc.categorical_column_with_identity(name, 9)),
    "identity with default": (np.int64, lambda name: fc.categorical_column_with_identity(name, 5, default_value=2)),
    "hash of strings": ("string", lambda name: fc.categorical_column_with_hash_bucket(name, 7)),
    "hash of integers": (np.int64, lambda name: fc.categorical_column_with_hash_bucket(name, 7, tf.int64)),
    "hash of int32": (np.int32, lambda name: fc.categorical_column_with_hash_bucket(name, 7, tf.int32)),
    "vocabulary": ("string", lambda name: fc.categorical_column_with_vocabulary_list(name, ["a", "ccc", "ö"])),
    "vocabulary with oov": (
        "string",
        lambda name: fc.categorical_column_with_vocabulary_list(name, ["a", "ccc"], num_oov_buckets=2),
    ),
}


def embedding(column, i):
    return fc.embedding_column(
        column, 3 + i, combiner=("mean", "sum", "sqrtn")[i], initializer=v1.random_normal_initializer(seed=i)
    )


@pytest.mark.parametrize("layer", ["input_layer", "DenseFeatures"])
@pytest.mark.parametrize(
    "sparse, static", [(False, False), (True, False), (False, True)], ids=["dense", "sparse", "dense of known size"]
)
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_categorical_columns(kind, sparse, static, layer):
    dtype, make = CATEGORICAL[kind]

    def program():
        columns = [embedding(make(name), i) for i, name in enumerate("abc")]
        features = inputs(dict.fromkeys("abc", dtype), sparse, static)
        return minimized(_layer(layer, features, columns))

    outcome = check_same(program)
    (result,) = [p for p in outcome.report.passes if p.name == "sparse_lookups"]
    assert result.skipped == []
    counts = running(outcome.graph, outcome.graph.get_operation_by_name("Adagrad"))
    assert (
        counts["TfBoosterPrepareLookups"] == counts["TfBoosterPoolLookups"] == counts["TfBoosterPoolLookupsGrad"] == 1
    )
    assert counts["SparseFillEmptyRows"] == counts["SparseReshape"] == 0
    if "hash" in kind:
        assert counts["StringToHashBucketFast"] == counts["AsString"] == 0
    if not sparse and kind in ("identity", "identity of int32") or not sparse and "hash" in kind:
        assert counts["Where"] == counts["GatherNd"] == 0


def _layer(layer, features, columns):
    if layer == "DenseFeatures":
        return [tf.keras.layers.DenseFeatures(columns)(features)]
    return [v1.feature_column.input_layer(features, columns)]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_linear_models(sparse):
    def program():
        columns = [
            fc.categorical_column_with_identity("a", 9),
            fc.categorical_column_with_hash_bucket("b", 5),
            fc.crossed_column(["c", "d"], 20),
        ]
        features = inputs({"a": np.int64, "b": "string", "c": np.int64, "d": "string"}, sparse)
        return minimized([v1.feature_column.linear_model(features, columns, sparse_combiner="sqrtn")])

    outcome = check_same(program)
    (pool,) = [
        op for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups" and op.get_attr("N") == 3
    ]
    assert pool.get_attr("combiners") == [b"sqrtn"] * 3


@pytest.mark.parametrize("static", [False, True], ids=["any size", "known size"])
def test_a_column_used_twice_is_hashed_once(static):
    def program():
        hashed = fc.categorical_column_with_hash_bucket("a", 7)
        columns = [fc.embedding_column(hashed, 3, initializer=v1.ones_initializer())]
        columns += [fc.indicator_column(hashed)]
        return minimized([v1.feature_column.input_layer(inputs({"a": "string"}, False, static), columns)])

    outcome = check_same(program)
    counts = running(outcome.graph, outcome.graph.get_operation_by_name("Adagrad"))
    assert counts["StringToHashBucketFast"] == 1
    assert sum(op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups") == 1


def test_weighted_shared_and_normed_columns():
    def program():
        features = inputs({"a": np.int64, "b": np.int64, "c": np.int64}, False)
        weights = tf.cast(features["c"], tf.float32) * 0.5 - 1.25  # Of both signs; 0 is dropped as −1 is.
        features["w"] = tf.where(features["c"] < 0, tf.zeros_like(weights), weights)
        ids = {name: fc.categorical_column_with_identity(name, 9) for name in "abc"}
        columns = fc.shared_embeddings([ids["a"], ids["b"]], 4, initializer=v1.random_normal_initializer(seed=1))
        columns.append(
            fc.embedding_column(
                fc.weighted_categorical_column(ids["c"], "w"), 5, initializer=v1.random_normal_initializer(seed=2)
            )
        )
        columns.append(fc.embedding_column(ids["c"], 5, max_norm=0.5, initializer=v1.random_normal_initializer(seed=3)))
        return minimized([tf.keras.layers.DenseFeatures(columns)(features)])

    outcome = check_same(program)
    (result,) = [p for p in outcome.report.passes if p.name == "sparse_lookups"]
    assert sum(op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups") == 4
    assert result.skipped == []


def test_identity_out_of_range_is_the_same_error():
    def program():
        columns = [embedding(fc.categorical_column_with_identity("a", 8), 0)]
        return minimized([v1.feature_column.input_layer(inputs({"a": np.int64}, False), columns)])

    for passes in ((), lookup_passes()):
        with pytest.raises(tf.errors.InvalidArgumentError, match="8"):
            run(program, passes, steps=6)
