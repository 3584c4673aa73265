"""An iterator that is restored, at any place, goes on as the one that was saved."""

from __future__ import annotations

import pytest
import tensorflow as tf
from record_files import FEATURES, ids, outcomes, write_files

import tf_booster

SETTINGS = {
    "plain": {},
    "in the caller": dict(num_parallel_calls=None),
    "interleaved": dict(cycle_length=3, block_length=2),
    "shuffled epochs": dict(cycle_length=2, shuffle=10, seed=3, num_epochs=2),
    "epochs in one buffer": dict(shuffle=80, seed=3, num_epochs=6),
    "shuffled all": dict(shuffle=1000, seed=4, num_parallel_calls=None),
    "records of a shard": dict(shard=(2, 1), shard_by="records", drop_remainder=True),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("records"), (5, 0, 11, 7))


def rest(iterator):
    return [batch["id"].numpy().tolist() for batch in iterator]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_position(files, tmp_path, name):
    def make():
        return iter(tf_booster.TFRecordExampleDataset(files, FEATURES, 4, buffer_size=300, **SETTINGS[name]))

    whole = rest(make())
    assert whole
    for position in range(len(whole) + 1):
        saved = make()
        for _ in range(position):
            next(saved)
        path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / f"at-{position}"))
        assert rest(saved) == whole[position:]  # Saving disturbs nothing.
        restored = make()
        tf.train.Checkpoint(iterator=restored).restore(path)
        assert rest(restored) == whole[position:]


@pytest.mark.parametrize("shuffle", [None, 3])
def test_every_position_of_endless_epochs(shuffle, files, tmp_path):
    """Where an epoch's last record was given, nobody knows yet that it was the last."""

    def make():
        settings = dict(num_parallel_calls=None, num_epochs=None, shuffle=shuffle, seed=1)
        return iter(tf_booster.TFRecordExampleDataset(files[:1], FEATURES, 1, **settings).take(14))

    whole = rest(make())
    assert len(whole) == 14
    for position in range(15):
        saved, restored = make(), make()
        for _ in range(position):
            next(saved)
        path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / f"at-{position}"))
        tf.train.Checkpoint(iterator=restored).restore(path)
        assert rest(restored) == whole[position:]


def test_a_restored_iterator_can_be_saved_before_it_is_used(files, tmp_path):
    dataset = tf_booster.TFRecordExampleDataset(files, FEATURES, 2)
    first = iter(dataset)
    next(first)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "first"))
    second = iter(dataset)
    checkpoint = tf.train.Checkpoint(iterator=second)
    checkpoint.restore(path)
    path = checkpoint.save(str(tmp_path / "second"))
    third = iter(dataset)
    tf.train.Checkpoint(iterator=third).restore(path)
    assert rest(third) == ids(dataset)[1:]


def test_compressed_files(tmp_path):
    """The next files are inflated ahead."""
    packed = write_files(tmp_path, (9, 9, 7, 9), "GZIP")
    dataset = tf_booster.TFRecordExampleDataset(packed, FEATURES, 4, compression="GZIP", buffer_size=64)
    wanted = ids(dataset)
    for position in range(len(wanted)):
        saved, restored = iter(dataset), iter(dataset)
        for _ in range(position):
            next(saved)
        path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / f"at-{position}"))
        tf.train.Checkpoint(iterator=restored).restore(path)
        assert rest(restored) == wanted[position:]


def test_errors_that_were_met_ahead_are_not_lost(files, tmp_path):
    cut = tmp_path / "cut"
    with open(files[2], "rb") as source:
        cut.write_bytes(source.read()[:-3])
    dataset = tf_booster.TFRecordExampleDataset([files[0], str(cut), files[3]], FEATURES, 4, num_parallel_calls=8)
    saved = iter(dataset)
    first = outcomes(saved, 1)
    path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
    restored = iter(dataset)
    tf.train.Checkpoint(iterator=restored).restore(path)
    wanted = outcomes(iter(dataset))
    assert "DataLossError" in wanted
    assert first + outcomes(restored) == wanted


@pytest.mark.parametrize("settings", [{"num_parallel_calls": 1}, {"num_parallel_calls": 2, "cycle_length": 2}])
def test_a_damaged_file_gives_its_error_once(settings, files, tmp_path):
    """Wherever the state was saved: before the error, behind it, and while the ended file still has its place."""
    cut = tmp_path / "cut"
    with open(files[2], "rb") as source:
        cut.write_bytes(source.read()[:-3])
    dataset = tf_booster.TFRecordExampleDataset([files[0], str(cut), files[3]], FEATURES, 4, **settings)
    wanted = outcomes(iter(dataset))
    assert wanted.count("DataLossError") == 1
    for position in range(len(wanted)):
        saved, restored = iter(dataset), iter(dataset)
        first = outcomes(saved, position)
        path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
        tf.train.Checkpoint(iterator=restored).restore(path)
        assert first + outcomes(restored) == wanted, position


def test_a_state_of_other_settings_is_refused(files, tmp_path):
    saved = iter(tf_booster.TFRecordExampleDataset(files, FEATURES, 1, cycle_length=4))
    for _ in range(3):
        next(saved)
    path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
    other = iter(tf_booster.TFRecordExampleDataset(files, FEATURES, 1, cycle_length=2, num_parallel_calls=None))
    with pytest.raises(tf.errors.FailedPreconditionError, match="cycle_length"):
        tf.train.Checkpoint(iterator=other).restore(path)
