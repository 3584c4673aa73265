"""Damaged, cut and missing files: the same batches and the same errors as from TensorFlow's own pipeline, call after call."""

from __future__ import annotations

import gzip
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from record_files import FEATURES, outcomes, read, stock, write_files

import tf_booster

COMPRESSIONS = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def both(files, batch_size=2, compression="", **options):
    """What our iterator and TensorFlow's give."""
    mine, theirs = datasets(files, batch_size, compression, **options)
    return outcomes(iter(mine)), outcomes(iter(theirs))


def datasets(files, batch_size=2, compression="", **options):
    mine = tf_booster.TFRecordExampleDataset(files, FEATURES, batch_size, compression=compression, **options)
    return mine, stock(tf.data.TFRecordDataset(files, compression), batch_size)


@pytest.fixture
def good(tmp_path):
    (tmp_path / "good").mkdir()
    return write_files(tmp_path / "good", (3, 4))


@pytest.fixture
def short(tmp_path):
    """Two files of few bytes: an iterator takes 10 ms to make, and tests damage every byte in turn."""
    paths = []
    for name, numbers in (("short-0", range(3)), ("short-1", range(3, 7))):
        paths.append(str(tmp_path / name))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for number in numbers:
                example = tf.train.Example()
                example.features.feature["id"].int64_list.value.append(number)
                writer.write(example.SerializeToString())
    return paths


def bad_file(tmp_path, content):
    path = tmp_path / "bad"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_truncation(tmp_path, short, compression):
    """With a good file behind it, which is read to its end."""
    content = COMPRESSIONS[compression](read(short[0]))
    packed = tmp_path / "packed"
    packed.write_bytes(COMPRESSIONS[compression](read(short[1])))
    mine, theirs = datasets([bad_file(tmp_path, content), str(packed)], compression=compression, buffer_size=30)
    for size in range(len(content) + 1):
        bad_file(tmp_path, content[:size])
        assert outcomes(iter(mine)) == outcomes(iter(theirs)), size


@pytest.mark.parametrize("calls", [None, 3])
def test_flipped_bits(tmp_path, short, calls):
    content = bytearray(read(short[0]))
    mine, theirs = datasets([bad_file(tmp_path, content), short[1]], num_parallel_calls=calls)
    for position in range(0, len(content), 1 if calls is None else 3):
        content[position] ^= 0x10
        bad_file(tmp_path, content)
        found = outcomes(iter(mine))
        assert "DataLossError" in found and found == outcomes(iter(theirs)), position
        content[position] ^= 0x10


def test_checksums_can_be_left_out(tmp_path, good):
    content = bytearray(read(good[0]))
    content[-1] ^= 1  # The checksum of the last record.
    path = bad_file(tmp_path, bytes(content))
    dataset = tf_booster.TFRecordExampleDataset(path, FEATURES, 8, verify_crc=False)
    assert outcomes(iter(dataset)) == [[0, 1, 2], "end"]
    content[0] ^= 1  # A length is checked all the same.
    dataset = tf_booster.TFRecordExampleDataset(bad_file(tmp_path, bytes(content)), FEATURES, 8, verify_crc=False)
    assert outcomes(iter(dataset)) == ["DataLossError", "end"]


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@pytest.mark.parametrize("length", [100, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_lengths_past_the_end_cost_no_memory(tmp_path, length, compression):
    """TensorFlow itself asks for the memory, so it is not asked here."""
    header = struct.pack("<Q", length)
    path = bad_file(tmp_path, COMPRESSIONS[compression](header + masked_crc(header) + b"few bytes"))
    dataset = tf_booster.TFRecordExampleDataset(path, FEATURES, 2, compression=compression)
    iterator = iter(dataset)
    with pytest.raises(tf.errors.DataLossError) as error:
        next(iterator)
    assert "at byte 0" in str(error.value) and path in str(error.value)
    assert outcomes(iterator) == ["end"]


def test_a_file_of_another_kind(tmp_path, good):
    for content in (b"no record at all", b"id,label\n1,2\n" * 100, COMPRESSIONS["GZIP"](read(good[0]))):
        mine, theirs = both([bad_file(tmp_path, content), *good])
        assert mine == theirs and mine[0] == "DataLossError"
    mine, theirs = both(good, compression="GZIP")
    assert mine == theirs and mine[0] == "DataLossError"


def test_bytes_behind_a_compressed_file(tmp_path, good):
    packed = gzip.compress(read(good[0]))
    for content in (packed + packed, packed + b"garbage"):
        mine, theirs = both([bad_file(tmp_path, content)], compression="GZIP")
        assert mine == theirs


def test_missing_files_and_folders(tmp_path, good):
    mine, theirs = both([good[0], str(tmp_path)])
    assert mine == theirs
    mine, theirs = both([good[0], str(tmp_path / "none"), good[1]])
    assert mine == theirs  # It is tried again and again.
    assert "NotFoundError" in mine and mine.count("NotFoundError") > 5


def test_a_file_that_comes_later_is_found(tmp_path, good):
    late = tmp_path / "late"
    iterator = iter(tf_booster.TFRecordExampleDataset(str(late), FEATURES, 8, num_parallel_calls=None))
    assert outcomes(iterator, 2) == ["NotFoundError"] * 2
    (tmp_path / "written").write_bytes(read(good[0]))
    (tmp_path / "written").rename(late)  # Whole: a reader that is about to open it would find it empty else.
    found = outcomes(iterator)
    while found[0] == "NotFoundError":  # tf.data itself puts a prefetch behind a dataset, which asked before.
        del found[0]
    assert found == [[0, 1, 2], "end"]


@pytest.mark.parametrize("calls", [None, 2])
def test_bad_records(tmp_path, good, calls):
    """A batch with a broken Example is an error, the batches around it are not."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for record in tf.data.TFRecordDataset(good).take(5):
            writer.write(record.numpy())
        writer.write(b"no example")
        writer.write(tf.train.Example().SerializeToString())  # Has no "id".
        for record in tf.data.TFRecordDataset(good):
            writer.write(record.numpy())
    mine, theirs = both([path], num_parallel_calls=calls)
    assert mine == theirs and mine.count("InvalidArgumentError") == 2
    dataset = tf_booster.TFRecordExampleDataset(path, FEATURES, 3, num_parallel_calls=calls)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: id|Could not parse"):
        list(dataset)


def test_errors_between_interleaved_files(tmp_path, good):
    cut = bad_file(tmp_path, read(good[1])[:-5])
    files = [good[0], cut, good[1]]
    for parallel in (None, 2):
        records = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, 2, 2, parallel)
        mine = tf_booster.TFRecordExampleDataset(files, FEATURES, 1, cycle_length=2, block_length=2)
        wanted = outcomes(iter(stock(records, 1)))
        found = outcomes(iter(mine))
        if parallel is None:
            assert found == wanted
        assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_a_dataset_of_names_that_fails(good):
    names = tf.data.Dataset.from_tensor_slices([good[0], "bad", good[1]])
    checked = names.map(lambda name: tf.where(name == "bad", tf.io.decode_base64("?"), name))
    mine = tf_booster.TFRecordExampleDataset(checked, FEATURES, 2)
    assert outcomes(iter(mine)) == outcomes(iter(stock(tf.data.TFRecordDataset(checked), 2)))


def test_damage_in_a_large_compressed_file(tmp_path):
    """Half a megabyte of noise and more: what TensorFlow's buffers of 256 KiB hold at the damage is lost there and here."""
    path, noise = tmp_path / "large", np.random.default_rng(0)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(700):
            example = tf.train.Example()
            example.features.feature["id"].int64_list.value.append(number)
            example.features.feature["other"].bytes_list.value.append(noise.bytes(1500))
            writer.write(example.SerializeToString())
    content = gzip.compress(read(path), 6)
    bad = [content[:size] for size in (100, 262_144, 500_000, len(content) - 9, len(content) - 1)]
    bad += [content + gzip.compress(b"no record"), content + b"\0", content + content]
    for position in (20_000, 262_000, 300_000, 600_000, len(content) - 2000, len(content) - 6):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        bad.append(bytes(damaged))
    for i, changed in enumerate(bad):
        mine, theirs = both([bad_file(tmp_path, changed)], 50, compression="GZIP")
        assert mine == theirs, i
