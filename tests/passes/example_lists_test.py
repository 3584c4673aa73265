"""Maps that decode messages and parse the lists of Examples in them: one op, the same elements."""

from __future__ import annotations

import pytest
import tensorflow as tf
from example_lists import CONTEXT_FEATURES, EXAMPLE_FEATURES, Field, decoded, descriptor, field, message, of_one_length
from pipeline_pairs import assert_batched, assert_refused, assert_replaced

LENGTHS = (3, 0, 5, 1, 2, 7, 4, 1, 3)


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """A file of messages, whose lists have LENGTHS Examples."""
    path = str(tmp_path_factory.mktemp("lists") / "messages")
    with tf.io.TFRecordWriter(path) as writer:
        for i, length in enumerate(LENGTHS):
            writer.write(message(i, length))
    return path


def parsed(examples, features=EXAMPLE_FEATURES):
    """The features of lists, whose dense ones have the shape of the lists again."""
    found = tf.io.parse_example(tf.reshape(examples, [-1]), features)
    shape = tf.shape(examples)
    return {
        key: tf.reshape(tensor, tf.concat([shape, tf.shape(tensor)[1:]], 0))
        if isinstance(tensor, tf.Tensor)
        else tensor
        for key, tensor in found.items()
    }


def parser(size=None, rows=None, source=None):
    """The function of a map as TF-Ranking has it. rows: the batch, as far as the program knows it."""

    def parse(serialized):
        sizes, context, examples = decoded(serialized, source)
        if size is not None:
            batch = tf.shape(examples)[0] if rows is None else rows
            length = tf.shape(examples)[1]
            made = parsed_lists(of_one_length(examples, size, rows), batch, size)
        else:
            batch, length = (tf.shape(examples)[i] for i in range(2))
            made = parsed_lists(examples, batch, length)
        made["context"] = tf.io.parse_example(tf.reshape(context, [batch]), CONTEXT_FEATURES)
        made["sizes"], made["length"] = sizes[:, 1], length
        made["mask"] = tf.sequence_mask(sizes[:, 1], size)
        return made

    return parse


def parsed_lists(examples, batch, length):
    """Their features, in the shape that is known of the lists."""
    found = tf.io.parse_example(tf.reshape(examples, [-1]), EXAMPLE_FEATURES)
    for key, tensor in found.items():
        if isinstance(tensor, tf.Tensor):
            found[key] = tf.reshape(tensor, tf.concat([[batch, length], tf.shape(tensor)[1:]], 0))
    return found


def batches(path, size=4, drop_remainder=False):
    return tf.data.TFRecordDataset(path).batch(size, drop_remainder=drop_remainder)


@pytest.mark.parametrize("size", [None, 1, 3, 9])
@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("one_shot", [False, True])
def test_lists_as_they_are_cut_and_padded(lists, size, drop_remainder, one_shot):
    rows = 4 if drop_remainder else None
    assert_replaced(lambda: batches(lists, drop_remainder=drop_remainder).map(parser(size, rows)), one_shot=one_shot)


@pytest.mark.parametrize("parallel", [2, tf.data.AUTOTUNE])
def test_on_several_threads_shuffled_and_repeated(lists, parallel):
    def make():
        records = tf.data.TFRecordDataset([lists, lists]).repeat(3).shuffle(20, seed=3)
        return records.batch(5).map(parser(2), num_parallel_calls=parallel).prefetch(2)

    assert_replaced(make)


def test_one_op_does_it(lists):
    result = assert_replaced(lambda: batches(lists).map(parser(3)))
    assert "lists of Examples in them parsed by one faster op" in result.changes[0]


def test_ragged_features_and_a_parse_in_a_function(lists):
    features = {"words": tf.io.RaggedFeature(tf.string), "label": tf.io.FixedLenFeature([], tf.int64, -1)}

    @tf.function
    def parse(serialized):
        _, _, examples = decoded(serialized)
        found = tf.io.parse_example(tf.reshape(of_one_length(examples, 4), [-1]), features)
        return found["words"], found["label"]

    assert_replaced(lambda: batches(lists).map(lambda s: parse(s)))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_the_lists_shape(lists, dtype):
    def parse(serialized):
        examples = tf.identity(decoded(serialized)[2])
        return tf.shape(examples, dtype), tf.io.parse_example(tf.reshape(examples, [-1]), EXAMPLE_FEATURES)["label"]

    assert_replaced(lambda: batches(lists).map(parse))


def test_fields_that_are_messages_or_repeated(lists):
    source = descriptor((1, Field.TYPE_MESSAGE, True), (2, Field.TYPE_STRING, True))
    assert_replaced(lambda: batches(lists).map(parser(3, source=source)))


def test_fields_on_both_sides_of_the_lists(lists):
    source = descriptor(
        first=(7, Field.TYPE_BYTES, False), last=(2, Field.TYPE_BYTES, True), context=(9, Field.TYPE_BYTES, True)
    )

    def parse(serialized):
        names = ["first", "context", "examples", "last"]
        sizes, (first, context, examples, last) = tf.io.decode_proto(
            serialized, "test.Lists", names, [tf.string] * 4, descriptor_source=source
        )
        return sizes, first, context, last, parse_of(of_one_length(examples, 2))

    assert_replaced(lambda: batches(lists).map(parse))


def test_what_waits(lists):
    def parse(serialized):
        sizes, _, examples = decoded(serialized)
        with tf.control_dependencies([examples]):
            label = tf.constant([8, 9])
        found = tf.io.parse_example(tf.reshape(examples, [-1]), EXAMPLE_FEATURES)["label"]
        with tf.control_dependencies([tf.debugging.assert_less(sizes, 100)]):
            return label, tf.identity(found)

    assert_replaced(lambda: batches(lists).map(parse))


def test_errors_are_the_same(tmp_path, lists):
    path = str(tmp_path / "broken")
    with tf.io.TFRecordWriter(path) as writer:
        for record in (
            message(0, 2),
            message(1, 3),
            b"\x0a\x05",
            message(2, 1),
            field(1, b"\x0a"),
            message(3, 1),
            message(4, 4),
        ):
            writer.write(record)
    assert_replaced(lambda: batches(path, 2).map(parser(3)), errors=True)


def cut(examples, size, begin=0, batch=None):
    return tf.slice(examples, [0, begin], [tf.shape(examples)[0] if batch is None else batch, size])


def pad(examples, size, before=0, value="", more=0, rows=0):
    return tf.pad(examples, [[0, rows], [before, size + more - tf.shape(examples)[1]]], constant_values=value)


def condition(predicate, then, otherwise):
    def parse(serialized):
        examples = decoded(serialized)[2]
        made = tf.cond(predicate(tf.shape(examples)), lambda: then(examples), lambda: otherwise(examples))
        return tf.io.parse_example(tf.reshape(made, [-1]), EXAMPLE_FEATURES)["label"]

    return parse


def test_conditions_by_hand_are_replaced(lists):
    """What the odd ones below are changed from."""
    for size in (4, 8):
        parse = condition(lambda s, n=size: s[1] > n, lambda e, n=size: cut(e, n), lambda e, n=size: pad(e, n))
        assert_replaced(lambda f=parse: batches(lists).map(f))


def checked(examples):
    with tf.control_dependencies([tf.debugging.assert_less(tf.shape(examples)[1], 6)]):
        return tf.identity(examples)


ODD = {
    "with an assertion": condition(lambda s: s[1] > 4, lambda e: checked(cut(e, 4)), lambda e: pad(e, 4)),
    "with an assertion that fails": condition(lambda s: s[1] > 9, lambda e: cut(e, 9), lambda e: checked(pad(e, 9))),
    "another comparison": condition(lambda s: s[1] > 5, lambda e: cut(e, 7), lambda e: pad(e, 7)),
    "of the batch": condition(lambda s: s[0] > 9, lambda e: cut(e, 9), lambda e: pad(e, 9)),
    "another part": condition(lambda s: s[1] > 4, lambda e: cut(e, 4, begin=1), lambda e: pad(e, 4)),
    "a part of the batch": condition(lambda s: s[1] > 4, lambda e: cut(e, 4, batch=2), lambda e: pad(e, 4)),
    "padded before": condition(lambda s: s[1] > 8, lambda e: cut(e, 8), lambda e: pad(e, 8, before=1)),
    "padded lists": condition(lambda s: s[1] > 8, lambda e: cut(e, 8), lambda e: pad(e, 8, rows=1)),
    "padded further": condition(lambda s: s[1] > 8, lambda e: cut(e, 8), lambda e: pad(e, 8, more=1)),
    "padded with something": condition(lambda s: s[1] > 8, lambda e: cut(e, 8), lambda e: pad(e, 8, value="\n\0")),
    "of other lists": condition(lambda s: s[1] > 4, lambda e: cut(e[:, 1:], 4), lambda e: pad(e, 4)),
    "the other way round": condition(lambda s: s[1] > 4, lambda e: tf.reverse(cut(e, 4), [1]), lambda e: pad(e, 4)),
}


@pytest.mark.parametrize("name", ODD)
def test_lists_that_are_changed_in_another_way_are_left(lists, name):
    assert_batched(lambda: batches(lists).map(ODD[name]), "it parses 0 lists of Examples", errors=True)


def parse_of(examples):
    return tf.io.parse_example(tf.reshape(examples, [-1]), EXAMPLE_FEATURES)["label"]


def strings_beside(serialized):
    examples = decoded(serialized)[2]
    return parse_of(examples), examples


def lengths_beside(serialized):
    examples = decoded(serialized)[2]
    return parse_of(examples), tf.strings.length(examples)


def parsed_twice(serialized):
    examples = decoded(serialized)[2]
    return parse_of(examples), parse_of(examples)


def shuffled(serialized):
    examples = decoded(serialized)[2]
    return parse_of(tf.reverse(examples, [1]))


def context_alone(serialized):
    _, context, _ = decoded(serialized)
    return tf.io.parse_example(tf.reshape(context, [-1]), CONTEXT_FEATURES)["length"]


def with_names(serialized):
    examples = tf.reshape(decoded(serialized)[2], [-1])
    return tf.io.parse_example(examples, EXAMPLE_FEATURES, example_names=examples)["label"]


def with_constant_names(serialized):
    examples = tf.reshape(of_one_length(decoded(serialized)[2], 1), [-1])
    return tf.io.parse_example(examples, EXAMPLE_FEATURES, example_names=["a", "b", "c"])["label"]


def computed_default(serialized):
    sizes, _, examples = decoded(serialized)
    default = tf.cast(tf.reduce_max(sizes), tf.int64)
    return tf.raw_ops.ParseExampleV2(
        serialized=tf.reshape(examples, [-1]),
        names=[],
        sparse_keys=tf.constant([], tf.string),
        dense_keys=["label"],
        ragged_keys=tf.constant([], tf.string),
        dense_defaults=[default],
        num_sparse=0,
        sparse_types=[],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[[]],
    ).dense_values[0]


def waits_for_fields(serialized):
    sizes, _, examples = decoded(serialized)
    with tf.control_dependencies([tf.debugging.assert_less(sizes, 100)]):
        return parse_of(examples)


def sanitized(serialized):
    return parse_of(decoded(serialized, sanitize=True)[2])


def with_a_default(serialized):
    return parse_of(decoded(serialized, descriptor(default="x"))[2])


LEFT = {
    "it returns serialized Examples": strings_beside,
    "StringLength": lengths_beside,
    "it parses 2 lists": parsed_twice,
    "it parses 0 lists": shuffled,
    "are no list in their message": context_alone,
    "are not constants": computed_default,
    "waits for something that is made of the messages' fields": waits_for_fields,
    "or checks its messages": sanitized,
    "is not bytes without a default value": with_a_default,
}


@pytest.mark.parametrize("reason", LEFT)
def test_more_than_a_parse_is_left_and_said(lists, reason):
    assert_batched(lambda: batches(lists).map(LEFT[reason]), reason)


def test_names_and_single_messages_are_left(lists):
    assert_batched(lambda: batches(lists).map(with_names), "not constants")
    assert_batched(lambda: batches(lists, 3).map(with_constant_names), "its parse names the Examples")
    assert_refused(lambda: tf.data.TFRecordDataset(lists).map(parsed_once).batch(2), "not one batch of messages")


def parsed_once(serialized):
    return parse_of(decoded(serialized)[2])
