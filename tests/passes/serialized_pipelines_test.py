"""Batches of TFRecords that are parsed in a way of the program's own, or in the graph: made by one op, and nothing else changes; or a reason."""

from __future__ import annotations

import gzip
import itertools

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_batched, assert_refused, assert_replaced, assert_same, outcome
from record_files import FEATURES, write_files

import tf_booster
from tf_booster.passes import eager_datasets
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Dataset = tf.data.Dataset
Records = tf.data.TFRecordDataset
OP = "TfBoosterTFRecordBatchDataset"


def parse(serialized):
    return tf.io.parse_example(serialized, {key: FEATURES[key] for key in ("id", "clicks")})


def twice(serialized):
    return parse(serialized)["id"], parse(serialized)["clicks"]


def joined(serialized):
    return parse(tf.strings.join([serialized, ""]))


def with_key(key):
    """A parse whose key is not a constant of the map's function."""
    return lambda serialized: tf.raw_ops.ParseExampleV2(
        serialized=serialized,
        names=[],
        sparse_keys=[],
        dense_keys=[key],
        ragged_keys=[],
        dense_defaults=[tf.zeros([0], tf.int64)],
        num_sparse=0,
        sparse_types=[],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[[]],
    )


def sequences(serialized):
    """An Example has the same place on the wire as a SequenceExample's context."""
    context, lists, _ = tf.io.parse_sequence_example(
        serialized,
        context_features={"id": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"tokens": tf.io.VarLenFeature(tf.int64)},
    )
    return context, lists


def decoded(serialized):
    """As TF-Ranking takes lists apart."""
    _, (features,) = tf.io.decode_proto(serialized, "tensorflow.Example", ["features"], [tf.string])
    return features


def by_python(serialized):
    return tf.py_function(lambda s: [len(each) for each in s.numpy()], [serialized], tf.int64)


def looked_at(serialized):
    return tf.strings.length(serialized), serialized


MAPS = {
    "two parses": (twice, "parses 2 times"),
    "another tensor": (joined, "not the records themselves"),
    "beside": (lambda s: (parse(s), s), "beside parsing"),
    "sequence examples": (sequences, None),
    "decode_proto": (decoded, None),
    "py_function": (by_python, None),
    "strings": (looked_at, None),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("calls", [None, 2])
def test_maps_of_other_kinds(files, name, calls):
    function, reason = MAPS[name]
    make = lambda: Records(files).shuffle(9, seed=1).repeat(2).batch(4).map(function, calls).prefetch(1)
    assert_batched(make, reason)
    if name != "py_function":  # One-shot iterators refuse Python functions.
        result, _ = assert_same(make, one_shot=True)
        assert ["one op, TFRecordBatchDataset" in change for change in result.changes] == [True]
        assert [reason in why for _, why in result.skipped] == ([] if reason is None else [True])


def test_keys_that_are_no_constants(files):
    assert_batched(lambda: Records(files).batch(4).map(with_key(tf.constant("i") + "d")), "keys, default values")


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize("drop", [False, True])
def test_batches_that_the_graph_parses(files, one_shot, drop):
    """As input functions of old Estimators do."""

    def run(rewrite):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            dataset = Records(files).shuffle(20, seed=4).repeat(2).batch(5, drop_remainder=drop).prefetch(1)
            if one_shot:
                iterator = v1.data.make_one_shot_iterator(dataset)
            else:
                iterator = v1.data.make_initializable_iterator(dataset)
            serialized = iterator.get_next()
            features = tf.nest.flatten(tf.io.parse_example(serialized, FEATURES), expand_composites=True)
            if rewrite:
                result = InputPipeline().run(GraphView(graph))
                assert [change.split("; ")[1] for change in result.changes] == ["what reads its batches stays as it is"]
                assert not result.skipped
            if not one_shot:
                session.run(iterator.initializer)
            found = []
            while True:
                try:
                    found.append(session.run(features))
                except tf.errors.OutOfRangeError:
                    return found, serialized.shape.as_list()

    mine, shape = run(True)
    theirs, wanted = run(False)
    assert shape == wanted == [5 if drop else None] and len(mine) == len(theirs) > 5
    tf.nest.map_structure(np.testing.assert_array_equal, mine, theirs)


def interleaved(files, *arguments, **options):
    return Dataset.from_tensor_slices(files).interleave(Records, *arguments, **options)


READERS = {
    "plain": Records,
    "one file": lambda files: Records(files[2]),
    "an empty file": lambda files: Records(files[1]),
    "no file": lambda files: Records([]),
    "through a small buffer": lambda files: Records(files, buffer_size=3),
    "in turns": lambda files: interleaved(files, 2, 3),
    "in turns, at once": lambda files: interleaved(files, 3, 2, num_parallel_calls=2),
    "in chosen turns": interleaved,
    "parallel reads": lambda files: Records(files, num_parallel_reads=2),
    "one after another": lambda files: Dataset.from_tensor_slices(files).flat_map(Records),
    "parallel_interleave": lambda files: Dataset.from_tensor_slices(files).apply(
        tf.data.experimental.parallel_interleave(Records, cycle_length=2)
    ),
    "shuffled names": lambda files: Dataset.list_files(files, seed=3).flat_map(Records),
    "a share of the files": lambda files: Dataset.from_tensor_slices(files).shard(2, 0).interleave(Records, 2),
}
STEPS = {
    "none": lambda records: records,
    "shuffle": lambda records: records.shuffle(20, seed=4),
    "shuffle, repeat": lambda records: records.shuffle(20, seed=4).repeat(3),
    "shuffle and repeat": lambda records: records.apply(tf.data.experimental.shuffle_and_repeat(20, 3, seed=4)),
    "one order": lambda records: records.shuffle(9, seed=4, reshuffle_each_iteration=False).repeat(2),
    "repeat once": lambda records: records.shuffle(5, seed=4).repeat(1).prefetch(3).repeat(2),
    "picked": lambda records: records.skip(1).shard(2, 1).take(20),
    "cached": lambda records: records.shuffle(5, seed=1).cache().shuffle(9, seed=2).repeat(2),
    "at random": lambda records: records.shuffle(7).repeat().take(99),
    "options": lambda records: records.with_options(tf.data.Options()).shuffle(5, seed=1),
}
BATCHED = {
    "plain": lambda records: records.batch(4),
    "full": lambda records: records.batch(4, drop_remainder=True),
    "at once": lambda records: records.batch(4, num_parallel_calls=2),
    "all": lambda records: records.batch(1000),
    "and picked": lambda records: records.batch(3).skip(1).shard(2, 0).shuffle(3, seed=2).repeat(2).prefetch(1),
    "of batches": lambda records: records.batch(2).batch(3),
    "apart again": lambda records: records.batch(5).unbatch().map(tf.strings.length),
    "padded": lambda records: records.batch(3).map(lambda s: s[:2]).padded_batch(2, [3]),
}


@pytest.mark.parametrize(
    "reader, steps, batched",
    [
        *((reader, "shuffle, repeat", "plain") for reader in READERS),
        *(("in turns", steps, "full") for steps in STEPS),
        *(("plain", "shuffle", batched) for batched in BATCHED),
    ],
)
def test_files_and_all_steps_are_one_op(files, reader, steps, batched):
    assert_batched(lambda: BATCHED[batched](STEPS[steps](READERS[reader](files))))


@pytest.mark.parametrize("drop, size", [(True, 4), (False, None)])
def test_the_new_op(files, drop, size):
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(Records(files).batch(4, drop_remainder=drop).prefetch(2))
        assert InputPipeline().run(GraphView(graph)).modified
        (made,) = [op for op in graph.get_operations() if op.type == OP]
        assert [tf.TensorShape(shape).as_list() for shape in made.get_attr("output_shapes")] == [[size]]
        assert [reader.type for reader in made.outputs[0].consumers()] == ["PrefetchDataset"]


def test_options_stay_behind_the_new_op(files):
    options = tf.data.Options()
    options.deterministic = False
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(Records(files).with_options(options).shuffle(3).batch(4).prefetch(2))
        assert InputPipeline().run(GraphView(graph)).modified
        (made,) = [op for op in graph.get_operations() if op.type == OP]
        (kept,) = made.outputs[0].consumers()
        assert kept.type == "OptionsDataset" and kept.get_attr("serialized_options")
        assert [reader.type for reader in kept.outputs[0].consumers()] == ["PrefetchDataset"]


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_files(tmp_path, compression):
    packed = write_files(tmp_path, (5, 0, 6), compression)
    for buffer_size in (None, 50):
        assert_batched(lambda: Records(packed, compression, buffer_size).batch(4))  # noqa: B023
    assert_batched(lambda: Dataset.from_tensor_slices(packed).interleave(lambda n: Records(n, compression), 2).batch(4))


@pytest.mark.parametrize("steps", ["none", "shuffle, repeat", "cached"])
def test_large_records(tmp_path, steps):
    rng = np.random.default_rng(0)
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for size in (1 << 20, 0, 3, (1 << 20) - 16, 300_000, 3 << 20, 262_144 - 16, 15):
                writer.write(rng.bytes(size))
    assert_batched(lambda: STEPS[steps](Records(paths)).batch(3))
    assert_batched(lambda: STEPS[steps](interleaved(paths, 2, 2)).batch(3).map(looked_at))


def damaged_files(tmp_path, files):
    """A good file, one with a wrong checksum, one that is cut, one that is missing, one that ends within a header; good ones between."""
    with open(files[2], "rb") as source:
        content = source.read()
    wrong = bytearray(content)
    wrong[len(content) // 2] ^= 1
    for name, bad in (("wrong", bytes(wrong)), ("cut", content[:-3]), ("head", content + content[:7])):
        (tmp_path / name).write_bytes(bad)
    bad = [str(tmp_path / name) for name in ("wrong", "cut", "none", "head")]
    return [files[0], bad[0], files[3], bad[1], bad[2], files[4], bad[3], files[0]]


@pytest.mark.parametrize("steps", ["none", "shuffle", "shuffle, repeat", "picked", "cached"])
@pytest.mark.parametrize("batched", ["plain", "full", "at once", "of batches"])
def test_errors_come_with_the_same_batches(tmp_path, files, steps, batched):
    damaged = damaged_files(tmp_path, files)
    for reader in ("plain", "in turns", "in turns, at once", "parallel reads"):
        assert_batched(lambda: BATCHED[batched](STEPS[steps](READERS[reader](damaged))), errors=True)  # noqa: B023
    ignoring = tf.data.experimental.ignore_errors()
    there = [path for path in damaged if not path.endswith("none")]  # Of a missing file the error never ends.
    assert_batched(lambda: BATCHED[batched](STEPS[steps](Records(there))).apply(ignoring))


def test_every_end_of_a_file(tmp_path, files):
    with open(files[0], "rb") as source:
        content = source.read()[:60]
    for size in range(0, len(content), 3):
        (tmp_path / "bad").write_bytes(content[:size])
        assert_batched(lambda: Records([str(tmp_path / "bad"), files[3]]).batch(2), errors=True)


def test_damage_in_compressed_files(tmp_path, files):
    with open(files[2], "rb") as source:
        packed = gzip.compress(source.read())
    for at in range(12, len(packed), 97):
        wrong = bytearray(packed)
        wrong[at] ^= 0x20
        for i, bad in enumerate((bytes(wrong), packed[:at])):
            (tmp_path / str(i)).write_bytes(bad)
            make = lambda: Records([str(tmp_path / str(i))], "GZIP").batch(2)  # noqa: B023
            assert_batched(make, errors=True)


def test_batches_that_several_read(files):
    def shared(shuffle):
        batches = shuffle(Records(files)).batch(4)
        return lambda: Dataset.zip((batches, batches.map(tf.strings.length), batches.prefetch(1)))

    assert_batched(lambda: shared(lambda records: records)())
    for options in (dict(seed=3), dict(seed=3, reshuffle_each_iteration=False)):
        assert_batched(lambda: shared(lambda records: records.shuffle(9, **options))())  # noqa: B023


def test_an_order_that_others_have_a_part_of_stays(files):
    def parts(function, **options):
        shuffled = Records(files).shuffle(9, **options).prefetch(1)
        return Dataset.zip((shuffled.take(8).batch(4), function(shuffled.skip(8))))

    for others in (lambda d: d.batch(4), lambda d: d, lambda d: d.map(tf.strings.length)):
        assert_refused(lambda: parts(others, seed=3), "keeps an order for several")  # noqa: B023
        assert_batched(lambda: parts(others, seed=3, reshuffle_each_iteration=False))  # noqa: B023
    cached = lambda: (lambda kept: Dataset.zip((kept.batch(2), kept)))(Records(files).cache())
    assert_refused(cached, "keeps an order for several")


def test_what_else_reads_the_records(files):
    def beside(function):
        records = Records(files)
        return Dataset.zip((records.repeat(2).batch(4), function(records)))

    assert_batched(lambda: beside(lambda records: records))
    assert_batched(lambda: beside(lambda records: records.map(tf.strings.length)))
    assert_batched(lambda: beside(lambda records: records.padded_batch(2)))
    one_by_one = lambda records: records.map(lambda s: tf.io.parse_single_example(s, {"id": FEATURES["id"]}))
    assert_batched(lambda: beside(one_by_one), "its records are parsed one by one")
    result = assert_replaced(lambda: beside(lambda records: one_by_one(records).batch(3)))
    assert sorted(change.split(" one op, ")[1] for change in result.changes) == [
        "TFRecordBatchDataset; what reads its batches stays as it is",
        "TFRecordExampleDataset",
    ]


def test_two_maps_of_one_batch_of_which_one_op_parses_one(files):
    def make():
        batches = Records(files).batch(4)
        return Dataset.zip((batches.map(parse), batches.map(sequences)))

    result = assert_replaced(make)
    assert len(result.changes) == 2


@pytest.mark.parametrize("delimiter", [",", "|"])
def test_lines_in_records(tmp_path, delimiter):
    """They are decoded as lines of text are."""
    path = str(tmp_path / "lines")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(30):
            writer.write(f"{i}{delimiter}{i / 4}".encode())
    decode = lambda line: tuple(tf.io.decode_csv(line, [[0], [0.0]], field_delim=delimiter))
    for make in (
        lambda: Records(path).map(decode).shuffle(9, seed=1).batch(4),
        lambda: Records(path).shuffle(9, seed=1).batch(4).prefetch(1).map(decode),
    ):
        (change,) = assert_replaced(make).changes
        assert "one op, TFRecordBatchDataset; lines are decoded" in change


LEFT = {
    "'MapDataset' makes something else of records one by one": lambda files: (
        Records(files).map(tf.strings.length).shuffle(9, seed=1).batch(4)
    ),
    "'ParallelMapDatasetV2' makes something": lambda files: Records(files)
    .map(tf.strings.upper, 2)
    .prefetch(1)
    .batch(4),
    "'FilterDataset' chooses among records one by one": lambda files: (
        Records(files).filter(lambda s: tf.strings.length(s) > 30).batch(4)
    ),
    "between files and batch stands ConcatenateDataset": lambda files: (
        Records(files).concatenate(Records(files)).batch(4)
    ),
    "between files and batch stands IgnoreErrorsDataset": lambda files: (
        Records(files).apply(tf.data.experimental.ignore_errors()).batch(4)
    ),
    "between files and batch stands CacheDataset": lambda files: Records(files).cache(files[0] + ".cache").batch(4),
    "the size of the shuffle's buffer": lambda files: (
        Records(files).shuffle(v1.placeholder_with_default(np.int64(9), [])).batch(4)
    ),
    "cycle_length": lambda files: interleaved(files, v1.placeholder_with_default(np.int64(2), [])).batch(4),
    "not TFRecord files but FilterDataset": lambda files: (
        Dataset.from_tensor_slices(files)
        .interleave(lambda name: Records(name).filter(lambda s: tf.strings.length(s) > 30), 2)
        .batch(4)
    ),
    "as threads happen to run": lambda files: (
        Dataset.from_tensor_slices(files)
        .apply(tf.data.experimental.parallel_interleave(Records, cycle_length=2, block_length=3))
        .batch(4)
    ),
}


def sequence(serialized):
    context, _ = tf.io.parse_single_sequence_example(serialized, {"id": FEATURES["id"]}, {})
    return context["id"]


@pytest.mark.parametrize("reason", LEFT)
@pytest.mark.parametrize("behind", [False, True])
def test_left_with_a_reason(files, reason, behind):
    make = lambda: (lambda batches: batches.map(lambda s: s) if behind else batches)(LEFT[reason](files))
    assert_refused(make, reason)
    *_, result, _ = outcome(make, True)
    assert len(result.skipped) == 1


SAID_ONCE = {
    "a map before": lambda files: Records(files).map(tf.strings.upper).map(parse_one_of_each).cache("a file").batch(4),
    "a parse that is left": lambda files: Records(files).map(lambda s: tf.reduce_sum(parse(s[None])["id"])).batch(4),
    "a file in the function": lambda files: (
        Dataset.from_tensor_slices(files)
        .interleave(lambda name: Records(name).map(parse_one_of_each).filter(lambda f: True), 2)
        .batch(4)
    ),
    "automatic sharding": lambda files: sharded(Records(files).batch(4).map(parse)),
}


def parse_one_of_each(serialized):
    return tf.io.parse_single_example(serialized, {"id": FEATURES["id"]})["id"]


def sharded(dataset):
    variant = tf.data.experimental.to_variant(dataset)
    share = tf.raw_ops.AutoShardDataset(
        input_dataset=variant,
        num_workers=2,
        index=0,
        auto_shard_policy=tf.data.experimental.AutoShardPolicy.DATA.value,
        output_types=variant.op.get_attr("output_types"),
        output_shapes=variant.op.get_attr("output_shapes"),
    )
    return tf.data.experimental.from_variant(share, dataset.element_spec)


@pytest.mark.parametrize("name", SAID_ONCE)
def test_one_reason_for_a_pipeline(files, name):
    *_, result, _ = outcome(lambda: SAID_ONCE[name](files), True)
    assert not result.modified and len(result.skipped) == 1, result.skipped


def test_automatic_sharding_looks_for_readers(files):
    assert_refused(lambda: sharded(Records(files).batch(4)), "automatic sharding")


NOBODYS = {
    "lines": lambda files: tf.data.TextLineDataset(files).map(tf.strings.length).batch(4),
    "batches of lines": lambda files: tf.data.TextLineDataset(files).batch(4),
    "memory": lambda files: Dataset.range(9).batch(4),
    "single records": lambda files: Records(files).shuffle(5, seed=1),
    "padded": lambda files: Records(files).padded_batch(4),
    "batches of each file": lambda files: names(files).interleave(lambda name: Records(name).batch(4), 2),
    "batches of padded ones": lambda files: Records(files).padded_batch(2).batch(3, drop_remainder=True),
    "files": lambda files: names(files).batch(2),
    "windows": lambda files: Records(files).window(3).flat_map(lambda window: window.batch(3)),
}


def names(files):
    return Dataset.from_tensor_slices(files)


@pytest.mark.parametrize("name", NOBODYS)
def test_what_is_nobodys_concern(files, name):
    *_, result, _ = outcome(lambda: NOBODYS[name](files), True)
    assert not result.modified and not result.skipped, result


def test_the_pass_is_wanted_for_batches_of_records_alone(files):
    for dataset, wanted in ((Records(files).batch, True), (Records(files).padded_batch, False)):
        with tf.Graph().as_default() as graph:
            v1.data.make_initializable_iterator(getattr(Records(files), dataset.__name__)(4))
            assert InputPipeline().requires(GraphView(graph)) == wanted
    with tf.Graph().as_default() as graph:
        Records(files).batch(4)
        assert not InputPipeline().requires(GraphView(graph))


def test_a_map_that_comes_after_the_rewriting(files):
    with tf.Graph().as_default() as graph:
        dataset = Records(files).batch(4)
        v1.data.make_initializable_iterator(dataset)
        assert InputPipeline().run(GraphView(graph)).modified
        (made,) = [op for op in graph.get_operations() if op.type == OP]
        again = tf.data.experimental.from_variant(made.outputs[0], dataset.element_spec)
        v1.data.make_initializable_iterator(again.map(parse))
        result = InputPipeline().run(GraphView(graph))
        assert not result.modified and "already" in result.skipped[0][1]


EAGER = {
    "plain": lambda files: Records(files).batch(4),
    "sequence examples": lambda files: Records(files).shuffle(10, seed=3).batch(4).map(sequences),
    "repeated": lambda files: Records(files).shuffle(10, seed=3).repeat(2).batch(4, drop_remainder=True).map(decoded),
    "interleaved": lambda files: interleaved(files, 2).batch(4).prefetch(1),
    "one order": lambda files: Records(files).shuffle(9, seed=3, reshuffle_each_iteration=False).batch(4),
}


@pytest.mark.parametrize("name", EAGER)
def test_eager_datasets(files, name):
    arrays = lambda dataset: [
        [np.asarray(tensor) for tensor in tf.nest.flatten(element, expand_composites=True)] for element in dataset
    ]
    plain = EAGER[name](files)
    epochs = [arrays(plain), arrays(plain)]
    tf.enable_gpu_booster()
    try:
        mine = EAGER[name](files)
        made = eager_datasets.stands_for(mine)
        graph = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(made))
        assert made is not mine and b"TfBoosterTFRecordBatchDataset" in graph.numpy()
        for epoch in epochs:
            tf.nest.map_structure(np.testing.assert_array_equal, arrays(mine), epoch)
        few = list(itertools.islice(iter(mine), 2))
        assert len(few) == 2
    finally:
        tf_booster.disable_gpu_booster()


def test_an_estimator_parses_in_its_model(files, tmp_path):
    """With the one line, and by TensorFlow's own datasets."""
    seen = []
    for boosted in (False, True):

        def model_fn(features, mode):
            parsed = tf.io.parse_example(features, FEATURES)
            loss = tf.reduce_sum(tf.cast(parsed["id"], tf.float32)) + v1.get_variable("w", [])
            kept = tf.reshape(parsed["id"], [-1])
            train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
            hook = v1.train.FinalOpsHook(kept)
            seen.append(hook)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=[hook])

        if boosted:
            tf.enable_gpu_booster()
        try:
            trained = tf.estimator.Estimator(model_fn, str(tmp_path / str(boosted)))
            trained.train(lambda: Records(files).shuffle(40, seed=1).repeat().batch(8), steps=5)
            assert not boosted or "one op, TFRecordBatchDataset" in str(tf_booster.report())
        finally:
            if boosted:
                tf_booster.disable_gpu_booster()
    assert seen[0].final_ops_values.tolist() == seen[1].final_ops_values.tolist()
