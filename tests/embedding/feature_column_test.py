"""Hash-table columns below TensorFlow's own columns, beside identity columns on Variables that hold the same rows."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.feature_column import serialization

import tf_booster
from tf_booster import _native
from tf_booster.embedding import registry
from tf_booster.embedding.table_spec import EvictionSpec, InitializerSpec

v1 = tf.compat.v1
fc = tf.feature_column
column = tf_booster.feature_column.categorical_column_with_hash_table

# Row i of a Variable belongs to KEYS[i] of a table.
KEYS = np.array([5, 0, -1, 2**63 - 1, -(2**63), 1, 2**40, -7], np.int64)
INDICES, SHAPE = [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2], [3, 0]], [5, 3]
PLACES = [2, 3, 4, 0, 2, 1]
WEIGHTS = np.array([0.5, 2.0, 1.0, 3.0, 0.25, 1.5], np.float32)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def features():
    return {
        "hash": tf.SparseTensor(INDICES, KEYS[PLACES], SHAPE),
        "hash2": tf.SparseTensor(INDICES, KEYS[PLACES[::-1]], SHAPE),
        "plain": tf.SparseTensor(INDICES, np.array(PLACES, np.int64), SHAPE),
        "plain2": tf.SparseTensor(INDICES, np.array(PLACES[::-1], np.int64), SHAPE),
        "weight": tf.SparseTensor(INDICES, WEIGHTS, SHAPE),
    }


def identity(key):
    return fc.categorical_column_with_identity(key, len(KEYS))


def variables_of(scope):
    return sorted(v1.global_variables(scope), key=lambda variable: variable.op.name)


def run_both(build, columns, key_columns):
    """Results of build(columns) on tables and of build(key_columns) on Variables that hold the same rows."""
    graph = v1.get_default_graph()
    with v1.variable_scope("ours"):
        ours = build(columns)
    with v1.variable_scope("theirs"):
        theirs = build(key_columns)
    variables = [variable for variable in variables_of("theirs") if "bias" not in variable.op.name]
    rng = np.random.RandomState(5)
    rows = [rng.standard_normal(variable.shape).astype(np.float32) for variable in variables]
    fills = [variable.assign(value) for variable, value in zip(variables, rows)]
    tf_booster.rewrite_graph(graph)
    tables = sorted(registry.rewritten(graph).values(), key=lambda table: table.name)
    assert len(tables) == len(variables) > 0
    fills += [
        _native.ops().tf_booster_table_insert_or_assign(table.handle, KEYS, value) for table, value in zip(tables, rows)
    ]
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        session.run(fills)
        return session.run([ours, theirs])


BUILDERS = {
    "DenseFeatures": lambda columns: tf.keras.layers.DenseFeatures(columns)(features()),
    "v1 DenseFeatures": lambda columns: v1.keras.layers.DenseFeatures(columns)(features()),
    "input_layer": lambda columns: v1.feature_column.input_layer(features(), columns),
}
builder = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


@builder
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedding_column(graph, build, combiner, weighted):
    def wrap(categorical):
        if weighted:
            categorical = fc.weighted_categorical_column(categorical, "weight")
        return [fc.embedding_column(categorical, 4, combiner)]

    ours, theirs = run_both(build, wrap(column("hash")), wrap(identity("plain")))
    assert np.any(ours)
    np.testing.assert_array_equal(ours, theirs)


@builder
def test_max_norm(graph, build):
    ours, theirs = run_both(
        build,
        [fc.embedding_column(column("hash"), 4, max_norm=0.5)],
        [fc.embedding_column(identity("plain"), 4, max_norm=0.5)],
    )
    np.testing.assert_array_equal(ours, theirs)


def test_shared_embeddings(graph):
    ours, theirs = run_both(
        BUILDERS["DenseFeatures"],
        fc.shared_embeddings([column("hash"), column("hash2")], 4),
        fc.shared_embeddings([identity("plain"), identity("plain2")], 4),
    )
    np.testing.assert_array_equal(ours, theirs)
    assert len(registry.rewritten(graph)) == 1


def test_shared_embedding_columns_of_v1(graph):
    ours, theirs = run_both(
        BUILDERS["input_layer"],
        v1.feature_column.shared_embedding_columns([column("hash"), column("hash2")], 4),
        v1.feature_column.shared_embedding_columns([identity("plain"), identity("plain2")], 4),
    )
    np.testing.assert_array_equal(ours, theirs)
    assert len(registry.rewritten(graph)) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_model(graph, weighted):
    def wrap(categorical):
        return [fc.weighted_categorical_column(categorical, "weight") if weighted else categorical]

    def build(columns):
        return v1.feature_column.linear_model(features(), columns, units=2, sparse_combiner="mean")

    ours, theirs = run_both(build, wrap(column("hash")), wrap(identity("plain")))
    assert np.any(ours)
    np.testing.assert_array_equal(ours, theirs)


def test_two_embeddings_of_one_column_are_two_tables(graph):
    categorical = column("hash")
    v1.feature_column.input_layer(features(), [fc.embedding_column(categorical, 4)])
    v1.feature_column.input_layer(features(), [fc.embedding_column(categorical, 2)])
    tf_booster.rewrite_graph(graph)
    assert {table.name: table.spec.dim for table in registry.rewritten(graph).values()} == {
        "input_layer/hash_embedding/embedding_weights": 4,
        "input_layer_1/hash_embedding/embedding_weights": 2,
    }


def test_settings_reach_the_table(graph):
    categorical = column("hash", min_frequency=2, eviction={"max_rows": 9, "order": "lfu"}, max_rows=99, seed=7)
    embedding = fc.embedding_column(categorical, 4, initializer=tf.random_normal_initializer(0.5, 0.25))
    v1.feature_column.input_layer(features(), [embedding])
    tf_booster.rewrite_graph(graph)
    (table,) = registry.rewritten(graph).values()
    assert table.spec.initializer == InitializerSpec("normal", 0.5, 0.25)
    assert (table.spec.min_frequency, table.spec.max_rows, table.spec.seed) == (2, 99, 7)
    assert table.spec.eviction == EvictionSpec("lfu", 9)


def test_sharing_with_other_settings_is_refused(graph):
    columns = fc.shared_embeddings([column("hash"), column("hash2", min_frequency=2)], 4)
    BUILDERS["DenseFeatures"](columns)
    with pytest.raises(
        tf_booster.RewriteError, match="columns 'hash.?' and 'hash.?' share it, but want other settings"
    ):
        tf_booster.rewrite_graph(graph)


def unknown_rows(key_column, feature, dim=2):
    """The result for a feature of unknown keys, each with the row [1, 1]: how many ids each example has."""
    embedding = fc.embedding_column(key_column, dim, "sum", initializer=tf.ones_initializer())
    result = v1.feature_column.input_layer({key_column.key: feature}, [embedding])
    tf_booster.rewrite_graph(v1.get_default_graph())
    with v1.Session() as session:
        return session.run(result)[:, 0]


def test_every_int64_counts_in_a_sparse_feature(graph):
    feature = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [-1, -(2**63), 2**63 - 1], [3, 2])
    np.testing.assert_array_equal(unknown_rows(column("hash"), feature), [2, 1, 0])


def test_minus_one_is_missing_in_a_dense_feature(graph):
    feature = tf.constant([[-1, -2, 0], [7, -1, -1], [-1, -1, -1]], tf.int64)
    np.testing.assert_array_equal(unknown_rows(column("hash"), feature), [2, 1, 0])


def test_one_dense_id_an_example(graph):
    np.testing.assert_array_equal(unknown_rows(column("hash"), tf.constant([4, -1, 0])), [1, 0, 1])


def test_int32_columns(graph):
    feature = tf.sparse.from_dense(tf.constant([[1, 2], [0, 3]], tf.int32))
    np.testing.assert_array_equal(unknown_rows(column("hash", tf.int32), feature), [2, 1])


def test_the_empty_string_is_missing_in_a_dense_feature(graph):
    feature = tf.constant([["a", ""], ["", ""], ["b", "a"]])
    np.testing.assert_array_equal(unknown_rows(column("hash", tf.string), feature), [1, 0, 2])


def test_strings_are_hashed_as_lookups_hash_them(graph):
    embedding = fc.embedding_column(column("word", tf.string), 2, "sum")
    result = v1.feature_column.input_layer({"word": tf.constant([["a"], ["b"]])}, [embedding])
    tf_booster.rewrite_graph(graph)
    (table,) = registry.rewritten(graph).values()
    keys = tf.strings.to_hash_bucket_fast(["a", "b"], 2**63 - 1)
    fill = _native.ops().tf_booster_table_insert_or_assign(table.handle, keys, [[1.0, 2.0], [3.0, 4.0]])
    with v1.Session() as session:
        session.run(fill)
        np.testing.assert_array_equal(session.run(result), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "dtype, feature, message",
    [
        (tf.int64, [["a"]], "the feature is string, but the column's dtype is int64; make them agree"),
        (tf.string, [[1]], "the feature is int32, but the column's dtype is string"),
        (tf.int64, [[1.0]], "the feature is float32, but the column's dtype is int64"),
    ],
)
def test_features_of_another_dtype(graph, dtype, feature, message):
    embedding = fc.embedding_column(column("hash", dtype), 2)
    with pytest.raises(ValueError, match="categorical_column_with_hash_table 'hash': " + message):
        v1.feature_column.input_layer({"hash": tf.constant(feature)}, [embedding])


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(key=3), TypeError, "key is 3, wanted a string"),
        (dict(key="user", dtype=tf.float32), ValueError, "'user': dtype is float32, wanted int64, int32 or string"),
        (dict(key="user", min_frequency=-1), ValueError, "'user': min_frequency is -1, wanted an integer from 0"),
        (dict(key="user", eviction={"lru": 3}), ValueError, "'user': eviction is {'lru': 3}, wanted"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match="categorical_column_with_hash_table.*" + message):
        column(**arguments)


def test_eager_execution_is_refused_with_the_remedy():
    layer = tf.keras.layers.DenseFeatures([fc.embedding_column(column("hash"), 2)])
    with pytest.raises(RuntimeError, match="'hash': hash tables live in a graph, and this is eager execution"):
        layer({"hash": tf.constant([[1]])})


@pytest.mark.parametrize(
    "make",
    [
        lambda: fc.indicator_column(column("hash")),
        lambda: fc.indicator_column(fc.weighted_categorical_column(column("hash"), "weight")),
        lambda: fc.indicator_column(fc.crossed_column([column("hash"), identity("plain")], 10)),
    ],
    ids=["indicator", "weighted indicator", "crossed"],
)
def test_columns_that_compute_with_ids_are_refused(graph, make):
    v1.feature_column.input_layer(features(), [make()])
    with pytest.raises(tf_booster.RewriteError, match="'hash'.*computes with.*categorical_column_with_hash_bucket"):
        tf_booster.rewrite_graph(graph)


def test_parsing(graph):
    columns = [
        fc.embedding_column(column("a"), 2),
        fc.embedding_column(column("b", tf.int32), 2),
        fc.embedding_column(fc.weighted_categorical_column(column("c", tf.string), "w"), 2),
    ]
    spec = {
        "a": tf.io.VarLenFeature(tf.int64),
        "b": tf.io.VarLenFeature(tf.int64),
        "c": tf.io.VarLenFeature(tf.string),
        "w": tf.io.VarLenFeature(tf.float32),
    }
    assert fc.make_parse_example_spec(columns) == spec
    assert v1.feature_column.make_parse_example_spec(columns) == spec


def test_a_config_brings_the_column_back():
    categorical = column("hash", tf.string, 2, {"max_rows": 9, "order": "lfu"}, 99, 7)
    embedding = fc.embedding_column(fc.weighted_categorical_column(categorical, "weight"), 4)
    config = json.loads(json.dumps(serialization.serialize_feature_column(embedding)))
    back = serialization.deserialize_feature_column(config)
    assert back.categorical_column.categorical_column == categorical
    assert back.name == embedding.name


def test_keras_layer_from_its_config(graph):
    layer = tf.keras.layers.DenseFeatures([fc.embedding_column(column("hash", min_frequency=3), 4)])
    again = tf.keras.layers.DenseFeatures.from_config(layer.get_config())
    again(features())
    tf_booster.rewrite_graph(graph)
    assert [table.spec.min_frequency for table in registry.rewritten(graph).values()] == [3]
