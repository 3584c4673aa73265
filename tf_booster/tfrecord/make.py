"""Synthetic TFRecord files by a schema."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.arguments import is_int

_TYPES = ("int64", "float", "bytes")


@dataclasses.dataclass(frozen=True)
class Column:
    """One feature: `length` values a record, from the first to the second number; ids and floats below `below`."""

    name: str
    kind: str
    length: Tuple[int, int] = (1, 1)
    below: int = 1_000_000


def column_of_text(text: str) -> List[Column]:
    """ "C*26:int64:1-20:1000000": 26 features C1 to C26 of 1 to 20 ids below a million. Length and limit may be left out."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 4 or not parts[0]:
        raise ValueError(f"feature '{text}': wanted name:type[:length[:below]], such as age:float or C*26:int64:1-20")
    name, _, count = parts[0].partition("*")
    try:
        low, _, high = (parts[2] if len(parts) > 2 else "1").partition("-")
        length = (int(low), int(high or low))
        below = int(parts[3]) if len(parts) > 3 else Column.below
        names = [f"{name}{i}" for i in range(1, int(count) + 1)] if count else [name]
    except ValueError:
        raise ValueError(f"feature '{text}': length, limit and number of features are integers") from None
    if not names:
        raise ValueError(f"feature '{text}': {count} features; wanted 1 or more")
    return [_checked(Column(n, parts[1], length, below)) for n in names]


def columns_of_schema(path: str) -> List[Column]:
    """A JSON file: {"name": {"type": "int64", "length": 3 or [1, 20], "below": 1000}, …}."""
    with tf.io.gfile.GFile(path) as file:
        try:
            schema: Dict[str, Dict[str, Any]] = json.load(file)
        except ValueError as error:  # Of text that is no UTF-8, too.
            raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ValueError(f'{path}: {schema!r}; wanted features by name, such as {{"age": {{"type": "float"}}}}')
    columns = []
    for name, feature in schema.items():
        if not isinstance(feature, dict) or set(feature) - {"type", "length", "below"}:
            raise ValueError(f"{path}: feature '{name}' is {feature!r}; wanted type, length and below")
        length = feature.get("length", 1)
        ends = length if isinstance(length, list) else [length, length]
        below = feature.get("below", Column.below)
        if len(ends) != 2 or not all(map(is_int, [*ends, below])):
            raise ValueError(
                f"{path}: feature '{name}' is {feature!r}; wanted integers: length, or its two ends, and below"
            )
        columns.append(_checked(Column(name, feature.get("type", "int64"), (ends[0], ends[1]), below)))
    return columns


def _checked(column: Column) -> Column:
    if column.kind not in _TYPES:
        raise ValueError(f"feature '{column.name}': type is '{column.kind}'; wanted one of {', '.join(_TYPES)}")
    if not 0 <= column.length[0] <= column.length[1]:
        raise ValueError(f"feature '{column.name}': length is {column.length}; wanted 0 or more, low end first")
    if not 0 < column.below <= 2**63:
        raise ValueError(f"feature '{column.name}': ids below {column.below}; wanted 1 to 2^63")
    return column


def write(path: str, columns: List[Column], records: int, seed: int, compression: str) -> None:
    """Writes the file. The seed decides everything; keys stand in the order of `columns`."""
    rng = np.random.default_rng(seed)
    with tf.io.TFRecordWriter(path, compression) as writer:
        for _ in range(records):
            # Features one after another are merged: a map would be written in the order of its hash.
            parts = [tf.train.Features(feature={c.name: _feature(c, rng)}).SerializeToString() for c in columns]
            writer.write(
                tf.train.Example(features=tf.train.Features.FromString(b"")).SerializeToString() + _joined(parts)
            )


def _joined(parts: List[bytes]) -> bytes:
    content = b"".join(parts)
    size, varint = len(content), b""
    while size >= 0x80:
        varint += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"\x0a" + varint + bytes([size]) + content


def _feature(column: Column, rng: np.random.Generator) -> tf.train.Feature:
    low, high = column.length
    count = int(rng.integers(low, high + 1))
    if column.kind == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=rng.random(count) * column.below))
    ids = rng.integers(0, column.below, count, dtype=np.uint64).astype(np.int64)
    if column.kind == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%x" % i for i in ids.tolist()]))
