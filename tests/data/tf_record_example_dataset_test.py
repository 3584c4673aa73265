"""TFRecordExampleDataset gives what TensorFlow's own pipeline gives, for every option."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
import record_files
import tensorflow as tf
from record_files import FEATURES, assert_same, ids, stock, write_files

import tf_booster

COUNTS = (5, 0, 17, 9, 30, 1)
Records = tf.data.TFRecordDataset


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("records"), COUNTS)


def ours(files, batch_size=8, **options):
    return tf_booster.TFRecordExampleDataset(files, FEATURES, batch_size, **options)


@pytest.mark.parametrize("calls", [None, 1, 3, tf.data.AUTOTUNE])
@pytest.mark.parametrize("batch_size", [1, 7, 8, 1000])
def test_all_kinds_of_features(files, batch_size, calls):
    assert_same(ours(files, batch_size, num_parallel_calls=calls), stock(Records(files), batch_size))


@pytest.mark.parametrize("batch_size", [8, 31, 62, 63])
def test_drop_remainder(files, batch_size):
    assert_same(ours(files, batch_size, drop_remainder=True), stock(Records(files), batch_size, drop_remainder=True))


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
@pytest.mark.parametrize("buffer_size", [None, 1, 50, 1000])
def test_compression_and_blocks_smaller_than_a_record(tmp_path, compression, buffer_size):
    paths = write_files(tmp_path, (20, 3), compression)
    assert_same(
        ours(paths, compression=compression, buffer_size=buffer_size), stock(Records(paths, compression), batch_size=8)
    )


@pytest.mark.parametrize("cycle_length, block_length", [(1, 1), (1, 3), (2, 1), (3, 4), (6, 2), (40, 1)])
@pytest.mark.parametrize("parallel", [False, True])
def test_interleaves_as_tf_data_does(files, cycle_length, block_length, parallel):
    calls = min(2, cycle_length) if parallel else None
    records = tf.data.Dataset.from_tensor_slices(files).interleave(Records, cycle_length, block_length, calls)
    assert ids(ours(files, cycle_length=cycle_length, block_length=block_length)) == ids(stock(records, 8))


@pytest.mark.parametrize("buffer_size", [1, 10, 1000])
@pytest.mark.parametrize("reshuffle", [True, False])
def test_a_seed_shuffles_as_tf_data_does(files, buffer_size, reshuffle):
    records = Records(files).shuffle(buffer_size, seed=5, reshuffle_each_iteration=reshuffle).repeat(3)
    theirs = stock(records, 8)
    mine = ours(files, shuffle=buffer_size, seed=5, reshuffle_each_iteration=reshuffle, num_epochs=3)
    for _ in range(2):  # A second iterator goes on with other epochs.
        assert ids(mine) == ids(theirs)


def test_tf_data_optimizes_what_follows_a_shuffle(files, capfd):
    dataset = ours(files, shuffle=10, seed=1)
    assert ids(dataset.shard(2, 1)) == ids(ours(files, shuffle=10, seed=1))[1::2]
    assert "will not be optimized" not in capfd.readouterr().err


def test_the_seed_of_the_program_counts(files):
    def both():
        tf.random.set_seed(11)
        theirs = ids(stock(Records(files).shuffle(20), 8))
        tf.random.set_seed(11)
        return theirs, ids(ours(files, shuffle=20))

    theirs, mine = both()
    assert mine == theirs


def test_a_shuffle_at_two_places_of_a_pipeline(files):
    """Both go on with one sequence of orders in eager programs, and begin anew in graphs of version 1: so do tf.data's."""

    def at_two_places(dataset):
        dataset = dataset.map(lambda batch: batch["id"])
        dataset = dataset.concatenate(dataset)
        if tf.executing_eagerly():
            return list(dataset.as_numpy_iterator())
        element, found = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next(), []
        with tf.compat.v1.Session() as session, contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(element))
        return found

    orders = []
    for graph in (contextlib.nullcontext(), tf.Graph().as_default()):
        with graph:
            mine = np.concatenate(at_two_places(ours(files, shuffle=10, seed=5)))
            theirs = np.concatenate(at_two_places(stock(Records(files).shuffle(10, seed=5), 8)))
        np.testing.assert_array_equal(mine, theirs)
        orders.append(np.array_equal(mine[: len(mine) // 2], mine[len(mine) // 2 :]))
    assert orders == [False, True]


def test_without_a_seed_each_pass_has_all_records_in_another_order(files):
    dataset = ours(files, shuffle=1000)
    first, second = (sum(ids(dataset), []) for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(sum(COUNTS)))


def test_epochs(files):
    assert ids(ours(files, num_epochs=2)) == ids(stock(Records(files).repeat(2), 8))
    forever = ours(files, num_epochs=None)
    assert ids(forever.take(40)) == ids(stock(Records(files).repeat(), 8).take(40))
    assert forever.cardinality() == tf.data.INFINITE_CARDINALITY
    assert ours(files).cardinality() == tf.data.UNKNOWN_CARDINALITY


def test_endless_epochs_of_nothing_end(tmp_path):
    assert ids(ours(write_files(tmp_path, (0, 0)), num_epochs=None)) == []


@pytest.mark.parametrize("by", ["files", "records"])
def test_shards_share_the_records(files, by):
    shares = [sum(ids(ours(files, shard=(3, i), shard_by=by)), []) for i in range(3)]
    assert sorted(sum(shares, [])) == list(range(sum(COUNTS)))
    records = (
        [Records(files[i::3]) for i in range(3)] if by == "files" else [Records(files).shard(3, i) for i in range(3)]
    )
    assert shares == [sum(ids(stock(r, 8)), []) for r in records]


def test_shards_by_records_where_files_are_fewer(files):
    assert ids(ours(files, shard=(7, 2))) == ids(stock(Records(files).shard(7, 2), 8))
    assert ids(ours(files, shard=(2, 1))) == ids(stock(Records(files[1::2]), 8))


def test_the_method_shard_takes_batches(files):
    theirs = stock(Records(files), 4)
    assert ids(ours(files, 4).shard(3, 1)) == ids(theirs.shard(3, 1))
    assert ids(ours(files, 4).shard(2, 1).shard(2, 0)) == ids(theirs.shard(2, 1).shard(2, 0))
    assert ids(ours(files, 4).shard(tf.constant(3, tf.int64), 2)) == ids(theirs.shard(3, 2))


def test_skip_and_take(files):
    for calls in (None, 2):
        assert ids(ours(files, 4, num_parallel_calls=calls).skip(3).take(2)) == ids(
            stock(Records(files), 4).skip(3).take(2)
        )


def test_unordered_batches_are_all_there(files):
    found = ids(ours(files, 4, num_parallel_calls=4, deterministic=False, cycle_length=2))
    assert sorted(found) == sorted(ids(ours(files, 4, cycle_length=2)))


def test_files_as_a_dataset_a_tensor_and_one_name(files):
    wanted = ids(ours(files))
    assert ids(ours(tf.data.Dataset.from_tensor_slices(files))) == wanted
    assert ids(ours(tf.constant(files))) == wanted
    assert ids(ours(files[2])) == ids(stock(Records(files[2]), 8))
    listed = tf.data.Dataset.list_files(files, shuffle=True, seed=3)
    again = tf.data.Dataset.list_files(files, shuffle=True, seed=3)
    assert ids(ours(listed)) == ids(stock(Records(again), 8))


def test_sparse_features_of_several_keys(tmp_path):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(5):
            e = tf.train.Example()
            e.features.feature["at"].int64_list.value.extend([i, i + 2])
            e.features.feature["value"].float_list.value.extend([1.0, i])
            writer.write(e.SerializeToString())
    features = {"s": tf.io.SparseFeature("at", "value", tf.float32, size=10)}
    theirs = Records(path).batch(2).map(lambda s: tf.io.parse_example(s, features))
    assert_same(tf_booster.TFRecordExampleDataset(path, features, 2), theirs)


@pytest.mark.parametrize("one_shot", [True, False])
def test_a_graph_of_version_1(files, one_shot):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = ours(files, shuffle=10, seed=1)
        if one_shot:
            iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
        else:
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            session.run(iterator.initializer)
        next_ids = iterator.get_next()["id"]
        found = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found += session.run(next_ids).tolist()
        assert sorted(found) == list(range(sum(COUNTS)))


def test_other_file_systems(files):
    """TensorFlow's file system in memory answers reads with memory of its own."""
    path = "ram://records"
    with open(files[4], "rb") as source, tf.io.gfile.GFile(path, "wb") as target:
        target.write(source.read())
    assert ids(ours(path)) == ids(stock(Records(files[4]), 8))


def test_records_longer_than_a_block(tmp_path):
    path = str(tmp_path / "long")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(3):
            e = tf.train.Example()
            e.features.feature["id"].int64_list.value.append(i)
            e.features.feature["words"].bytes_list.value.append(bytes([i]) * (3 << 20))
            writer.write(e.SerializeToString())
    features = {key: FEATURES[key] for key in ("id", "words")}
    theirs = Records(path).batch(2).map(lambda s: tf.io.parse_example(s, features))
    assert_same(tf_booster.TFRecordExampleDataset(path, features, 2), theirs)


def test_iterators_that_are_left_halfway(files):
    for _ in range(20):
        next(iter(ours(files * 20, 2, num_parallel_calls=4, cycle_length=3, shuffle=5)))


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(batch_size=0), "batch_size is 0"),
        (dict(cycle_length=-1), "cycle_length is -1"),
        (dict(compression="LZ4"), "'GZIP' or 'ZLIB'"),
        (dict(shuffle=0), "shuffle is 0, wanted"),
        (dict(num_epochs=-5), "num_epochs is -5, wanted"),
        (dict(shard=(2, 2)), "shard is (2, 2)"),
        (dict(shard=(2,)), "shard is (2,)"),
        (dict(shard=5), "shard is 5"),
        (dict(shard=(True, False)), "shard is (True, False)"),
        (dict(shard=(2, 0), shard_by="rows"), "shard_by is 'rows'"),
        (dict(features={}), "at least one feature"),
        (dict(files=[]), "at least one file"),
    ],
)
def test_arguments_that_cannot_be(files, change, message):
    arguments = dict(files=files, features=FEATURES, batch_size=8)
    arguments.update(change)
    with pytest.raises(ValueError) as error:
        tf_booster.TFRecordExampleDataset(**arguments)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        *(dict(batch_size=each) for each in (None, float("nan"), 2.0, "8")),
        *(dict(shuffle=each) for each in (True, 1.5, "5")),
        *(dict(num_epochs=each) for each in (1.5, True, "2")),
        dict(cycle_length=None),
        dict(seed="a"),
        dict(features=[1]),
        dict(files=None),
    ],
)
def test_arguments_of_a_wrong_type(files, change):
    ((name, value),) = change.items()
    with pytest.raises(TypeError, match=re.escape(f"TFRecordExampleDataset: {name} is {value!r}") + "[,;] wanted"):
        tf_booster.TFRecordExampleDataset(**{**dict(files=files, features=FEATURES, batch_size=8), **change})


def test_numbers_of_numpy(files):
    numbers = dict(shuffle=5, seed=3, num_epochs=2, cycle_length=2, shard=(2, 1), buffer_size=64)
    of_numpy = {name: np.array(value) if name == "shard" else np.int64(value) for name, value in numbers.items()}
    of_numpy["shard"] = tuple(of_numpy["shard"])
    make = lambda batch_size, given: tf_booster.TFRecordExampleDataset(files, FEATURES, batch_size, **given)
    assert_same(make(np.int32(2), of_numpy), make(2, numbers))
    assert_same(make(2, numbers).shard(np.int64(2), np.int64(1)), make(2, numbers).shard(2, 1))


def test_files_of_another_type_are_refused():
    with pytest.raises(TypeError, match="file names"):
        ours(tf.data.Dataset.range(3))
    with pytest.raises(TypeError, match="file names"):
        ours([1, 2])


def test_features_are_checked_as_by_parse_example(files):
    with pytest.raises(ValueError, match="First dimension of shape"):
        tf_booster.TFRecordExampleDataset(files, {"a": tf.io.FixedLenFeature([None], tf.int64)}, 2)


def test_many_random_settings_equal_tf_data(tmp_path):
    rng = np.random.default_rng(7)
    for trial in range(12):
        counts = rng.integers(0, 12, rng.integers(1, 6)).tolist()
        paths = write_files(tmp_path / str(trial), counts) if not (tmp_path / str(trial)).mkdir() else []
        cycle, block, buffer, batch = (int(rng.integers(1, high)) for high in (5, 4, 15, 9))
        records = tf.data.Dataset.from_tensor_slices(paths).interleave(Records, cycle, block)
        theirs = stock(records.shuffle(buffer, seed=trial).repeat(2), batch)
        mine = ours(
            paths, batch, cycle_length=cycle, block_length=block, shuffle=buffer, seed=trial, num_epochs=2,
            num_parallel_calls=int(rng.integers(1, 4)), buffer_size=int(rng.integers(1, 400)),
        )  # fmt: skip
        assert_same(mine, theirs)


def test_helper_tells_differences(files):
    with pytest.raises(AssertionError):
        record_files.assert_same(ours(files, 8), stock(Records(files[::-1]), 8))
