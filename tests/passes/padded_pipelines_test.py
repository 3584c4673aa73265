"""Records that are parsed one by one and padded to the longest of their batch: the same batches from one op, or a reason."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced
from record_files import FEATURES
from single_record_pipelines_test import Records

PADDED = {key: FEATURES[key] for key in ("id", "pair", "sequence")}
PADDED["pairs"] = tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)
SPARSE = {key: FEATURES[key] for key in ("id", "clicks", "words")}


def parse(serialized):
    """Rows of ids, whose own default value pads nothing here, and of pairs of them."""
    return tf.io.parse_single_example(serialized, PADDED)


def with_lists(serialized):
    features = tf.io.parse_single_example(serialized, SPARSE)
    return (
        {
            "clicks": tf.sparse.to_dense(features["clicks"]),
            "words": tf.sparse.to_dense(features["words"], default_value=b"none"),
        },
        tf.reshape(tf.cast(features["id"], tf.float32), [-1]),
    )


@pytest.mark.parametrize("function", [parse, with_lists])
@pytest.mark.parametrize("size", [1, 4, 50])
def test_rows_of_different_lengths(files, function, size):
    result = assert_replaced(lambda: Records(files).map(function).padded_batch(size))
    assert "files, parse and batch are one op" in result.changes[0]


def test_among_other_steps(files):
    def make():
        return (
            Records(files)
            .map(parse, 2)
            .filter(lambda f: tf.size(f["sequence"]) > 0)
            .shuffle(9, seed=2)
            .repeat(2)
            .padded_batch(4, drop_remainder=True)
            .prefetch(1)
        )

    assert_replaced(make)


def test_several_maps(files):
    def make():
        parsed = Records(files).map(lambda s: tf.io.parse_single_example(s, SPARSE))
        dense = parsed.map(
            lambda f: dict(f, clicks=tf.sparse.to_dense(f["clicks"]), words=tf.sparse.to_dense(f["words"]))
        )
        return dense.map(lambda f: (f["words"], f["id"] + 1, f["clicks"])).padded_batch(3)

    assert_replaced(make)


def test_values_to_pad_with(files):
    shapes = {"id": [], "pair": [2], "sequence": [None], "pairs": [None, 2]}

    def make(padded_shapes):
        seven, less, nine = (tf.constant(value, tf.int64) for value in (7, -3, 9))
        values = {"id": seven, "pair": 0.5, "sequence": less, "pairs": nine}
        return Records(files).map(parse).padded_batch(4, padded_shapes, values)

    assert_replaced(lambda: make(None))
    assert_replaced(lambda: make(shapes))
    words = lambda s: tf.sparse.to_dense(tf.io.parse_single_example(s, SPARSE)["words"])
    assert_replaced(lambda: Records(files).map(words).padded_batch(4, padding_values=b"-"))


def test_values_computed_before_and_cast_behind(files):
    def function(serialized):
        features = tf.io.parse_single_example(serialized, SPARSE)
        clicks = features["clicks"]
        hashed = tf.SparseTensor(clicks.indices, clicks.values % 100 + 1, clicks.dense_shape)
        return tf.cast(tf.sparse.to_dense(hashed), tf.int32), tf.cast(tf.sparse.to_dense(clicks), tf.float32)

    assert_replaced(lambda: Records(files).map(function).padded_batch(4))
    assert_replaced(lambda: Records(files).map(function).padded_batch(4, padding_values=(tf.constant(1), 1.0)))
    of_a_sequence = lambda s: tf.cast(parse(s)["sequence"], tf.int32)
    assert_replaced(lambda: Records(files).map(of_a_sequence).padded_batch(4, padding_values=tf.constant(1)))


def test_refusals(files):
    def refused(function, reason, **options):
        assert_refused(lambda: Records(files).map(function).padded_batch(4, **options), reason)

    refused(lambda s: parse(s)["pair"], "padded to a shape of the program's", padded_shapes=[9])

    def twice(serialized):
        features = parse(serialized)
        return features["sequence"], features["sequence"]

    values = (np.int64(1), np.int64(2))
    assert_replaced(lambda: Records(files).map(twice).padded_batch(4, padding_values=values))
    assert_replaced(lambda: Records(files).map(twice).padded_batch(4))

    def lengths(serialized):
        features = parse(serialized)
        return features["sequence"], tf.shape(features["sequence"])

    refused(lengths, "Shape")

    def shifted():
        one = tf.constant(1, tf.int64)
        parsed = Records(files).map(parse).map(lambda f: (f["sequence"], f["id"] + one))
        return parsed.padded_batch(4)

    assert_refused(shifted, "uses tensors from outside")
