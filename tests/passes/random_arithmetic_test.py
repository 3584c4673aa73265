"""Arithmetic put together at random in a map of single records or of batches: to the last bit what TensorFlow gives, or left to it.

`PYTHONPATH=.:tests/data python tests/passes/random_arithmetic_test.py 500` tries more of it.
"""

from __future__ import annotations

import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_same, num_replaced, try_more
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


# Steps, the type of numbers, and whether the map is of batches.
PROGRAMS = st.tuples(STEPS, st.sampled_from([tf.float32, tf.float32, tf.float64, tf.int64]), st.booleans())


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


def check(files, program):
    """Whether it was replaced."""
    steps, dtype, of_batch = program

    def of_record(serialized):
        return value(steps, tf.cast(parse(serialized)["pair"], dtype))

    def of_records(serialized):
        return value(steps, tf.cast(tf.io.parse_example(serialized, FIXED)["pair"], dtype))

    def make():
        return Records(files).batch(5).map(of_records) if of_batch else Records(files).map(of_record).batch(5)

    result, _ = assert_same(make)
    return result.modified


def test_random_arithmetic(files):
    assert num_replaced(check, PROGRAMS, files, max_examples=30, derandomize=True) >= 5


if __name__ == "__main__":
    try_more(check, PROGRAMS)
