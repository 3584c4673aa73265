"""Messages that hold a list of Examples and a context, as TF-Ranking's ExampleListWithContext, and TensorFlow's way to parse them."""

from __future__ import annotations

import tensorflow as tf
from google.protobuf import descriptor_pb2

v1 = tf.compat.v1
Field = descriptor_pb2.FieldDescriptorProto

EXAMPLE_FEATURES = {
    "price": tf.io.FixedLenFeature([1], tf.float32, [0.5]),
    "label": tf.io.FixedLenFeature([], tf.int64, -1),
    "words": tf.io.VarLenFeature(tf.string),
    "pair": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True),
}
CONTEXT_FEATURES = {"query": tf.io.VarLenFeature(tf.string), "length": tf.io.FixedLenFeature([1], tf.int64, [7])}


def descriptor(examples=(1, Field.TYPE_BYTES, True), context=(2, Field.TYPE_BYTES, False), default="", **others):
    """A descriptor of test.Lists, as decode_proto takes it. Of each field: its number, type and whether it is repeated."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="lists.proto", package="test", syntax="proto2")
    file.message_type.add(name="Part")
    message = file.message_type.add(name="Lists")
    for name, (number, field_type, repeated) in dict(examples=examples, context=context, **others).items():
        field = message.field.add(name=name, number=number, type=field_type)
        field.label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
        if field_type == Field.TYPE_MESSAGE:
            field.type_name = ".test.Part"
        elif default and not repeated:
            field.default_value = default
    return b"bytes://" + files.SerializeToString()


def decoded(serialized, source=None, **options):
    """sizes, context and examples of messages."""
    sizes, (context, examples) = tf.io.decode_proto(
        serialized,
        "test.Lists",
        ["context", "examples"],
        [tf.string, tf.string],
        descriptor_source=source or descriptor(),
        **options,
    )
    return sizes, context, examples


def of_one_length(examples, size, batch=None):
    """The lists cut or padded to `size`, as programs do it."""
    length = tf.shape(examples)[1]
    rows = tf.shape(examples)[0] if batch is None else batch
    return tf.cond(
        length > size,
        lambda: tf.slice(examples, [0, 0], [rows, size]),
        lambda: tf.pad(examples, [[0, 0], [0, size - length]], constant_values=""),
    )


def varint(value):
    """The bytes of a varint."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload, wire_type=2):
    """A field on the wire; of type 2 its length comes first."""
    length = varint(len(payload)) if wire_type == 2 else b""
    return varint(number << 3 | wire_type) + length + payload


def example(**features):
    """A serialized Example: floats, integers or texts by key."""
    made = tf.train.Example()
    for key, values in features.items():
        of_key = made.features.feature[key]
        for value in values:
            if isinstance(value, float):
                of_key.float_list.value.append(value)
            elif isinstance(value, int):
                of_key.int64_list.value.append(value)
            else:
                of_key.bytes_list.value.append(value.encode())
    return made.SerializeToString(deterministic=True)


def message(number, length):
    """A message whose list has so many Examples."""
    examples = [
        example(
            price=[number + i / 8],
            label=[number - i],
            words=[f"w{i}"] * (i % 3),
            pair=list(range((number + i) % 3 * 2)),
        )
        for i in range(length)
    ]
    context = example(query=[f"q{number}", "of"], length=[length])
    return b"".join(field(1, e) for e in examples) + field(2, context)
