"""The pass that splits a training graph in two: what it makes, and what it leaves whole, with the reason."""

import collections

import gpu_kernels
import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.fetches import note_spec
from tf_booster.passes.graph_view import GraphView
from tf_booster.pipeline.split import split_of

v1 = tf.compat.v1


def features(steps=4):
    data = {
        "ids": np.arange(steps * 6, dtype=np.int64).reshape(steps, 6) % 9,
        "numbers": np.linspace(0, 1, steps * 2).astype(np.float32).reshape(steps, 2),
        "label": np.ones([steps, 6], np.float32),
    }
    return v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(data)).get_next()


def minimize(loss):
    return v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())


def embed(ids, name="t"):
    return tf_booster.embedding_lookup(tf_booster.get_hash_table(name, 4), ids)


def trained(lookup, extra=lambda given, out: out):
    """A graph that trains lookup(features)."""
    graph = tf.Graph()
    with graph.as_default():
        given = features()
        out = extra(given, tf.reduce_sum(lookup(given), -1))
        minimize(tf.reduce_sum(tf.square(out - given["label"])))
    return graph


def rewrite(graph, mode="exact", **options):
    with graph.as_default():
        report = pipelines.rewrite(graph, Options(pipeline=mode, **options))
    return next(p for p in report.to_dict()["passes"] if p["name"] == "embedding_pipeline")


def types_upstream(graph, op):
    index = GraphView(graph).index()
    return [index.ops[number].type for number in index.upstream([op])]


def main_graph(graph):
    return types_upstream(graph, graph.get_collection_ref("train_op")[0])


def embedding_graph(graph):
    return types_upstream(graph, split_of(graph).enqueue)


def reason(graph, mode="exact"):
    """Why a graph is left whole; nothing else of it may have changed."""
    said = rewrite(graph, mode)
    assert not said["modified"] and split_of(graph) is None
    assert not [op.name for op in graph.get_operations() if op.name.startswith("tf_booster/pipeline")]
    (skipped,) = said["skipped"]
    assert skipped["reason"].startswith("left whole: ")
    return skipped["node"], skipped["reason"]


def test_exact_probes_ahead_and_reads_rows_in_the_main_graph():
    graph = trained(lambda given: embed(given["ids"]))
    assert rewrite(graph)["modified"]
    ahead, main = embedding_graph(graph), main_graph(graph)
    assert (
        ahead.count("IteratorGetNext")
        == ahead.count("TfBoosterTableProbe")
        == ahead.count("TfBoosterEnqueueBatch")
        == 1
    )
    assert "TfBoosterTableGather" not in ahead and "TfBoosterDequeueBatch" not in ahead
    assert main.count("TfBoosterTableGather") == main.count("TfBoosterDequeueBatch") == 1
    assert "IteratorGetNext" not in main and "TfBoosterTableProbe" not in main


def test_async_reads_rows_ahead_too():
    graph = trained(lambda given: embed(given["ids"]))
    said = rewrite(graph, "async")
    assert "differ from run to run" in said["changes"][1]
    ahead, main = embedding_graph(graph), main_graph(graph)
    assert ahead.count("TfBoosterTableGather") == 1 and "TfBoosterTableGather" not in main
    assert main.count("TfBoosterTableApplyGradientDescent") == 1


def test_what_a_collection_op_computes_from_the_input_reads_what_crossed():
    """A summary, an assertion and the program's own tensors of the input."""

    def extra(given, out):
        v1.summary.scalar("largest", tf.reduce_max(given["ids"]))
        with tf.control_dependencies([tf.debugging.assert_less(given["ids"], np.int64(100), name="small")]):
            return tf.identity(out)

    graph = trained(lambda given: embed(given["ids"]), extra)
    rewrite(graph)
    (summary,) = graph.get_collection(v1.GraphKeys.SUMMARIES)
    assert "IteratorGetNext" not in types_upstream(graph, summary.op)
    assert "TfBoosterDequeueBatch" in types_upstream(graph, summary.op)
    assert "If" in embedding_graph(graph) and "If" not in main_graph(graph)  # The assertion is inside of it.


def test_floats_that_no_lookup_needs_are_computed_beside_their_readers():
    graph = trained(
        lambda given: embed(given["ids"]), lambda given, out: out * tf.math.log1p(given["numbers"][0] * 2.0)
    )
    rewrite(graph)
    assert "Mul" not in embedding_graph(graph) and "Log1p" not in embedding_graph(graph)
    graph = trained(lambda given: embed(tf.cast(given["label"] * 3.0, tf.int64)))
    rewrite(graph)
    assert "Mul" in embedding_graph(graph)


@pytest.mark.parametrize("mode", ["exact", "async"])
def test_a_join_of_many_features_is_looked_at_no_oftener_than_one_of_few(mode, monkeypatch):
    """TensorFlow reads all inputs of an op anew after each edit: looked at once a feature, 300 of them take 14 s."""
    reads, read = collections.Counter(), tf.Operation.inputs.fget

    def count(op):
        reads[op.name] += 1
        return read(op)

    def looks(num_features):
        with tf.Graph().as_default() as graph:
            data = {f"f{i}": np.ones([4, 2], np.float32) for i in range(num_features)}
            given = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(data)).get_next()
            join = tf.concat(list(given.values()), 1)
            minimize(tf.reduce_sum(v1.layers.dense(join, 1)))
            reads.clear()
            assert rewrite(graph, mode)["modified"]
        return reads[join.op.name]

    monkeypatch.setattr(tf.Operation, "inputs", property(count))
    assert 0 < looks(40) < looks(10) + 10


def test_a_second_run_changes_nothing():
    graph = trained(lambda given: embed(given["ids"]))
    rewrite(graph)
    before = graph.version
    with graph.as_default():
        pipelines.rewrite(graph, Options(pipeline="exact"))
    assert graph.version == before


def test_an_embedding_that_feeds_an_id():
    graph = trained(lambda given: embed(tf.cast(embed(given["ids"])[:, 0], tf.int64), "other"))
    node, why = reason(graph)
    assert "tf_booster/t/gather" in node and "an embedding, whose value is known when the step before has ended" in why


def test_ids_that_depend_on_a_variable():
    graph = trained(lambda given: embed(given["ids"] + tf.cast(v1.get_variable("v", []), tf.int64)))
    assert reason(graph)[0] == "v" and "'v' (VarHandleOp), which a step may change" in reason(graph)[1]


def test_ids_behind_control_flow():
    def lookup(given):
        v1.disable_control_flow_v2()
        return embed(v1.cond(given["numbers"][0] > 0.5, lambda: given["ids"], lambda: given["ids"] + 1))

    was_on = v1.control_flow_v2_enabled()
    try:
        assert "which is control flow" in reason(trained(lookup))[1]
    finally:
        if was_on:
            v1.enable_control_flow_v2()


@pytest.mark.parametrize(
    "ids",
    [
        lambda given: tf.random.uniform([6], 0, 9, tf.int64),
        lambda given: v1.py_func(lambda x: x, [given["ids"]], tf.int64),
    ],
)
def test_ids_that_are_made_anew_in_each_step(ids):
    graph = trained(lambda given: embed(tf.reshape(ids(given), [6])))
    assert "must run when its step runs" in reason(graph)[1]


def test_constant_ids():
    graph = trained(lambda given: embed(tf.constant([1, 2, 3, 4, 5, 6], tf.int64)))
    assert "do not come from the input" in reason(graph)[1]


def test_fed_input():
    graph = tf.Graph()
    with graph.as_default():
        minimize(tf.reduce_sum(embed(v1.placeholder(tf.int64, [None], "fed"))))
    assert reason(graph)[0] == "fed" and "the input is fed" in reason(graph)[1]


def test_two_iterators():
    graph = trained(lambda given: embed(given["ids"] + features()["ids"]))
    assert "several iterators" in reason(graph)[1]


def test_an_iterator_that_is_read_twice():
    graph = tf.Graph()
    with graph.as_default():
        iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(6).batch(2))
        iterator.get_next()
        minimize(tf.reduce_sum(embed(iterator.get_next())))
    assert "which batch each gets would change" in reason(graph)[1]


def test_a_saved_iterator():
    graph = tf.Graph()
    with graph.as_default():
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(6).batch(2))
        tf.data.experimental.make_saveable_from_iterator(iterator)
        minimize(tf.reduce_sum(embed(iterator.get_next())))
    assert "saves its input iterator" in reason(graph)[1]


@pytest.mark.parametrize("inserting", [False, True])
def test_a_dataset_that_reads_what_a_step_changes(inserting):
    graph = tf.Graph()
    with graph.as_default():
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        variable = v1.get_variable("hardness", [], tf.int64, use_resource=True)
        given = tf.data.Dataset.range(6).batch(2)
        given = given.map(table.lookup) if inserting else given.map(lambda ids: ids + variable)
        ids = v1.data.make_initializable_iterator(given).get_next()
        if inserting:
            v1.add_to_collection("inserting", table.insert(ids, ids))
        minimize(tf.reduce_sum(embed(ids)))
    assert ("into which a step may insert" if inserting else "reads a Variable") in reason(graph)[1]


def test_a_dataset_that_looks_up_in_a_vocabulary():
    graph = tf.Graph()
    with graph.as_default():
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        ids = v1.data.make_initializable_iterator(tf.data.Dataset.range(6).batch(2).map(table.lookup)).get_next()
        minimize(tf.reduce_sum(embed(ids)))
    assert rewrite(graph)["modified"]


def test_an_iterator_that_may_be_read_by_its_handle():
    graph = tf.Graph()
    with graph.as_default():
        dataset = tf.data.Dataset.range(6).batch(2)
        iterator = v1.data.make_initializable_iterator(dataset)
        minimize(tf.reduce_sum(embed(iterator.get_next())))
        types, shapes = v1.data.get_output_types(dataset), v1.data.get_output_shapes(dataset)
        v1.data.Iterator.from_string_handle(v1.placeholder(tf.string, []), types, shapes).get_next()
    assert "read by its handle" in reason(graph)[1]


def test_a_graph_that_evaluates():
    graph = tf.Graph()
    with graph.as_default():
        loss = tf.reduce_sum(embed(features()["ids"]))
        note_spec(graph, tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.EVAL, loss=loss))
    assert "no step of it writes a Variable" in reason(graph)[1]


def test_an_iterator_that_is_chosen_by_a_feed():
    graph = tf.Graph()
    with graph.as_default():
        dataset = tf.data.Dataset.range(6).batch(2)
        handle = v1.placeholder(tf.string, [])
        types, shapes = v1.data.get_output_types(dataset), v1.data.get_output_shapes(dataset)
        iterator = v1.data.Iterator.from_string_handle(handle, types, shapes)
        minimize(tf.reduce_sum(embed(iterator.get_next())))
    assert "a feedable iterator" in reason(graph)[1]


def test_words_looked_up_in_a_vocabulary_that_may_grow():
    def lookup(given, insert):
        words = tf.strings.as_string(given["ids"])
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        if insert:
            v1.add_to_collection("inserting", table.insert(words, given["ids"]))
        return embed(table.lookup(words))

    assert rewrite(trained(lambda given: lookup(given, insert=False)))["modified"]
    assert "MutableHashTable" in reason(trained(lambda given: lookup(given, insert=True)))[1]


def test_what_the_card_prepares_does_not_cross(monkeypatch):
    """It would go through the host's memory. But a disk is worth not to be waited for. Strings are prepared in host memory in any case, and so is what
    tables there want."""
    gpu_kernels.pretend(monkeypatch)
    on_card = trained(lambda given: embed(given["ids"]))
    assert "prepared on the GPU" in rewrite(on_card)["skipped"][0]["reason"]
    assert split_of(on_card) is None
    assert not rewrite(trained(lambda given: embed(given["ids"])), table_directory="/tmp")["skipped"]
    words = trained(lambda given: embed(tf.strings.to_hash_bucket_fast(tf.as_string(given["ids"]), 1000)))
    assert not rewrite(words)["skipped"]

    def in_host_memory(given):
        with tf.device("/cpu:0"):
            return embed(given["ids"])

    assert not rewrite(trained(in_host_memory))["skipped"]
