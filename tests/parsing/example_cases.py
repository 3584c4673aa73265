"""Specs and records to try, drawn by hypothesis (which shrinks what it finds) or by a random generator (which is fast)."""

from __future__ import annotations

import random
import struct
from typing import Any, List, Optional, Sequence, Tuple

import example_records as wire
from example_compare import Feature

NAMES = ("a", "b", "ab", "label", "C1", "a_rather_long_feature_name_of_40_bytes_x", "", "é")
INTS = (0, 1, -1, 127, 128, 300, 2**21, 2**31 - 1, -(2**31), 2**56 - 1, 2**56, 2**63 - 1, -(2**63), 0x1234567890ABCDEF)
FLOATS = (0.0, -0.0, 1.5, -1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"))
STRINGS = (b"", b"x", b"\x00\xff", b"twenty-two bytes here!", b"one byte more than short", b"long" * 40)
DTYPES = ("int64", "float", "string")


class Draw:
    """Choices. This one asks a random.Random."""

    def __init__(self, source: random.Random):
        self._random = source

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.integer(0, len(values) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent

    def binary(self, size: int) -> bytes:
        return bytes(self.integer(0, 255) for _ in range(size))


class HypothesisDraw(Draw):
    """Asks hypothesis: zeros first, so that it shrinks to the plain case."""

    def __init__(self, data: Any):
        from hypothesis import strategies

        self._data, self._integers = data, strategies.integers

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(self._integers(low, high))


def values(draw: Draw, dtype: str, count: int) -> List[Any]:
    if dtype == "string":
        return [draw.pick(STRINGS) for _ in range(count)]
    if dtype == "float":
        return [draw.pick(FLOATS) for _ in range(count)]
    return [draw.pick(INTS) if draw.chance(50) else draw.integer(0, 200) for _ in range(count)]


def a_feature(draw: Draw, name: str, ragged: bool = True) -> Feature:
    kind = draw.pick(("dense", "sparse", "ragged") if ragged else ("dense", "sparse"))
    dtype = draw.pick(DTYPES)
    if kind != "dense":
        return Feature(name, kind, dtype, splits=draw.pick(("int64", "int32")))
    inner = draw.pick(((), (1,), (2,), (2, 3), (0,), (20,)))
    if draw.chance(40):
        inner = inner if 0 not in inner else ()
        return Feature(name, kind, dtype, (None, *inner), tuple(values(draw, dtype, 1)))
    size = 1
    for dim in inner:
        size *= dim
    default = tuple(values(draw, dtype, size)) if draw.chance(60) else None
    return Feature(name, kind, dtype, inner, default)


def a_spec(draw: Draw, ragged: bool = True) -> Tuple[Feature, ...]:
    names = list(NAMES)
    count = draw.integer(1, 5)
    return tuple(a_feature(draw, names.pop(draw.integer(0, len(names) - 1)), ragged) for _ in range(count))


def encoded_value(draw: Draw, value: Any) -> Any:
    # Varints may be longer than they need be, and have bits beyond the 64th.
    if isinstance(value, int) and draw.chance(10):
        wide = wire.varint(value, draw.integer(1, 10))
        return wide[:-1] + bytes([wide[-1] | 0x7E]) if len(wide) == 10 and draw.chance(50) else wide
    return value


def a_list(draw: Draw, dtype: str, count: int) -> bytes:
    return wire.feature(dtype, [encoded_value(draw, v) for v in values(draw, dtype, count)], draw.chance(70))


def count_for(draw: Draw, feature: Feature) -> int:
    if feature.kind != "dense":
        return draw.integer(0, 4) if draw.chance(80) else draw.integer(0, 70)
    size = 1
    for dim in feature.shape:
        size *= dim if dim is not None else draw.integer(0, 3)
    return size + (draw.integer(-1, 1) if draw.chance(3) else 0)


def an_entry(draw: Draw, spec: Sequence[Feature]) -> bytes:
    feature = draw.pick(spec)
    name = feature.name if draw.chance(95) else draw.pick(NAMES)
    dtype = feature.dtype if draw.chance(97) else draw.pick(DTYPES + ("",))
    return wire.entry(name.encode(), a_list(draw, dtype, max(0, count_for(draw, feature))), draw.chance(10))


def a_record(draw: Draw, spec: Sequence[Feature]) -> bytes:
    """Most features of `spec`, mostly in order; some twice, some unknown, some of another type or size."""
    entries = [
        wire.entry(f.name.encode(), a_list(draw, f.dtype, max(0, count_for(draw, f))), draw.chance(5))
        for f in spec
        if draw.chance(90)
    ]
    for _ in range(draw.integer(0, 2) if draw.chance(40) else 0):
        entries.insert(draw.integer(0, len(entries)), an_entry(draw, spec))
    if draw.chance(20):
        entries = entries[1:] + entries[:1]
    record = wire.example(entries)
    if draw.chance(5):  # Two Examples, one after the other, are one.
        record += wire.example([an_entry(draw, spec)])
    if draw.chance(5):  # Fields that no Example has.
        record += draw.pick(
            (
                wire.tag(2, 0) + b"\x05",
                wire.delimited(3, b"abc"),
                wire.tag(9, 5) + b"1234",
                wire.tag(4, 1) + b"12345678",
            )
        )
    return record


def broken(draw: Draw, record: bytes) -> bytes:
    """`record` with some bytes changed, cut off, doubled or put in."""
    data = bytearray(record)
    for _ in range(draw.integer(1, 3)):
        at = draw.integer(0, len(data)) if data else 0
        how = draw.integer(0, 5)
        if how == 0 and at < len(data):
            data[at] = draw.integer(0, 255)
        elif how == 1:
            del data[at:]
        elif how == 2 and at < len(data):
            data[at] = draw.pick((0, 1, 2, 5, 8, 0x0A, 0x0D, 0x12, 0x1A, 0x7F, 0x80, 0xFF))
        elif how == 3:
            data[at:at] = draw.binary(draw.integer(1, 3))
        elif how == 4:
            del data[at : at + draw.integer(1, 4)]
        else:
            data[at:at] = draw.pick(
                (wire.varint(2**31), wire.varint(2**32 - 1), wire.varint(2**63), b"\xff" * 11, struct.pack("<I", 5))
            )
    return bytes(data)


def a_batch(draw: Draw, spec: Sequence[Feature], broken_percent: int = 0) -> List[bytes]:
    records = [a_record(draw, spec) for _ in range(draw.integer(1, 6) if draw.chance(90) else draw.integer(0, 40))]
    return [broken(draw, r) if draw.chance(broken_percent) else r for r in records]


def names_for(draw: Draw, records: Sequence[bytes]) -> Optional[List[bytes]]:
    return [b"record %d" % i for i in range(len(records))] if draw.chance(30) else []
