"""Functions of single records and lines that look words up in a vocabulary: batched first, and the same elements."""

from __future__ import annotations

import pytest
import tensorflow as tf
from batched_first_test import from_memory, parse
from list_pipelines_test import WORDS, assert_in_batches, write_lines
from pipeline_pairs import assert_refused, assert_same

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Lines, Records = tf.data.TextLineDataset, tf.data.TFRecordDataset
KEYS = [*map(str, range(0, 1000, 3)), "a", "b", "c"]


@pytest.fixture(name="text", scope="module")
def text_file(tmp_path_factory):
    return write_lines(tmp_path_factory.mktemp("vocabularies") / "lines")


def vocabulary(values=tf.int64):
    numbers = tf.range(len(KEYS))
    made = tf.strings.as_string(numbers) if values == tf.string else tf.cast(numbers, values)
    return tf.lookup.KeyValueTensorInitializer(KEYS, made)


def table_of(values=tf.int64, default=-1):
    return tf.lookup.StaticHashTable(vocabulary(values), default)


def of_buckets():
    return tf.lookup.StaticVocabularyTable(vocabulary(), 5)


TABLES = {
    "numbers": table_of,
    "texts": lambda: table_of(tf.string, "none"),
    "fractions": lambda: table_of(tf.float32, -0.5),
    "buckets": of_buckets,
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_values_of_records(files, name):
    def make(dataset):
        table = TABLES[name]()

        def function(serialized):
            features = parse(serialized)
            words = features["words"]
            return dict(features, words=tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape))

        return dataset.map(function, 2).shuffle(9, seed=1).batch(4)

    assert_in_batches(lambda: make(Records(files)))
    assert_in_batches(lambda: make(from_memory(files)))


@pytest.mark.parametrize("name", sorted(TABLES))
def test_pieces_of_lines(text, name):
    def make(batch):
        table = TABLES[name]()
        field = lambda line: table.lookup(tf.strings.split(line, ",")[0])
        size = lambda: 1 if name == "buckets" else table.size()  # The other's is a sum.
        return batch(Lines(text).map(lambda line: (table.lookup(WORDS(line)[:3]), field(line), size())))

    assert_in_batches(lambda: make(lambda dataset: dataset.shuffle(9, seed=1).padded_batch(4)))


def test_a_list_that_is_padded(text):
    def make():
        table = table_of()

        def function(line):
            ids = table.lookup(WORDS(line))
            return tf.pad(ids, [[0, 20 - tf.size(ids)]], constant_values=7)

        return Lines(text).map(function).batch(4)

    assert_in_batches(make)


def test_filters_that_ask_many_at_once(files):
    def make():
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4], tf.int64, tf.int64), -1)
        return Records(files).map(parse).filter(lambda f: table.lookup(f["id"] % 4) > 2).batch(4)

    assert_in_batches(make)


def test_a_table_that_is_not_initialized(text):
    ends = []
    for rewrite in (True, False):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            table = table_of()
            numbers = Lines(text).map(lambda line, table=table: table.lookup(tf.strings.split(line, ",")[0]))
            iterator = v1.data.make_initializable_iterator(numbers.batch(4))
            element = iterator.get_next()
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            session.run(iterator.initializer)
            with pytest.raises(tf.errors.OpError) as error:
                session.run(element)
            ends.append(type(error.value))
    assert ends == [tf.errors.FailedPreconditionError] * 2


def test_tables_that_change(text):
    """What they answer depends on when they are asked."""

    def make():
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        return Lines(text).map(lambda line: table.lookup(tf.strings.split(line, ",")[0])).batch(4)

    assert_refused(make, "has a state or effects")
    assert_same(make)
