"""TfBoosterParseExampleLists beside decode_proto and parse_example: the same tensors, or the same error, of whatever is on the wire."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from example_lists import EXAMPLE_FEATURES, Field, decoded, descriptor, example, field, message, varint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tf_booster import _compat, _native

PARAMS, _ = _compat.parse_example_params(EXAMPLE_FEATURES)
RAGGED, _ = _compat.parse_example_params(
    {"words": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64), "pair": tf.io.RaggedFeature(tf.int64)}
)


def parsed_by_tensorflow(serialized, size, params, source):
    sizes, context, examples = decoded(serialized, source)
    shape = tf.shape(examples)
    if size >= 0:
        examples = examples[:, :size]
        examples = tf.pad(examples, [[0, 0], [0, size - tf.shape(examples)[1]]], constant_values="")
    outputs = tf.raw_ops.ParseExampleV2(
        serialized=tf.reshape(examples, [-1]), names=[], **features_of(params), **keys_of(params)
    )
    return tf.nest.flatten([sizes, context, shape, list(outputs)])


def parsed_by_us(serialized, size, params, numbers, repeated):
    outputs = _native.ops().tf_booster_parse_example_lists(
        serialized=serialized,
        list_size=tf.constant(size, tf.int64),
        field_numbers=numbers,
        repeated=repeated,
        examples=1,
        num_values=1,
        **features_of(params),
        **keys_of(params),
    )
    return tf.nest.flatten(list(outputs))


def keys_of(params):
    return dict(
        sparse_keys=params.sparse_keys,
        dense_keys=params.dense_keys,
        ragged_keys=params.ragged_keys,
        dense_defaults=params.dense_defaults_vec,
    )


def features_of(params):
    return dict(
        num_sparse=len(params.sparse_keys),
        sparse_types=params.sparse_types,
        ragged_value_types=params.ragged_value_types,
        ragged_split_types=params.ragged_split_types,
        dense_shapes=params.dense_shapes_as_proto,
    )


def outcome(parse, *arguments):
    """The tensors, or the error without the op that says it, and without the record, of which our parser does not show the bytes."""
    try:
        return [tensor.numpy() for tensor in parse(*arguments)]
    except tf.errors.OpError as error:
        return type(error), re.sub(
            r"^(\{\{.*?\}\} )*|(?<=example input,).*| \[Op:.*", "", error.message, flags=re.DOTALL
        )


def assert_same(
    messages, size, params=PARAMS, examples=(1, Field.TYPE_BYTES, True), context=(2, Field.TYPE_BYTES, False)
):
    serialized = tf.constant(messages, tf.string, [len(messages)])
    theirs = outcome(parsed_by_tensorflow, serialized, size, params, descriptor(examples, context))
    ours = outcome(parsed_by_us, serialized, size, params, [context[0], examples[0]], [context[2], examples[2]])
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        assert ours == theirs
        return theirs
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    return ours


@pytest.mark.parametrize("params", [PARAMS, RAGGED], ids=["dense and sparse", "ragged"])
@pytest.mark.parametrize("size", [-1, 0, 1, 3, 5, 9])
def test_lists_of_different_lengths(size, params):
    assert_same([message(i, length) for i, length in enumerate((3, 0, 5, 1))], size, params)


def test_lists_that_are_all_empty_have_one_empty_example():
    sizes, context, shape, *_ = assert_same([b"", field(2, b"")], -1)
    assert sizes.tolist() == [[0, 0], [1, 0]] and context.tolist() == [[b""], [b""]] and shape.tolist() == [2, 1]


def test_no_message_is_an_error():
    assert assert_same([], -1)[0] is tf.errors.InvalidArgumentError


def test_many_examples_on_all_threads():
    assert_same([message(i, 40 + i % 7) for i in range(60)], 44)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("field_type", [Field.TYPE_BYTES, Field.TYPE_STRING, Field.TYPE_MESSAGE])
def test_other_numbers_and_types(field_type, repeated):
    made = [field(9, example(label=[i])) + field(3, b"context") * i + field(9, b"") for i in range(3)]
    assert_same(made, -1, examples=(9, field_type, True), context=(3, field_type, repeated))


@pytest.mark.parametrize(
    "broken",
    [
        field(1, b"\x0a"),  # No Example.
        field(1, example(label=["text"])),
        field(1, example(label=[1, 2])),
        field(1, example(pair=[1])),
        b"\x0a",
        b"\x0a\x05ab",
        b"\xff" * 11,
        field(1, b"", 3),  # A group that does not end.
        field(7, b"", 4),
        field(5, b"", 6),
    ],
)
def test_broken_messages(broken):
    found = assert_same([message(0, 2), broken + message(1, 1)], 3)
    assert isinstance(found, tuple) or broken == field(7, b"", 4)


def test_fields_in_an_unusual_order():
    first, last = example(label=[1]), example(label=[2])
    context = [field(2, b"one"), field(2, b"two")]
    for order in (
        [field(1, first), context[0], field(1, last)],
        [context[0], field(1, first), context[1]],
        [field(1, first), context[0], field(1, last), context[1]],
        [field(1, first), field(5, b""), field(1, last)],
        [field(1, first), context[0], field(4, b""), context[1], field(1, last), field(3, b""), field(1, first)],
    ):
        assert_same([b"".join(order)], -1)


WIRE = {
    0: st.integers(0, 2**64 - 1).map(varint),
    1: st.binary(min_size=8, max_size=8),
    5: st.binary(min_size=4, max_size=4),
}
PAYLOADS = st.sampled_from([b"", example(label=[3]), example(words=["a", "b"]), example(price=[2.0], pair=[1, 2])])


@st.composite
def fields(draw):
    number = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 300]))
    wire_type = draw(st.sampled_from([2, 2, 2, 2, 0, 1, 3, 5]))
    if wire_type == 2:
        return field(number, draw(PAYLOADS))
    if wire_type == 3:
        return field(number, draw(st.sampled_from([b"", field(1, b"ab")])), 3) + field(number, b"", 4)
    return field(number, draw(WIRE[wire_type]), wire_type)


@st.composite
def messages(draw):
    made = b"".join(draw(st.lists(fields(), max_size=7)))
    if made and draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(made) - 1))
        made = draw(st.sampled_from([made[:at], made[:at] + b"\x7f" + made[at + 1 :]]))
    return made


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.lists(messages(), min_size=1, max_size=4), st.sampled_from([-1, 0, 1, 2, 4]), st.booleans(), st.booleans())
def test_whatever_is_on_the_wire(made, size, descending, repeated):
    first, second = (3, 1) if descending else (1, 3)
    assert_same(made, size, examples=(first, Field.TYPE_BYTES, True), context=(second, Field.TYPE_BYTES, repeated))


@pytest.mark.parametrize(
    "attributes, message",
    [
        (dict(repeated=[True]), "2 field_numbers, 1 repeated"),
        (dict(examples=2), "examples 2"),
        (dict(list_size=tf.constant(-2, tf.int64)), "list_size is -2"),
    ],
)
def test_arguments_that_do_not_fit(attributes, message):
    arguments = dict(
        serialized=[b""],
        list_size=tf.constant(1, tf.int64),
        field_numbers=[2, 1],
        repeated=[False, True],
        examples=1,
        num_values=1,
        **features_of(PARAMS),
        **keys_of(PARAMS),
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        _native.ops().tf_booster_parse_example_lists(**{**arguments, **attributes})
