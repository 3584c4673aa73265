"""Serialized tf.train.SequenceExamples: a context of one id a feature, and histories with one value a step."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import data, example_data

KINDS = ("dense", "sparse", "ragged")


@dataclasses.dataclass(frozen=True)
class Sequences:
    """`values`: "small" ids below a million, "hashed" ones of 64 bits, "floats" or "strings"."""

    values: str
    steps: int
    context: int = 39
    histories: int = 3

    @property
    def name(self) -> str:
        return f"{self.histories}x{self.steps} {self.values}"

    @property
    def dtype(self) -> tf.DType:
        return {"floats": tf.float32, "strings": tf.string}.get(self.values, tf.int64)


SHAPES = tuple(
    Sequences(values, steps) for values in ("small", "hashed", "floats", "strings") for steps in (10, 50, 200)
)


def records(shape: Sequences, count: int, seed: int = 0) -> List[bytes]:
    """`count` records, each with all of its steps, and its keys in the same order."""
    random = np.random.default_rng(seed)
    contexts = example_data.Shape("context", {f"C{i}": 1 for i in range(shape.context)})
    made = []
    for context in example_data.records(contexts, count, seed):
        # Serialized one by one: of a map with several keys protobuf would choose the order.
        lists = b"".join(
            tf.train.FeatureLists(
                feature_list={f"H{i}": tf.train.FeatureList(feature=[_step(shape, random) for _ in range(shape.steps)])}
            ).SerializeToString()
            for i in range(shape.histories)
        )
        made.append(context + b"\x12" + example_data.varint(len(lists)) + lists)
    return made


def _step(shape: Sequences, random: np.random.Generator) -> tf.train.Feature:
    if shape.values == "floats":
        return tf.train.Feature(float_list=tf.train.FloatList(value=[random.random()]))
    ids = random.integers(0, 1_000_000, 1)
    if shape.values == "strings":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%08x" % ids[0]]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=data.keys_of(ids) if shape.values == "hashed" else ids))


def specs(shape: Sequences, kind: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(context_features, sequence_features) for tf.io.parse_sequence_example; the context is dense."""
    feature = {
        "dense": tf.io.FixedLenSequenceFeature([], shape.dtype),
        "sparse": tf.io.VarLenFeature(shape.dtype),
        "ragged": tf.io.RaggedFeature(shape.dtype),
    }[kind]
    context = {f"C{i}": tf.io.FixedLenFeature([], tf.int64) for i in range(shape.context)}
    return context, {f"H{i}": feature for i in range(shape.histories)}
