"""One-shot iterators, whose dataset is a function's result."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_replaced, outcome
from record_files import FEATURES

import tf_booster
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Records = tf.data.TFRecordDataset


def parse(serialized):
    return tf.io.parse_example(serialized, FEATURES)


def parse_one(serialized):
    features = tf.io.parse_single_example(serialized, {key: FEATURES[key] for key in ("id", "clicks")})
    return features, features.pop("id")


@pytest.mark.parametrize("reads", [None, 3])
def test_what_it_gives(files, reads):
    records = lambda: Records(files, num_parallel_reads=reads)
    result = assert_replaced(lambda: records().shuffle(9, seed=2).batch(4).map(parse).prefetch(1), one_shot=True)
    assert result.changes[0].startswith("OneShotIterator: MapDataset: files, shuffle, batch and parse are one op")
    assert_replaced(lambda: records().map(parse_one).shuffle(9, seed=2).repeat(2).batch(4), one_shot=True)
    # The seed of the graph is in the function.
    assert_replaced(lambda: records().map(parse_one).shuffle(9).repeat(2).batch(4), one_shot=True)
    assert_replaced(lambda: records().batch(4).map(parse).map(lambda f: f["pair"]), one_shot=True)


def test_refusals_name_iterator_and_dataset(files, tmp_path):
    make = lambda: Records(files).map(parse_one).cache(str(tmp_path / "cache")).batch(4)
    _, _, _, result, _ = outcome(make, True, one_shot=True)
    ((name, reason),) = result.skipped
    assert not result.modified and name == "OneShotIterator: MapDataset" and "CacheDataset" in reason


def test_an_undone_rewrite_leaves_the_stock_dataset(files):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        label = v1.data.make_one_shot_iterator(Records(files).map(parse_one).batch(4)).get_next()[1]
        (op,) = [op for op in graph.get_operations() if op.type == "OneShotIterator"]
        view, before = GraphView(graph), op.get_attr("dataset_factory").name
        assert InputPipeline().run(view).modified and op.get_attr("dataset_factory").name != before
        view.rollback()
        assert op.get_attr("dataset_factory").name == before
        assert session.run(label).tolist() == [0, 1, 2, 3]


def test_two_iterators_over_one_dataset(files):
    def run(rewrite):
        with tf.Graph().as_default(), v1.Session() as session:
            dataset = Records(files).map(parse_one).batch(4)
            elements = [v1.data.make_one_shot_iterator(dataset).get_next()[1] for _ in range(2)]
            if rewrite:
                changes = tf_booster.rewrite_graph().to_dict()["passes"]
                assert [len(p["changes"]) for p in changes if p["name"] == "input_pipeline"] == [2]
            return [session.run(elements[i]).tolist() for i in (0, 0, 1, 0, 1)]

    assert run(True) == run(False)


def test_python_s_iterator_makes_more_ops_afterwards(files):
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_one_shot_iterator(Records(files).map(parse_one).batch(4))
        handle = v1.placeholder(tf.string, [])
        feedable = v1.data.Iterator.from_string_handle(
            handle, v1.data.get_output_types(iterator), None, v1.data.get_output_classes(iterator)
        )
        label = feedable.get_next()[1]
        assert "one op" in str(tf_booster.rewrite_graph())
        string = session.run(iterator.string_handle())
        assert session.run(label, {handle: string}).tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(session.run(iterator.get_next()[1]), [4, 5, 6, 7])
