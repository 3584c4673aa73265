"""tf.io.decode_raw of single records, done to batches: the same numbers, and the same kinds of errors."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced, outcome

Records, decode_raw = tf.data.TFRecordDataset, tf.io.decode_raw
KEYS = {"raw": tf.io.FixedLenFeature([], tf.string), "two": tf.io.FixedLenFeature([2], tf.string)}


def write(path, lengths):
    random = np.random.RandomState(1)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for length in lengths:
            values = {"raw": [random.bytes(length)], "two": [random.bytes(4), random.bytes(4)]}
            of_bytes = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=v)) for key, v in values.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=of_bytes)).SerializeToString())
    return str(path)


@pytest.fixture(name="file", scope="module")
def file_of_16_bytes(tmp_path_factory):
    return write(tmp_path_factory.mktemp("raw") / "file", [16] * 21)


def set_shape(raw, two):
    numbers = decode_raw(raw, tf.int32)
    numbers.set_shape([4])
    return numbers


FUNCTIONS = {
    "as it is": lambda raw, two: [decode_raw(raw, dtype) for dtype in (tf.uint8, tf.int32, tf.float64, tf.bool)],
    "set_shape": set_shape,
    "ensure_shape": lambda raw, two: tf.ensure_shape(decode_raw(raw, tf.int64), [2]) + 1,
    "reshape": lambda raw, two: tf.reshape(decode_raw(raw, tf.int16), [2, 4])[0],
    "numbers": lambda raw, two: tf.cast(decode_raw(raw, tf.uint8), tf.float32) / 255.0,
    "of two": lambda raw, two: (decode_raw(two, tf.int16), tf.reshape(decode_raw(two, tf.int8), [8])),
    "big endian": lambda raw, two: decode_raw(raw, tf.float16, little_endian=False),
}


def of_record(function):
    """`function` of a record's features."""

    def parsed(serialized):
        features = tf.io.parse_single_example(serialized, KEYS)
        return function(features["raw"], features["two"])

    return parsed


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("batch_size", [1, 4])
def test_raw_bytes(file, name, batch_size):
    function = of_record(FUNCTIONS[name])
    assert_replaced(lambda: Records(file).map(function).shuffle(9, seed=1).batch(batch_size))


@pytest.mark.parametrize("lengths", [[8, 8, 12, 8], [8, 6, 8], [0, 0], [8, 0], [12, 12, 12]])
@pytest.mark.parametrize("shape", [None, [2]])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_bytes_that_do_not_fit(tmp_path, lengths, shape, batch_size):
    file = write(tmp_path / "file", lengths)

    def function(raw, two):
        numbers = decode_raw(raw, tf.int32)
        return numbers if shape is None else tf.reshape(numbers, shape)

    make = lambda: Records(file).map(of_record(function)).batch(batch_size)
    (ours, our_end, _, result, _), (theirs, their_end, *_) = outcome(make, True), outcome(make, False)
    assert result.modified and our_end == their_end
    tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)


def test_a_filter_behind(file):
    def filtered(function):
        kept = lambda *made: tf.strings.length(made[0]) > 2
        parse = of_record(lambda raw, two: (raw, function(raw)))
        return lambda: Records(file).map(parse).filter(kept).batch(2)

    assert_replaced(filtered(lambda raw: decode_raw(raw, tf.uint8)))
    assert_refused(filtered(lambda raw: decode_raw(raw, tf.int16)), "DecodeRaw of 'MapDataset' may fail for a record")
    for of_a_size in (tf.reshape, tf.ensure_shape):
        assert_refused(filtered(lambda raw, of=of_a_size: of(decode_raw(raw, tf.uint8), [16])), "may fail for a record")


def test_refusals(file):
    def refused(function, reason):
        assert_refused(lambda: Records(file).map(of_record(function)).batch(4), reason)

    numbers = lambda raw: decode_raw(raw, tf.int32)
    refused(lambda raw, two: tf.reshape(numbers(raw), [2, -1]), "whose size is not known")
    refused(lambda raw, two: numbers(raw) + numbers(raw), "whose lengths may differ")
    refused(lambda raw, two: tf.concat([numbers(raw), numbers(raw)], 0), "not of dense values")
