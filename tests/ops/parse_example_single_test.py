"""TfBoosterParseExample with `single`: a batch, read as parse_single_example reads each of its records."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _compat, parsing

FEATURES = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "pair": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.5, 1.5]),
    "words": tf.io.VarLenFeature(tf.string),
}


def record(number, **more):
    example = tf.train.Example()
    example.features.feature["id"].int64_list.value.append(number)
    example.features.feature["words"].bytes_list.value.extend([b"w"] * (number % 3))
    for key, values in more.items():
        example.features.feature[key].float_list.value.extend(values)
    return example.SerializeToString()


def parse(serialized, features=None, single=True):
    params, _ = _compat.parse_example_params(features or FEATURES)
    outputs = parsing.parse_op(serialized, [], params, single)
    return [tensor.numpy() for tensor in tf.nest.flatten(outputs)]


@pytest.mark.parametrize("size", [0, 1, 7, 300])
def test_a_batch_is_that_of_parse_example(size):
    records = [record(i, pair=[i, -i]) if i % 2 else record(i) for i in range(size)]
    serialized = np.asarray(records, object)
    for ours, theirs in zip(parse(serialized), parse(serialized, single=False)):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "bad", [b"\x0a\x03abc", record(1, pair=[1.0]), record(1, id=[2.0]), tf.train.Example().SerializeToString()]
)
def test_errors_are_those_of_the_first_bad_record_alone(bad):
    with pytest.raises(tf.errors.InvalidArgumentError) as alone:
        parse(tf.constant(bad))
    for records in ([bad], [record(0), bad, record(2)], [record(0)] * 100 + [bad, record(1, words=[1.0])]):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            parse(np.asarray(records, object))
        assert error.value.message == alone.value.message and "Index" not in error.value.message


def test_ragged_features_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="ragged features; wanted none"):
        parse(np.asarray([record(1)], object), {"words": tf.io.RaggedFeature(tf.string)})
