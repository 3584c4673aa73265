"""Arithmetic in a map of batches: to the last bit what TensorFlow gives, whose optimizer changes it by shapes, or left to it."""

from __future__ import annotations

import pytest
import tensorflow as tf
from pipeline_pairs import assert_batched, assert_replaced
from single_record_pipelines_test import FIXED, SPARSE, Records


def number(features):
    return tf.cast(features["id"], tf.float32)


OF_ONE_FEATURE = {
    "products": lambda f: f["pair"] * 0.1 * 0.7,
    "sums": lambda f: f["pair"] + 0.1 + 0.7,
    "of numbers": lambda f: number(f) * 0.1 * 0.7,
    "of constants for each column": lambda f: f["pair"] * tf.constant([0.1, 0.3]) * tf.constant([0.7, 0.9]),
    "of another constant": lambda f: f["pair"] * tf.constant([0.1, 0.3]) * 0.7,
    "divided by a root": lambda f: 0.3 / tf.sqrt(tf.abs(f["pair"]) + 0.1),
    "reciprocal": lambda f: 1.0 / (f["pair"] + 0.3),
    "log of one more": lambda f: tf.math.log(tf.abs(f["pair"]) + 1.0),
    "log of one more than a number": lambda f: tf.math.log(number(f) + 1.0),
}
OF_SEVERAL = {
    "harmless": lambda f: f["pair"] * tf.expand_dims(number(f), -1) + 0.3,
    "standardized": lambda f: (f["pair"] - 0.3) / 6.1,
}
LEFT = {
    "many": lambda f: (f["pair"] + f["pair"][:, ::-1] + f["pair"] * 0.3) + (f["pair"] * 0.7 + 0.3),
    "add_n": lambda f: tf.add_n([f["pair"] * 0.1, f["pair"] * 0.3, f["pair"] + 0.7]),
    "numbers": lambda f: (number(f) * 0.1 + f["pair"][:, 0]) + (f["pair"][:, 1] * 0.7 + number(f) * 0.3),
    "pairs": lambda f: (f["pair"] + tf.expand_dims(number(f), -1) * 0.1) + (f["pair"] * 0.7 + 0.3),
    "values of lists": lambda f: tf.cast(f["clicks"].values, tf.float32) * 0.1 * 0.7,
}


def make(files, features, function):
    return Records(files).batch(5).map(lambda s: function(tf.io.parse_example(s, features)))


@pytest.mark.parametrize("name", [*OF_ONE_FEATURE, *OF_SEVERAL])
def test_the_same_bits(files, name):
    assert_replaced(lambda: make(files, FIXED, {**OF_ONE_FEATURE, **OF_SEVERAL}[name]))


OF_TINY = {
    "maximum": lambda x: tf.maximum(x, -1.0),
    "minimum": lambda x: tf.minimum(x, 1.0),
    "of both": lambda x: tf.maximum(x, -x),
    "log": tf.math.log,
    "log1p": tf.math.log1p,
    "clipped": lambda x: tf.clip_by_value(x, -1.0, 1.0),
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("name", OF_TINY)
def test_numbers_too_small_for_a_normal_one(tmp_path, name, dtype):
    """TensorFlow's threads take them for zero."""
    tiny = ["1e-41", "-1e-41", "2e-38", "-0.0", "0.0", "1e-310", "-1e-310", "3e-308", "-3e-308", "-5.0"]
    (tmp_path / "lines").write_text("".join(f"{x}\n" for x in tiny))
    function = lambda line: OF_TINY[name](tf.io.decode_csv(line, [tf.constant([], dtype)])[0])
    assert_replaced(lambda: tf.data.TextLineDataset(str(tmp_path / "lines")).map(function).batch(4))


@pytest.mark.parametrize("name", LEFT)
def test_left(files, name):
    assert_batched(lambda: make(files, SPARSE, LEFT[name]), "which TensorFlow may compute in another order")
