"""A record's features as they lie in its bytes: in their order, which tf.train.Example does not tell."""

from __future__ import annotations

import dataclasses
import struct
from typing import Iterator, List, Tuple, Union

TYPES = {1: "bytes", 2: "float", 3: "int64"}
Values = Union[List[int], List[float], List[bytes]]


@dataclasses.dataclass(frozen=True)
class Feature:
    """One entry. `kind`: bytes, float, int64, or "" for a feature without a list."""

    name: str
    kind: str
    values: Values
    packed: bool = True


def features(record: bytes) -> Iterator[Feature]:
    """The entries of a serialized Example. Raises ValueError for bytes that are none."""
    for number, wire, value in _fields(record):
        if number == 1 and wire == 2:
            for entry_number, entry_wire, entry in _fields(value):
                if entry_number == 1 and entry_wire == 2:
                    yield _feature(entry)


def _feature(entry: bytes) -> Feature:
    name, kind, values, packed = b"", "", [], True
    for number, wire, value in _fields(entry):
        if number == 1 and wire == 2:
            name = value
        elif number == 2 and wire == 2:
            for kind_number, kind_wire, content in _fields(value):
                if kind_number in TYPES and kind_wire == 2:
                    kind = TYPES[kind_number]
                    values, packed = _values(kind, content)
    return Feature(name.decode("utf-8", "backslashreplace"), kind, values, packed)


def _values(kind: str, content: bytes) -> Tuple[Values, bool]:
    found: list = []
    packed = True
    for number, wire, value in _fields(content):
        if number != 1:
            continue
        if kind == "bytes":
            found.append(value)
        elif wire == 2 and kind == "float":
            if len(value) % 4:
                raise ValueError(f"a list of floats of {len(value)} bytes")
            found.extend(struct.unpack(f"<{len(value) // 4}f", value))
        elif wire == 2:
            at = 0
            while at < len(value):
                number_at, at = _varint(value, at)
                found.append(_signed(number_at))
        else:
            packed = False
            found.append(_signed(value) if kind == "int64" else struct.unpack("<f", value)[0])
    return found, packed


def _fields(data: bytes) -> Iterator[Tuple[int, int, Union[bytes, int]]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            size, at = (8, at) if wire == 1 else (4, at) if wire == 5 else _varint(data, at)
            if size > len(data) - at:
                raise ValueError(f"a field of {size} bytes where {len(data) - at} are left")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {wire}, which no Example has")
        yield number, wire, value


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
    raise ValueError("a varint that does not end")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
