"""Serialized tf.train.Examples as recommendation models have them, to parse."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf

from benchmarks import data

KINDS = ("fixed", "sparse", "ragged")


@dataclasses.dataclass(frozen=True)
class Shape:
    """Records of one shape. `lengths`: values of each feature; of the last `varied` features, at most."""

    name: str
    lengths: Dict[str, int]
    values: str = "small"  # Ids below a million, "hashed" ones of 64 bits, or "strings".
    shuffled: bool = False  # Each record has its keys in an order of its own.
    floats: int = 0  # So many features, the first ones, are floats.
    varied: int = 0


def _names(count: int) -> List[str]:
    return [f"C{i}" for i in range(1, count + 1)]


SHAPES = (
    Shape("39x1", dict.fromkeys(_names(39), 1)),
    Shape("39x1-64bit", dict.fromkeys(_names(39), 1), values="hashed"),
    Shape("shuffled", dict.fromkeys(_names(39), 1), shuffled=True),
    Shape("26x20", dict.fromkeys(_names(26), 20)),
    Shape("26x0-40", dict.fromkeys(_names(26), 40), varied=26),
    Shape("8x200", dict.fromkeys(_names(8), 200)),
    Shape("strings", dict.fromkeys(_names(39), 1), values="strings"),
    Shape(
        "mixed",
        {
            "label": 1,
            **dict.fromkeys([f"I{i}" for i in range(1, 14)], 1),
            **dict.fromkeys(_names(26), 1),
            **dict.fromkeys(["clicked_items", "clicked_shops", "viewed_items"], 40),
        },
        values="hashed",
        floats=14,
        varied=3,
    ),
)


def records(shape: Shape, count: int, seed: int = 0) -> List[bytes]:
    """`count` records of the shape, each serialized by protobuf with its keys in one order, or shuffled."""
    random = np.random.default_rng(seed)
    names = list(shape.lengths)
    made = []
    for _ in range(count):
        order = random.permutation(len(names)) if shape.shuffled else range(len(names))
        record = b""
        for i in order:
            length = shape.lengths[names[i]]
            if i >= len(names) - shape.varied:
                length = int(random.integers(0, length + 1))
            feature = _feature(shape, i, length, random)
            # Examples one after another are one; protobuf itself orders a map by its hash.
            record += tf.train.Example(
                features=tf.train.Features(feature={names[i]: feature})
            ).features.SerializeToString()
        made.append(tf.train.Example().SerializeToString() + b"\n" + varint(len(record)) + record)
    return made


def _feature(shape: Shape, index: int, length: int, random: np.random.Generator) -> tf.train.Feature:
    if index < shape.floats:
        return tf.train.Feature(float_list=tf.train.FloatList(value=random.random(length)))
    ids = random.integers(0, 1_000_000, length)
    if shape.values == "strings":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%08x" % i for i in ids]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=data.keys_of(ids) if shape.values == "hashed" else ids))


def varint(value: int) -> bytes:
    """A protobuf length."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def spec(shape: Shape, kind: str) -> Dict[str, Any]:
    """A feature spec for tf.io.parse_example: fixed lengths where records have them, or all sparse, or all ragged."""
    made = {}
    for index, (name, length) in enumerate(shape.lengths.items()):
        dtype = tf.float32 if index < shape.floats else tf.string if shape.values == "strings" else tf.int64
        if kind == "fixed" and index < len(shape.lengths) - shape.varied:
            made[name] = tf.io.FixedLenFeature([length], dtype)
        elif kind == "ragged":
            made[name] = tf.io.RaggedFeature(dtype)
        else:
            made[name] = tf.io.VarLenFeature(dtype)
    return made
