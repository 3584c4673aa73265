"""Arithmetic put together at random in a map of single records or of batches: to the last bit what TensorFlow gives, or left to it.

`PYTHONPATH=.:tests/data python tests/passes/random_arithmetic_test.py 500` tries more of it.
"""

from __future__ import annotations

import sys
import tempfile

import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_pairs import assert_same
from record_files import write_files
from single_record_pipelines_test import FIXED, Records, parse

UNARY = {
    "neg": tf.negative,
    "abs": tf.abs,
    "square": tf.square,
    "sqrt": lambda x: tf.sqrt(tf.abs(x)),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "log": lambda x: tf.math.log(tf.abs(x)),
    "there and back": lambda x: tf.cast(tf.cast(x, tf.int64), x.dtype),
    "first": lambda x: x[..., :1],
    "swapped": lambda x: x[..., ::-1],
    "column": lambda x: tf.squeeze(tf.expand_dims(x, -1), -1),
}
BINARY = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": lambda x, y: x / y if x.dtype.is_floating else x // (tf.abs(y) + 1),
    "max": tf.maximum,
    "min": tf.minimum,
    "where": lambda x, y: tf.where(x > y, x, y),
}
CONSTANTS = [0.1, 0.7, 1.0, 3.0, 7.3, 0.0]
# One op behind the other, each of what is there and a constant, the record itself, or what was there some steps ago.
OPERANDS = st.one_of(st.sampled_from(CONSTANTS), st.integers(0, 3))
STEPS = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY, *["add", "sub", "mul", "div"] * 4]), OPERANDS, st.booleans()),
    min_size=2,
    max_size=6,
)


def value(steps, record):
    values = [record]
    for name, operand, swapped in steps:
        if not record.dtype.is_floating and name in ("sqrt", "log", "log1p"):
            continue
        if name in UNARY:
            values.append(UNARY[name](values[-1]))
            continue
        if isinstance(operand, float):
            other = tf.constant(operand if record.dtype.is_floating else int(10 * operand), record.dtype)
        else:
            other = values[max(0, len(values) - 1 - operand)]
        first, second = (other, values[-1]) if swapped else (values[-1], other)
        values.append(BINARY[name](first, second))
    return values[-1]


def check(files, steps, dtype, of_batch):
    """Whether it was replaced."""

    def of_record(serialized):
        return value(steps, tf.cast(parse(serialized)["pair"], dtype))

    def of_records(serialized):
        return value(steps, tf.cast(tf.io.parse_example(serialized, FIXED)["pair"], dtype))

    def make():
        return Records(files).batch(5).map(of_records) if of_batch else Records(files).map(of_record).batch(5)

    result, _ = assert_same(make)
    return result.modified


def try_many(files, **options):
    """How many were replaced."""
    replaced = []

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **options)
    @given(STEPS, st.sampled_from([tf.float32, tf.float32, tf.float64, tf.int64]), st.booleans())
    def tried(steps, dtype, of_batch):
        replaced.append(check(files, steps, dtype, of_batch))

    tried()
    return sum(replaced)


def test_random_arithmetic(files):
    assert try_many(files, max_examples=30, derandomize=True) >= 5


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(try_many(write_files(folder, (5, 0, 17, 9, 1)), max_examples=int(sys.argv[1])), "replaced")
