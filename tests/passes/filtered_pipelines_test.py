"""Records that are filtered between parse and batch: the same batches from one op, or a reason."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced
from record_files import FEATURES
from single_record_pipelines_test import FIXED, Records, parse, split_label

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
experimental = tf.data.experimental


def is_by_row(make):
    """Whether the filter's function takes many records at once."""
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(make())
        assert InputPipeline().run(GraphView(graph)).modified
        (op,) = [op for op in graph.get_operations() if op.type == "TfBoosterTFRecordExampleDataset"]
        arguments = tf.get_static_value(op.inputs[5]).reshape(-1, 5).tolist()
        stages = [stage.decode() for stage in op.get_attr("stages")]
    found = {bool(numbers[2]) for stage, numbers in zip(stages, arguments) if stage == "filter"}
    assert len(found) == 1
    return found.pop()


BY_ROW = {
    "a number": lambda f: f["id"] > 3,
    "one that is picked": lambda f: f["pair"][0] > 4.0,
    "the last one": lambda f: f["pair"][-1] < -4.0,
    "unstacked": lambda f: tf.not_equal(tf.unstack(f["pair"])[1], -7.0),
    "sliced and squeezed": lambda f: tf.squeeze(f["pair"][:1]) >= 4.0,
    "a new axis": lambda f: tf.reshape(f["pair"][tf.newaxis, 1:] < 0.0, []),
    "any": lambda f: tf.reduce_any(f["pair"] > 20.0),
    "all but one axis": lambda f: tf.reduce_all(f["pair"][:, None] < 20.0, axis=[0, -1]),
    "a sum of integers": lambda f: tf.reduce_sum(tf.cast(f["pair"], tf.int64)) < 1,
    "the largest": lambda f: tf.reduce_max(tf.stack([f["id"], 9 * (f["id"] % 2)])) < 10,
    "concatenated": lambda f: tf.concat([f["pair"], f["pair"] + 1.0], -1)[3] > -6.0,
    "and, or": lambda f: tf.logical_or(f["id"] % 5 < 1, tf.logical_and(f["id"] > 9, f["pair"][1] < -14.0)),
    "text": lambda f: tf.strings.to_hash_bucket_fast(tf.strings.as_string(f["id"]), 3) > 0,
    "a logarithm": lambda f: tf.math.log1p(tf.cast(f["id"], tf.float32)) > 2.0,
    "a list's length": lambda f: tf.size(f["clicks"].values) > 2,
    "the length of its first elements": lambda f: tf.shape(f["words"].values[:2])[0] < 2,
    "none": lambda f: f["id"] < 0,
    "all": lambda f: f["id"] >= 0,
}
ONE_BY_ONE = {
    "a list's shape": lambda f: f["words"].dense_shape[0] < 3,
    "a sine": lambda f: tf.math.sin(tf.cast(f["id"], tf.float32)) > 0.2,
    "a sum of fractions": lambda f: tf.reduce_sum(f["pair"]) > 0.5,
    "nothing of the record": lambda f: True,
    "never": lambda f: False,
    "a condition": lambda f: tf.cond(f["id"] > 9, lambda: f["id"] < 12, lambda: f["pair"][0] > 0.0),
}


@pytest.mark.parametrize("name", BY_ROW)
def test_predicates_of_many_records_at_once(files, name):
    make = lambda: Records(files).map(parse).filter(BY_ROW[name]).batch(4)
    result = assert_replaced(make)
    assert "files, parse, filter and batch are one op" in result.changes[0]
    assert is_by_row(make)


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_predicates_of_one_record_at_a_time(files, name):
    make = lambda: Records(files).map(parse).filter(ONE_BY_ONE[name]).batch(4)
    assert_replaced(make)
    assert not is_by_row(make)


def test_any_place_among_the_steps(files):
    odd = lambda f: f["id"] % 2 > 0
    assert_replaced(lambda: Records(files).map(parse).filter(odd).shuffle(10, seed=3).repeat(3).batch(4).prefetch(2))
    assert_replaced(lambda: Records(files).map(parse).shuffle(7, seed=2).filter(odd).repeat(2).batch(3, True))
    assert_replaced(
        lambda: Records(files).repeat(2).map(parse).filter(odd).take(9).filter(lambda f: f["id"] > 5).batch(2)
    )
    assert_replaced(lambda: Records(files).map(parse).skip(3).filter(odd).skip(3).shard(2, 1).batch(2).repeat(2))
    assert_replaced(lambda: Records(files, num_parallel_reads=3).map(parse, 2).filter(odd).batch(5).take(2))


def test_many_records(tmp_path):
    """More than are read ahead for one call of the predicate, in several blocks of a file."""
    path = str(tmp_path / "many")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(1500):
            example = tf.train.Example()
            example.features.feature["id"].int64_list.value.append(i)
            example.features.feature["words"].bytes_list.value.append(b"x" * (i % 700))
            writer.write(example.SerializeToString())
    features = {"id": FEATURES["id"], "words": FEATURES["words"]}
    few = lambda f: tf.equal(f["id"] % 97, 5)
    most = lambda f: tf.not_equal(f["id"] % 97, 5)

    def parsed(keeps):
        return Records(path, buffer_size=1000).map(lambda s: parse(s, features)).filter(keeps)

    for keeps in (few, most):
        assert_replaced(functools.partial(lambda keeps: parsed(keeps).batch(64), keeps))
        assert_replaced(functools.partial(lambda keeps: parsed(keeps).shuffle(100, seed=1).repeat(2).batch(64), keeps))


def test_maps_before_and_behind(files):
    def make():
        scale, least = tf.constant([3.0, 2.0]), tf.constant(4, tf.int64)
        return (
            Records(files)
            .map(split_label)
            .map(lambda f, y: (dict(f, pair=f["pair"] / scale), y + 1, tf.cast(y, tf.int64) // 2))
            .filter(lambda f, y, half: tf.logical_and(half > least, f["pair"][0] < 9.0))
            .map(lambda f, y, half: (f, y * 2))
            .filter(lambda f, y: y < 50)
            .batch(4)
            .map(lambda f, y: (f["clicks"], y, f["pair"]))
        )

    assert_replaced(make)
    assert is_by_row(make)


def test_other_batches(files):
    odd = lambda f: f["id"] % 2 > 0
    assert_replaced(
        lambda: Records(files).map(parse).filter(odd).apply(experimental.map_and_batch(lambda f: f["pair"], 4))
    )
    assert_replaced(lambda: Records(files).map(parse).filter(odd).batch(4), one_shot=True)

    def two_batches():
        kept = Records(files).map(lambda s: parse(s, FIXED)).filter(odd)
        return tf.data.Dataset.zip((kept.batch(2), kept.batch(3)))

    assert_replaced(two_batches)


def test_a_called_function(files):
    @tf.function
    def is_odd(number):
        return number % 2 > 0

    make = lambda: Records(files).map(parse).filter(lambda f: is_odd(f["id"])).batch(4)
    assert_replaced(make)
    assert is_by_row(make)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("size", [5, 99])
def test_random_numbers_are_drawn_for_each_record_in_turn(files, size, times):
    """As programs keep a share of the negative examples."""

    def make():
        keeps = lambda f: tf.logical_or(f["id"] % 4 < 1, tf.random.uniform([]) < 0.5)
        return Records(files).map(parse).shuffle(size, seed=1).filter(keeps).repeat(times).batch(4)

    assert_replaced(make)


def test_an_iterator_that_begins_anew_draws_the_same_numbers(files):
    def rounds(rewrite):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            v1.set_random_seed(5)
            kept = Records(files).map(parse).filter(lambda f: tf.random.uniform([]) < 0.5)
            iterator = v1.data.make_initializable_iterator(kept.batch(2))
            element = iterator.get_next()["id"]
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            found = []
            for _ in range(3):
                session.run(iterator.initializer)
                found.append([session.run(element).tolist() for _ in range(3)])
            return found

    assert rounds(True) == rounds(False)


def test_a_static_table(files):
    def make():
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9, dtype=tf.int64) % 2), -1
        )
        return Records(files).map(parse).filter(lambda f: table.lookup(f["id"]) > 0).batch(2)

    found = []
    for rewrite in (True, False):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            iterator = v1.data.make_initializable_iterator(make())
            element = iterator.get_next()["id"]
            assert not rewrite or InputPipeline().run(GraphView(graph)).modified
            session.run(v1.tables_initializer())
            session.run(iterator.initializer)
            found.append([session.run(element).tolist() for _ in range(2)])
    assert found[0] == found[1] == [[1, 3], [5, 7]]


# --- Errors ---


def broken(tmp_path, files, at):
    """A file of nine records of which those at `at` lack the feature "id"."""
    path = str(tmp_path / "broken")
    whole = list(Records(files[2]).as_numpy_iterator())[:9]
    with tf.io.TFRecordWriter(path) as writer:
        for i, record in enumerate(whole):
            example = tf.train.Example.FromString(record)
            if i in at:
                del example.features.feature["id"]
            writer.write(example.SerializeToString())
    return path


@pytest.mark.parametrize("at", [(0,), (4,), (3, 4, 8)])
@pytest.mark.parametrize(
    "keeps",
    [
        lambda f: f["id"] % 2 > 0,  # It asks for what is broken.
        lambda f: f["pair"][0] > 1e9,  # It asks for another feature, and drops all.
        lambda f: f["pair"][0] < 1e9,
        lambda f: tf.size(f["words"].values) > 1,
        lambda f: tf.random.uniform([]) < 0.5,
    ],
)
def test_broken_records_are_errors_in_their_place(tmp_path, files, keeps, at):
    path = broken(tmp_path, files, at)
    assert_replaced(lambda: Records([files[0], path, files[3]]).map(parse).filter(keeps).batch(1), errors=True)


def test_the_text_of_an_error_is_that_of_the_map(tmp_path, files):
    path = broken(tmp_path, files, (4,))
    with tf.Graph().as_default() as graph, v1.Session() as session:
        kept = Records(path).map(parse).filter(lambda f: f["pair"][0] > 1e9)
        iterator = v1.data.make_initializable_iterator(kept.batch(2))
        element = iterator.get_next()
        assert InputPipeline().run(GraphView(graph)).modified
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: id .data type: int64. is required"):
            session.run(element)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    "keeps",
    [
        lambda f: 100 // (f["id"] - 7) >= 0,
        lambda f: tf.logical_or(100 // (f["id"] - 7) >= 0, tf.size(f["words"].values) > 1),
    ],
)
def test_predicates_that_fail(files, keeps, size):
    """Where the remainder by zero is an error, and nowhere else."""
    assert_replaced(lambda: Records(files).map(parse).filter(keeps).batch(size), errors=True)


def test_a_map_that_may_fail_for_what_is_dropped(files):
    def make(function, keeps):
        parsed = Records(files).map(lambda s: parse(s, FIXED)).map(function)
        return parsed.filter(keeps).batch(4)

    divide = lambda f: dict(f, half=100 // (f["id"] - 7))
    assert_refused(lambda: make(divide, lambda f: f["id"] > 9), "may fail for a record")
    assert_replaced(lambda: make(divide, lambda f: f["half"] > 1), errors=True)
    assert_replaced(lambda: make(lambda f: dict(f, half=f["id"] // 2), lambda f: f["id"] > 9))
    text = lambda f: dict(f, number=tf.strings.to_number(tf.strings.as_string(f["id"])))
    assert_refused(lambda: make(text, lambda f: f["id"] > 9), "StringToNumber")


def test_a_damaged_file(tmp_path, files):
    cut = tmp_path / "cut"
    with open(files[2], "rb") as source:
        cut.write_bytes(source.read()[:-3])
    make = lambda: Records([files[0], str(cut), files[3]]).map(parse).filter(lambda f: f["id"] % 2 > 0)
    assert_replaced(lambda: make().batch(4), errors=True)
    assert_replaced(lambda: make().take(3).batch(4))


# --- Refusals ---


def test_arithmetic_that_tensorflow_may_put_in_another_order(files):
    scaled = lambda s: parse(s)["pair"] * 0.1
    other_order = "which TensorFlow may compute in another order"
    assert_refused(
        lambda: Records(files).map(scaled).filter(lambda pair: tf.reduce_sum(pair * 0.7) > 0.5).batch(4), other_order
    )
    assert_refused(
        lambda: Records(files).map(parse).filter(lambda f: f["pair"][0] * 0.1 * 0.7 > 0.5).batch(4), other_order
    )
    assert_replaced(lambda: Records(files).map(scaled).filter(lambda pair: tf.reduce_sum(pair + 0.7) > 0.5).batch(4))


def test_refusals(files):
    refused = lambda make, reason: assert_refused(make, reason)
    refused(
        lambda: Records(files)
        .filter(lambda s: tf.strings.length(s) > 3)
        .batch(4)
        .map(lambda s: tf.io.parse_example(s, FIXED)),
        "before they are parsed",
    )
    seen = lambda f: tf.py_function(lambda number: number > 3, [f["id"]], tf.bool)
    refused(lambda: Records(files).map(parse).filter(seen).batch(4), "EagerPyFunc of the filter")
    refused(lambda: Records(files).map(parse).filter(lambda f: f["id"] > 3).take(4), "not to a batch")


# --- Iterators ---


@pytest.mark.parametrize("name", ["a number", "a list's length", "a list's shape"])
def test_every_position_of_a_saved_iterator(files, tmp_path, name):
    """Also in the middle of the records that were read ahead."""
    keeps = {**BY_ROW, **ONE_BY_ONE}[name]
    with tf.Graph().as_default() as graph, v1.Session() as session:
        kept = Records(files).map(parse).filter(keeps).shuffle(5, seed=3).repeat(2).filter(keeps)
        iterator = v1.data.make_initializable_iterator(kept.batch(3))
        element = iterator.get_next()["id"]
        assert InputPipeline().run(GraphView(graph)).modified
        saver = v1.train.Saver({"iterator": experimental.make_saveable_from_iterator(iterator)})

        def rest():
            found = []
            try:
                while True:
                    found.append(session.run(element).tolist())
            except tf.errors.OutOfRangeError:
                return found

        session.run(iterator.initializer)
        whole = rest()
        assert len(whole) > 9
        for position in range(len(whole) + 1):
            session.run(iterator.initializer)
            for _ in range(position):
                session.run(element)
            path = saver.save(session, str(tmp_path / "state"), global_step=position)
            assert rest() == whole[position:]
            session.run(iterator.initializer)
            saver.restore(session, path)
            assert rest() == whole[position:]


def test_copies_that_tf_data_makes(files):
    """Of a dataset in another's function, and of one whose options have it written as a graph and read again."""

    def make():
        options = tf.data.Options()
        options.experimental_optimization.map_fusion = True
        kept = Records(files).map(parse).filter(lambda f: f["id"] % 2 > 0).filter(lambda f: tf.size(f["words"]) > 1)
        return kept.batch(2).map(lambda f: f["id"]).map(lambda i: i + 1).with_options(options)

    assert_replaced(make)
    assert_replaced(make, one_shot=True)


def test_the_length_is_unknown(files):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        kept = Records(files).map(parse).filter(lambda f: f["id"] > 3)
        sizes = [experimental.cardinality(d.batch(2)) for d in (kept, kept.repeat(), kept.take(0))]
        plain = session.run(sizes)
        v1.data.make_initializable_iterator(kept.batch(2))
        assert InputPipeline().run(GraphView(graph)).modified
        assert session.run(sizes) == plain
        assert plain[:2] == [experimental.UNKNOWN_CARDINALITY, experimental.INFINITE_CARDINALITY]


@pytest.mark.parametrize("wrong", ["no function", "batches", "no key"])
def test_what_the_op_refuses(files, wrong):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        kept = Records(files).map(lambda s: parse(s, FIXED)).filter(lambda f: f["id"] > 3)
        iterator = v1.data.make_initializable_iterator(kept.batch(2))
        assert InputPipeline().run(GraphView(graph)).modified
        graph_def = graph.as_graph_def()
        (node,) = [node for node in graph_def.node if node.op == "TfBoosterTFRecordExampleDataset"]
        if wrong == "no function":
            del node.attr["filters"].list.func[:]
        elif wrong == "batches":
            node.attr["single_examples"].b = False
        else:
            node.attr["filter_keys"].list.s[:] = [b"absent"]
        tf.graph_util.import_graph_def(graph_def, name="again")
        reason = {
            "no function": "0 functions, 1 keys and 0 captured tensors; its stages want more",
            "batches": "wants records parsed one by one",
            "no key": "asks for 1 features, but 0 of them are parsed",
        }[wrong]
        with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
            session.run(graph.get_operation_by_name("again/" + iterator.initializer.name))
