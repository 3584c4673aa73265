"""tf.train.Example and SequenceExample records written byte by byte, so that tests can also write what no protobuf library would."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterable, Sequence, Tuple

LIST_FIELD = {"string": 1, "float": 2, "int64": 3}


def varint(value: int, width: int = 0) -> bytes:
    """`value` modulo 2^64 as a varint, of at least `width` bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < width:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def delimited(field: int, payload: bytes) -> bytes:
    return tag(field, 2) + varint(len(payload)) + payload


def value_list(kind: str, values: Sequence[Any], packed: bool = True) -> bytes:
    """A BytesList, FloatList or Int64List. Values of int64 may be bytes: a varint as it shall stand there."""
    if kind == "string":
        return b"".join(delimited(1, value) for value in values)
    if kind == "float":
        encoded, wire_type = [struct.pack("<f", value) for value in values], 5
    else:
        encoded, wire_type = [v if isinstance(v, bytes) else varint(v) for v in values], 0
    if packed:
        return delimited(1, b"".join(encoded)) if encoded else b""
    return b"".join(tag(1, wire_type) + value for value in encoded)


def feature(kind: str, values: Sequence[Any], packed: bool = True) -> bytes:
    """A Feature. kind "" is one without a list."""
    return delimited(LIST_FIELD[kind], value_list(kind, values, packed)) if kind else b""


def entry(name: bytes, feature_bytes: bytes, swapped: bool = False) -> bytes:
    """An entry of the map of Features."""
    fields = [delimited(1, name), delimited(2, feature_bytes)]
    return b"".join(reversed(fields) if swapped else fields)


def example(entries: Iterable[bytes]) -> bytes:
    return delimited(1, b"".join(delimited(1, e) for e in entries))


def simple(**features: Tuple[str, Sequence[Any]]) -> bytes:
    """simple(a=("int64", [1, 2]), b=("string", [b"x"]))"""
    return example(entry(name.encode(), feature(*value)) for name, value in features.items())


def feature_list(steps: Iterable[bytes]) -> bytes:
    """A FeatureList of serialized Features."""
    return b"".join(delimited(1, step) for step in steps)


def feature_lists(entries: Iterable[bytes]) -> bytes:
    """The feature lists of a SequenceExample, whose context is what `example` writes."""
    return delimited(2, b"".join(delimited(1, e) for e in entries))


def sequence(context: Dict[str, Tuple[str, Sequence[Any]]], **lists: Tuple[str, Sequence[Sequence[Any]]]) -> bytes:
    """sequence(dict(a=("int64", [1])), h=("int64", [[1], [2, 3]])): the values of each step."""
    return simple(**context) + feature_lists(
        entry(name.encode(), feature_list(feature(kind, step) for step in steps))
        for name, (kind, steps) in lists.items()
    )
