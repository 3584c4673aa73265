"""Tables whose Variables feature columns make: input_layer, DenseFeatures, linear_model, shared and weighted columns."""

import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
column = tf_booster.feature_column.categorical_column_with_hash_table
embedding_column = tf.feature_column.embedding_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        v1.train.create_global_step()
        yield made


def features():
    return {
        "a": v1.placeholder(tf.int64, [None, 1]),
        "b": v1.sparse_placeholder(tf.int64, [None, None]),
        "w": v1.sparse_placeholder(tf.float32, [None, None]),
    }


def rewrite(output, graph):
    v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(output**2))
    return {t["name"]: t for t in tf_booster.rewrite_graph(graph).tables}


def weighted(key, **settings):
    return tf.feature_column.weighted_categorical_column(column(key, **settings), "w")


LAYERS = {
    "input_layer": lambda columns: v1.feature_column.input_layer(features(), columns),
    "DenseFeatures": lambda columns: tf.keras.layers.DenseFeatures(columns)(features()),
    "DenseFeatures v1": lambda columns: v1.keras.layers.DenseFeatures(columns)(features()),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_embedding_columns(graph, layer):
    tables = rewrite(LAYERS[layer]([embedding_column(column("a"), 4), embedding_column(weighted("b"), 3)]), graph)
    assert sorted(t["dim"] for t in tables.values()) == [3, 4]
    assert all(t["optimizer"] == "adagrad" and t["lookups"] == 1 for t in tables.values())
    assert all(
        t["initializer"].startswith("truncated_normal(mean=0, stddev=0.5") for t in tables.values() if t["dim"] == 4
    )
    assert {name.rsplit("/", 2)[-2] for name in tables} == {"a_embedding", "b_weighted_by_w_embedding"}
    assert not v1.trainable_variables()


def test_linear_model(graph):
    tables = rewrite(v1.feature_column.linear_model(features(), [column("a"), weighted("b")]), graph)
    assert set(tables) == {"linear_model/a/weights", "linear_model/b_weighted_by_w/weights"}
    assert all(t["dim"] == 1 and t["initializer"] == "constant(value=0)" for t in tables.values())


def test_shared_embeddings_are_one_table(graph):
    shared = tf.feature_column.shared_embeddings([column("a"), column("b")], 4)
    tables = rewrite(tf.keras.layers.DenseFeatures(shared)(features()), graph)
    assert [(name, t["lookups"]) for name, t in tables.items()] == [("a_b_shared_embedding", 2)]


def test_partitioned_into_one_part_keeps_its_name(graph):
    with v1.variable_scope("x", partitioner=v1.min_max_variable_partitioner(2)):
        tables = rewrite(v1.feature_column.input_layer(features(), [embedding_column(column("a"), 4)]), graph)
    assert list(tables) == ["x/input_layer/a_embedding/embedding_weights"]


def test_settings_of_the_column_are_the_tables(graph):
    source = column("a", min_frequency=3, eviction={"max_idle_steps": 5}, max_rows=9, seed=11)
    (table,) = rewrite(v1.feature_column.input_layer(features(), [embedding_column(source, 4)]), graph).values()
    assert (table["min_frequency"], table["eviction"], table["max_rows"], table["seed"]) == (
        3,
        {"max_idle_steps": 5},
        9,
        11,
    )


INITIALIZERS = {
    "v1 normal": (v1.random_normal_initializer(0.5, 2.0), "normal(mean=0.5, stddev=2)"),
    "v1 uniform": (v1.random_uniform_initializer(-0.25, 0.5), "uniform(minval=-0.25, maxval=0.5)"),
    "v2 uniform": (tf.random_uniform_initializer(-0.25, 0.5), "uniform(minval=-0.25, maxval=0.5)"),
    "keras normal": (tf.keras.initializers.RandomNormal(0.0, 0.25), "normal(mean=0, stddev=0.25)"),
    "keras truncated": (tf.keras.initializers.TruncatedNormal(0.0, 0.25), "truncated_normal(mean=0, stddev=0.25)"),
    "zeros": (v1.zeros_initializer(), "constant(value=0)"),
    "ones": (tf.ones_initializer(), "constant(value=1)"),
    "constant": (v1.constant_initializer(0.75), "constant(value=0.75)"),
}


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_initializers_are_read_back(graph, initializer):
    made, wanted = INITIALIZERS[initializer]
    (table,) = rewrite(
        v1.feature_column.input_layer(features(), [embedding_column(column("a"), 4, initializer=made)]), graph
    ).values()
    assert table["initializer"] == wanted


def test_an_initializer_that_cannot_be_continued_is_refused(graph):
    made = embedding_column(column("a"), 4, initializer=tf.initializers.Orthogonal())
    v1.feature_column.input_layer(features(), [made])
    with pytest.raises(tf_booster.RewriteError, match="embedding_weights.*wanted one of zeros, ones"):
        tf_booster.rewrite_graph(graph)


def test_columns_that_share_a_table_must_agree(graph):
    shared = tf.feature_column.shared_embeddings([column("a", min_frequency=2), column("b")], 4)
    tf.keras.layers.DenseFeatures(shared)(features())
    with pytest.raises(
        tf_booster.RewriteError, match="columns 'a' and 'b' share it.*'min_frequency': 2.*'min_frequency': 0"
    ):
        tf_booster.rewrite_graph(graph)


def test_an_indicator_column_computes_with_ids(graph):
    v1.feature_column.input_layer(features(), [tf.feature_column.indicator_column(column("a"))])
    with pytest.raises(tf_booster.RewriteError, match="OneHot.*computes with looked-up ids"):
        tf_booster.rewrite_graph(graph)


def test_reference_variables_are_refused_with_the_remedy(graph):
    v1.disable_resource_variables()
    try:
        output = v1.feature_column.input_layer(features(), [embedding_column(column("a"), 4)])
        v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(output))
        with pytest.raises(tf_booster.RewriteError, match="'a'.*enable_resource_variables"):
            tf_booster.rewrite_graph(graph)
    finally:
        v1.enable_resource_variables()
