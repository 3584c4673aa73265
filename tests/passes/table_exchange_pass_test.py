"""What the pass makes of tables under several ranks: seen in the graph of one of two, which is not run."""

import pytest
import tensorflow as tf
from lookup_pair import running

import tf_booster
from tf_booster import _compat
from tf_booster.parallel import collectives, ranks, raw_gradients, shared_graphs
from tf_booster.passes import fetches
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.hash_tables import HashTables
from tf_booster.passes.sparse_lookups import SparseLookups

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setattr(ranks, "_current", ranks.Ranks(0, 2, 0, 2))
    gradients_util = _compat.gradients_util()
    marked = raw_gradients.mark_helper(gradients_util._GradientsHelper)
    monkeypatch.setattr(gradients_util, "_GradientsHelper", marked)
    with tf.Graph().as_default() as made:
        shared_graphs.share(made)
        yield made


def rewrite(graph, **options):
    HashTables(**options).run(GraphView(graph))
    return collectives.count_by_kind(graph.get_operations())


def lookup(name, dim=4, ids=None, **settings):
    ids = v1.placeholder(tf.int64, [None]) if ids is None else ids
    return tf_booster.embedding_lookup(tf_booster.get_hash_table(name, dim, **settings), ids)


def slices_of(loss):
    (table,) = v1.trainable_variables()
    return tf.gradients(loss, [table])[0], table


def apply(values, slices, table):
    changed = tf.IndexedSlices(values, slices.indices, slices.dense_shape)
    v1.train.AdagradOptimizer(0.1).apply_gradients([(changed, table)])


@pytest.mark.parametrize("fuse", [True, False])
def test_38_tables_of_two_dimensions_take_three_collectives(graph, fuse):
    loss = tf.add_n([tf.reduce_sum(lookup(f"t{i}", 4 if i % 2 else 8)) for i in range(38)])
    v1.train.AdagradOptimizer(0.1).minimize(loss)
    assert rewrite(graph, fuse=fuse) == {"tables": 3, "dense": 0, "sparse": 0, "other": 0}


def test_two_optimizers_of_an_estimators_train_op_share_the_collectives(graph):
    loss = tf.reduce_sum(lookup("wide", 1)) + tf.reduce_sum(lookup("deep", 4))
    wide, deep = v1.trainable_variables()
    train_op = tf.group(
        v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=[wide]),
        v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[deep]),
    )
    spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.TRAIN, loss=loss, train_op=train_op)
    fetches.note_spec(graph, spec)
    assert rewrite(graph)["tables"] == 3


def test_a_lookup_of_what_another_lookup_gives_is_an_exchange_of_its_own(graph):
    first = lookup("first", 1)
    second = lookup("second", 4, ids=tf.cast(first[:, 0], tf.int64))
    v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.reduce_sum(first) * second))
    assert rewrite(graph)["tables"] == 5  # Two and two forward, one backward.


def test_dense_features_are_routed_whole(graph):
    """As in dense_ids_test.py."""
    features = {name: v1.placeholder(dtype, [None, 2]) for name, dtype in (("a", tf.int64), ("b", tf.int32))}
    columns = [tf_booster.feature_column.categorical_column_with_hash_table(name) for name in features]
    layer = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(c, 4) for c in columns])
    train_op = v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(layer))
    view = GraphView(graph)
    for each in (HashTables(), SparseLookups()):
        each.run(view)
    counts = running(graph, layer, train_op)
    assert counts["TfBoosterTableRoute"] == 1 and not counts["Where"] and not counts["GatherNd"]


REFUSED = {
    "Mean": lambda v: v / tf.reduce_mean(tf.abs(v)),
    "Max": lambda v: v / tf.reduce_max(v),
    "Min": lambda v: v - tf.reduce_min(v),
    "Cumsum": tf.cumsum,
    "Sum": lambda v: v - tf.reduce_sum(v, 0),
    "AddV2": lambda v: v + tf.fill([3, 4], 1.0),
}


@pytest.mark.parametrize("op", REFUSED)
def test_a_consumer_that_needs_rows_of_other_ranks_is_refused_by_name(graph, op):
    slices, table = slices_of(tf.reduce_sum(lookup("t") ** 2))
    apply(REFUSED[op](slices.values), slices, table)
    before = graph.get_operations()
    with pytest.raises(
        RewriteError, match=rf"Table 't': op '.*' \({op}\) takes the table's gradient and .*own keys only"
    ):
        rewrite(graph)
    assert graph.get_operations() == before


UNDERSTOOD = {
    "scaled": lambda v: v * 0.5,
    "clipped by value": lambda v: tf.clip_by_value(v, -1.0, 1.0),
    "clipped row by row": lambda v: tf.clip_by_norm(v, 1.0, axes=[1]),
    "scaled row by row": lambda v: v / (1.0 + tf.norm(v, axis=1, keepdims=True)),
    "chosen": lambda v: tf.where(v > 0.0, v, 0.1 * v),
    "checked": lambda v: tf.debugging.check_numerics(v, "NaN") + 0.0,
    "noted": lambda v: tf.identity(v) * tf.cast(tf.shape(v)[1], tf.float32),
}


@pytest.mark.parametrize("how", UNDERSTOOD)
def test_what_treats_each_row_by_itself_is_kept(graph, how):
    slices, table = slices_of(tf.reduce_sum(lookup("t") ** 2))
    apply(UNDERSTOOD[how](slices.values), slices, table)
    assert rewrite(graph)["tables"] == 3


@pytest.mark.parametrize("method", ["find", "erase"])
def test_questions_about_single_keys_are_refused(graph, method):
    lookup("t")
    getattr(tf_booster.get_hash_table("t", 4), method)(tf.constant([1], tf.int64))
    with pytest.raises(RewriteError, match=rf"Table 't': {method}\(\) is about keys that live on other ranks"):
        rewrite(graph)


def test_a_graph_that_is_not_shared_has_whole_tables(monkeypatch):
    with tf.Graph().as_default() as exported:
        lookup("t")
        assert rewrite(exported)["tables"] == 0


@pytest.mark.parametrize("on_card", [False, True])
def test_what_adds_the_sums_over_gradients_up_does_not_read_its_own_result(graph, on_card, monkeypatch):
    """Numbers on a card are packed by TensorFlow's ops, others by one of tf_booster's."""
    monkeypatch.setattr(_compat, "is_in_gpu_memory", lambda tensor: on_card)
    monkeypatch.setattr(collectives, "all_reduce_vector", lambda vector, kind, name: tf.identity(vector, "added_up"))
    optimizer = v1.train.AdagradOptimizer(0.1)
    loss = tf.add_n([tf.reduce_sum(lookup(f"t{i}")) for i in range(2)])
    gradients, tables = zip(*optimizer.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
    train = optimizer.apply_gradients(zip(clipped, tables))
    rewrite(graph)
    index = GraphView(graph).index()
    (added_up,) = (index.number[op] for op in graph.get_operations() if op.name.endswith("added_up"))
    assert added_up not in index.upstream([graph.get_operations()[added_up].inputs[0].op])
    assert added_up in index.upstream([norm.op]) and added_up in index.upstream([train])
