"""Tensors in memory that are sliced, shuffled and batched: the same batches, made of whole tensors."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_pairs import assert_refused, assert_replaced, assert_same

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Dataset = tf.data.Dataset
N = 103
FEATURES = {
    "id": np.arange(N) * 7,
    "numbers": np.random.RandomState(0).rand(N, 3).astype(np.float32),
    "word": np.array([b"word %d" % i for i in range(N)], object),
    "flag": np.arange(N) % 3 == 0,
    "nothing": np.zeros([N, 0], np.int32),
}
LABELS = np.arange(N) % 2


def slices(features=None):
    return Dataset.from_tensor_slices((FEATURES if features is None else features, LABELS))


PIPELINES = {
    "batch": lambda: slices().batch(16),
    "remainder dropped": lambda: slices().batch(16, drop_remainder=True),
    "parallel batch": lambda: slices().batch(16, num_parallel_calls=2),
    "shuffle": lambda: slices().shuffle(20).repeat(2).batch(16),
    "shuffle of all": lambda: slices().shuffle(N, seed=3).batch(16).repeat(2),
    "one order": lambda: slices().shuffle(N, seed=3, reshuffle_each_iteration=False).repeat(2).batch(16),
    "repeat first": lambda: slices().repeat(3).shuffle(50).batch(16),
    "shuffle and repeat": lambda: slices().apply(tf.data.experimental.shuffle_and_repeat(30, 2, seed=1)).batch(16),
    "part": lambda: slices().skip(5).take(60).shard(2, 1).batch(16),
    "cache": lambda: slices().cache().shuffle(20).repeat(2).batch(16),
    "prefetch": lambda: slices().prefetch(3).batch(16).prefetch(1),
    "maps": lambda: slices().map(lambda x, y: ({**x, "id": x["id"] * 2}, y)).shuffle(9).map(add_label).batch(16),
    "parallel map": lambda: slices().map(add_label, num_parallel_calls=4).batch(16),
    "map and batch": lambda: slices().apply(tf.data.experimental.map_and_batch(add_label, 16)),
    "map of what is left": lambda: slices().map(lambda x, y: (x["word"], y)).batch(64),
    "map of batches": lambda: slices().batch(16).map(lambda x, y: (x["id"] + 1, tf.reduce_sum(y))),
    "filter": lambda: slices().filter(lambda x, y: x["id"] % 2 == 0).shuffle(20).batch(16),
    "filter behind a map": lambda: slices().map(add_label).filter(lambda x, y: x["sum"] > 100).batch(16),
    "padded batch": lambda: slices({"id": FEATURES["id"], "numbers": FEATURES["numbers"]}).padded_batch(32),
    "zip": lambda: Dataset.zip((slices(), Dataset.from_tensor_slices(np.arange(50)))).shuffle(20).batch(16),
    "zip of zips": lambda: Dataset.zip((Dataset.zip((slices(), slices())), slices())).batch(16),
    "options": lambda: with_options(slices().shuffle(20)).batch(16),
    "a matrix": lambda: Dataset.from_tensor_slices(np.arange(2000).reshape(500, 4)).shuffle(90).batch(100),
    "no rows": lambda: Dataset.from_tensor_slices((np.zeros([0, 2]), np.zeros([0]))).batch(64),
    "big tensors": lambda: Dataset.from_tensor_slices((np.zeros([5, 40000]), np.arange(5))).shuffle(3).batch(40),
}


def add_label(features, label):
    return {**features, "sum": features["id"] + label, "two": tf.stack([label, label])}, label


def with_options(dataset):
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize("name", PIPELINES)
def test_batches_are_the_same(name, one_shot):
    result = assert_replaced(PIPELINES[name], one_shot=one_shot)
    assert "rows of tensors are taken a batch at a time" in str(result.changes)


def fed(shapes, values, then, zipped=False):
    """What an iterator whose tensors are fed gives, of both pipelines; or its error. zipped: each is sliced by itself, and `then` the batch of 40."""
    found = []
    for rewrite in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            v1.set_random_seed(5)
            tensors = [v1.placeholder(tf.as_dtype(value.dtype), shape) for shape, value in zip(shapes, values)]
            if zipped:
                dataset = Dataset.zip(tuple(map(Dataset.from_tensor_slices, tensors))).apply(then).batch(40)
            else:
                dataset = then(Dataset.from_tensor_slices(tuple(tensors)))
            iterator = v1.data.make_initializable_iterator(dataset)
            element = iterator.get_next()
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            found.append([])
            try:
                session.run(iterator.initializer, dict(zip(tensors, values)))
                while True:
                    found[-1].append(session.run(element))
            except tf.errors.OpError as error:
                found[-1].append((type(error).__name__, error.message.split("\n\t [[")[0].split("\n")[-1]))
    np.testing.assert_equal(*found)
    return found[0]


@pytest.mark.parametrize("shapes", [[[None], [None, 3]], [[N], [N, 3]], [[N], [None, None]]])
def test_tensors_that_are_fed(shapes):
    given = fed(shapes, [FEATURES["id"], FEATURES["numbers"]], lambda d: d.shuffle(30).repeat(2).batch(40))
    assert len(given) == 7


def test_tensors_with_different_numbers_of_rows_are_tensorflows_error():
    values = [FEATURES["id"], FEATURES["numbers"][:50]]
    (told,) = fed([[None], [None, 3]], values, lambda d: d.batch(40))
    assert told[0] == "InvalidArgumentError"


def test_a_zip_of_tensors_that_are_fed_is_as_long_as_the_shortest():
    values = [FEATURES["id"], FEATURES["numbers"][:50]]
    one_by_one = lambda d: d.map(lambda *row: row)  # noqa: E731
    for order in (values, values[::-1]):
        shapes = [[None, *value.shape[1:]] for value in order]
        given = fed(shapes, order, one_by_one, zipped=True)
        assert sum(len(batch[0]) for batch in given[:-1]) == 50


def test_tensors_that_a_table_or_a_variable_gives():
    """Whatever they are, they are read when the iterator is initialized."""
    for rewrite in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            variable = v1.get_variable("v", initializer=tf.range(100), use_resource=True)
            dataset = Dataset.from_tensor_slices((variable, variable * 2)).batch(50)
            iterator = v1.data.make_initializable_iterator(dataset)
            element = iterator.get_next()
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            session.run(variable.initializer)
            session.run(iterator.initializer)
            session.run(variable.assign(tf.zeros([100], tf.int32)))
            np.testing.assert_array_equal(session.run(element)[1], np.arange(50) * 2)


def test_two_parts_of_one_dataset():
    def shuffled(reshuffle):
        dataset = slices().shuffle(N, seed=1, reshuffle_each_iteration=reshuffle)
        return Dataset.zip((dataset.take(60).batch(16), dataset.skip(60).batch(16)))

    assert_refused(lambda: shuffled(True), "keeps an order for several datasets")
    assert_replaced(lambda: shuffled(False))

    def unshuffled():
        dataset = slices()
        return Dataset.zip((dataset.take(60).batch(16), dataset.skip(60).shuffle(9).batch(16)))

    assert_replaced(unshuffled)


def test_a_part_that_is_not_batched_stays():
    def make():
        dataset = slices()
        return Dataset.zip((dataset.batch(16), dataset.map(lambda x, y: x["id"])))

    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(make())
        iterator.get_next()
        InputPipeline().run(GraphView(graph))
        maps = [op for op in graph.get_operations() if op.type == "MapDataset" and "tf_booster" not in op.name]
        assert [op.inputs[0].op.type for op in maps] == ["TensorSliceDataset"]
    assert_replaced(make)


def test_a_batch_that_cannot_be_made_so_stays_beside_one_that_can():
    def make():
        dataset = slices()
        sums = dataset.map(lambda x, y: tf.reduce_sum(x["numbers"])).batch(64)
        return Dataset.zip((dataset.batch(64), sums))

    result, _ = assert_same(make)
    assert result.modified and ["depends on the order" in why for _, why in result.skipped] == [True], result


@pytest.mark.parametrize(
    "make",
    [
        lambda: slices().batch(2),
        lambda: slices().map(add_label),
        lambda: Dataset.from_tensor_slices(np.arange(N)).batch(16),
        lambda: Dataset.zip((slices(), Dataset.range(N))).batch(32),
        lambda: Dataset.from_tensors(FEATURES).batch(32),
    ],
    ids=["few tensors", "no batch", "few rows", "zip with another", "no slices"],
)
def test_what_is_left_without_a_word(make):
    result, _ = assert_same(make)
    assert not result.modified and not result.skipped, result


def test_refusals():
    sparse = lambda: tf.SparseTensor([[0, 0], [99, 1]], [1, 2], [100, 2])  # noqa: E731
    assert_refused(lambda: Dataset.from_tensor_slices((sparse(), np.arange(100))).batch(50), "SparseTensors")
    ragged = lambda: tf.ragged.constant([[1], [2, 3]] * 50)  # noqa: E731
    assert_refused(lambda: Dataset.from_tensor_slices((ragged(), np.arange(100))).batch(50), "RaggedTensors")
    noise = lambda x, y: (x, tf.random.uniform([]))  # noqa: E731
    assert_refused(lambda: slices().map(noise).batch(16), "has a state or effects")
    unknown = lambda: Dataset.from_tensor_slices((v1.placeholder(tf.int64, None), LABELS))  # noqa: E731
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(unknown().batch(64)).get_next()
        result = InputPipeline().run(GraphView(graph))
        assert not result.modified and "rank is not known" in str(result.skipped)


def test_errors_that_are_ignored():
    assert_refused(
        lambda: slices().batch(16).apply(tf.data.experimental.ignore_errors()), "goes on after a broken record"
    )


def test_records_in_memory_are_parsed_in_batches_as_before():
    record = tf.train.Example(features=tf.train.Features()).SerializeToString()
    parse = lambda r, y: (tf.io.parse_single_example(r, {"a": tf.io.FixedLenFeature([], tf.int64, 5)}), y)  # noqa: E731
    result = assert_replaced(lambda: Dataset.from_tensor_slices(([record] * 100, np.arange(100))).map(parse).batch(40))
    assert "records are parsed a batch at a time" in str(result.changes)


def test_rows_are_taken_by_one_op():
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(slices().shuffle(9).batch(16)).get_next()
        InputPipeline().run(GraphView(graph))
        nodes = [node.op for function in _compat.function_definitions(graph) for node in function.node_def]
    assert nodes.count("TfBoosterTakeRows") == 1


STEPS = {
    "shuffle": lambda d, n: d.shuffle(n + 1, seed=n),
    "other shuffle": lambda d, n: d.shuffle(2 * n + 1),
    "repeat": lambda d, n: d.repeat(1 + n % 3),
    "take": lambda d, n: d.take(5 * n),
    "skip": lambda d, n: d.skip(n),
    "shard": lambda d, n: d.shard(1 + n % 4, n % (1 + n % 4)),
    "map": lambda d, n: d.map(lambda x, y: ({**x, "id": x["id"] - n, "more": x["numbers"] * 2}, y)),
    "filter": lambda d, n: d.filter(lambda x, y: x["id"] % (n + 2) != 0),
    "cache": lambda d, n: d.cache(),
    "prefetch": lambda d, n: d.prefetch(n),
}


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 25)), max_size=5), st.integers(11, 60))
def test_any_steps(steps, size):
    def make():
        dataset = slices()
        for step, number in steps:
            dataset = STEPS[step](dataset, number)
        return dataset.batch(size)

    result, _ = assert_same(make)
    assert result.modified, result
