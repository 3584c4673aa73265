"""Records that a pipeline keeps in memory: read once, then given out again in the same order, as by tf.data's own cache."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_replaced, assert_same, outcome
from record_files import FEATURES

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
experimental = tf.data.experimental
Records = tf.data.TFRecordDataset
SOME = {key: FEATURES[key] for key in ("id", "pair", "clicks", "words")}


def parse(serialized):
    return tf.io.parse_single_example(serialized, SOME)


PIPELINES = {
    "behind the parse": lambda files: Records(files).map(parse, 2).cache().shuffle(20, seed=3).repeat(3).batch(4),
    "of records": lambda files: Records(files).cache().shuffle(9, seed=1).map(parse).repeat(2).batch(5),
    "batches parsed": lambda files: (
        Records(files).cache().repeat(3).batch(4).map(lambda s: tf.io.parse_example(s, FEATURES))
    ),
    "one order for all epochs": lambda files: Records(files).map(parse).shuffle(9, seed=3).cache().repeat(3).batch(4),
    "never read to the end": lambda files: Records(files)
    .map(parse)
    .shuffle(9, seed=3)
    .cache()
    .take(7)
    .repeat(3)
    .batch(4),
    "read to the end once": lambda files: Records(files).map(parse).cache().repeat(2).skip(3).batch(4).repeat(2),
    "of what a filter keeps": lambda files: (
        Records(files).map(parse).filter(lambda f: tf.random.uniform([], seed=2) < 0.5).cache().repeat(3).batch(4)
    ),
    "in front of a filter": lambda files: (
        Records(files).map(parse).cache().filter(lambda f: tf.random.uniform([], seed=2) < 0.5).repeat(3).batch(4)
    ),
    "two caches": lambda files: Records(files).cache().map(parse).shuffle(5, seed=2).cache().repeat(2).batch(4, True),
    "of nothing": lambda files: Records(files).map(parse).take(0).cache().repeat(2).batch(4),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("one_shot", [False, True])
def test_what_iterators_give(files, name, one_shot):
    assert_replaced(lambda: PIPELINES[name](files), one_shot=one_shot)


def test_epochs_do_not_read_the_files_again(files, tmp_path):
    path = str(tmp_path / "records")
    with open(files[2], "rb") as file, open(path, "wb") as copy:
        copy.write(file.read())
    with tf.Graph().as_default() as graph, v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(Records(path).map(parse).cache().repeat(2).batch(1))
        ids = iterator.get_next()["id"]
        assert InputPipeline().run(GraphView(graph)).modified
        session.run(iterator.initializer)
        first = [session.run(ids)]
        os.remove(path)
        rest = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                rest.append(session.run(ids))
    everything = np.concatenate(first + rest)
    assert len(everything) > 2
    np.testing.assert_array_equal(*np.split(everything, 2))


def test_an_iterator_that_begins_anew_reads_anew(files):
    def epochs(rewrite):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            v1.set_random_seed(5)
            dataset = Records(files).map(parse).shuffle(9, seed=3).cache().batch(100)
            iterator = v1.data.make_initializable_iterator(dataset)
            ids = iterator.get_next()["id"]
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            found = []
            for _ in range(3):
                session.run(iterator.initializer)
                found.append(session.run(ids).tolist())
            return found

    assert epochs(True) == epochs(False)


@pytest.mark.parametrize("place", [0, 1, 3, 7, 8, 12, 15])
@pytest.mark.parametrize("name", ["behind the parse", "one order for all epochs", "never read to the end"])
def test_saved_iterators_go_on(files, tmp_path, place, name):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(PIPELINES[name](files))
        ids = iterator.get_next()["id"]
        assert InputPipeline().run(GraphView(graph)).modified
        saver = v1.train.Saver({"iterator": experimental.make_saveable_from_iterator(iterator)})

        def batches(most=99):
            found = []
            try:
                while len(found) < most:
                    found.append(session.run(ids).tolist())
            except tf.errors.OutOfRangeError:
                pass
            return found

        session.run(iterator.initializer)
        whole = batches()
        session.run(iterator.initializer)
        assert batches(place) == whole[:place]
        path = saver.save(session, str(tmp_path / "state"))
        batches()
        session.run(iterator.initializer)
        saver.restore(session, path)
        assert batches() == whole[place:]


def test_a_cache_that_several_datasets_read_stays(files):
    def make():
        cached = Records(files).shuffle(30, seed=4).map(parse).cache()
        return tf.data.Dataset.zip((cached.batch(3), cached.batch(3)))

    result, _ = assert_same(make)
    assert any("keeps an order" in why for _, why in result.skipped)


def test_a_damaged_file_fails_where_it_did(files, tmp_path):
    cut = tmp_path / "cut"
    with open(files[2], "rb") as file:
        cut.write_bytes(file.read()[:-5])
    make = lambda: Records([files[0], str(cut), files[3]]).map(parse).cache().batch(2)
    assert outcome(make, True)[:2][1] is outcome(make, False)[:2][1]
    assert_replaced(
        lambda: Records([files[0], str(cut), files[3]])
        .cache()
        .repeat(2)
        .batch(2)
        .map(lambda s: tf.io.parse_example(s, FEATURES)),
        errors=True,
    )
