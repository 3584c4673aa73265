"""A recommendation model with many tables and many small Variables: what graph rewriting is measured on.

Half of the features have one id, every fourth of the others a bag of ids; embeddings have two widths. Each goes through a dense layer of its own, then come a
shared tower and heads for several tasks. Nothing of it is large: its step is mostly the cost of running ops.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

DIMS = (8, 16)
BAG = 4  # Ids in a bag; every third place is empty.
NUM_NUMBERS = 13
OptimizerFn = Callable[[], Any]
Lookup = Callable[["Shape", str, int, Any], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Shape:
    """How large the model is. variables: dense ones; every layer has two."""

    tables: int
    variables: int
    rows: int = 10000

    @property
    def layers(self) -> int:
        return self.variables // 2


def batches(shape: Shape, batch: int, count: int = 4) -> List[Dict[str, np.ndarray]]:
    """Batches of ids below `rows` (Zipf's law), numbers and labels; -1 is no id."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(count):
        features = {}
        for i in range(shape.tables):
            size = (batch, BAG) if is_bag(i) else (batch, 1)
            features[f"C{i}"] = np.minimum(rng.zipf(1.2, size) - 1, shape.rows - 1).astype(np.int64)
            if is_bag(i):
                features[f"C{i}"][rng.random(size) < 0.33] = -1
        features["numbers"] = rng.normal(size=(batch, NUM_NUMBERS)).astype(np.float32)
        features["label"] = rng.integers(0, 2, (batch, 1)).astype(np.float32)
        found.append(features)
    return found


def is_bag(feature: int) -> bool:
    """Whether the feature has several ids an example."""
    return feature % 4 == 3


def input_of(data: List[Dict[str, np.ndarray]]) -> Dict[str, Any]:
    """The next batch, in turn, from memory; bags as SparseTensors."""
    stacked = {name: np.stack([b[name] for b in data]) for name in data[0]}
    dataset = tf.data.Dataset.from_tensor_slices(stacked).map(_sparse_bags).cache().repeat().prefetch(2)
    return v1.data.make_one_shot_iterator(dataset).get_next()


def _sparse_bags(features: Dict[str, Any]) -> Dict[str, Any]:
    def sparse(ids):
        where = tf.where(ids >= 0)
        return tf.SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, tf.int64))

    return {n: sparse(t) if n[0] == "C" and is_bag(int(n[1:])) else t for n, t in features.items()}


def column_lookup(make_column: Callable[[str, Shape], Any], stddev: Optional[float] = None) -> Lookup:
    """Lookups as TensorFlow's feature columns make them, over the categorical columns that `make_column` makes.

    stddev: of what embeddings begin with; feature columns' own, dim ** -0.5, by default.
    """

    def lookup(shape: Shape, name: str, dim: int, ids: Any) -> tf.Tensor:
        initializer = v1.truncated_normal_initializer(0.0, stddev or dim**-0.5, seed=int(name[1:]))
        column = tf.feature_column.embedding_column(make_column(name, shape), dim, "mean", initializer)
        return v1.feature_column.input_layer({name: ids}, [column])

    return lookup


def build(shape: Shape, features: Dict[str, Any], lookup: Lookup, optimizer: Any) -> Tuple[tf.Operation, tf.Tensor]:
    """The train op and the loss."""
    layers = iter(range(shape.layers))
    embedded = []
    for i in range(shape.tables):
        rows = lookup(shape, f"C{i}", DIMS[i % 2], features[f"C{i}"])
        embedded.append(_dense(rows, 8, next(layers), tf.nn.relu) if i < shape.layers - 8 else rows)
    hidden = tf.concat([*embedded, features["numbers"]], 1)
    for width in (64, 32, 16):
        hidden = _dense(hidden, width, next(layers), tf.nn.relu)
    logits = [_dense(hidden, 1, layer, None) for layer in layers]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=tf.add_n(logits)))
    return optimizer.minimize(loss, v1.train.get_or_create_global_step()), loss


def _dense(x: tf.Tensor, width: int, layer: int, activation: Any) -> tf.Tensor:
    with v1.variable_scope(f"layer_{layer}"):
        initializer = v1.glorot_uniform_initializer(seed=layer)
        kernel = v1.get_variable("kernel", [x.shape[1], width], initializer=initializer, use_resource=True)
        bias = v1.get_variable("bias", [width], initializer=v1.zeros_initializer(), use_resource=True)
        y = tf.nn.bias_add(tf.matmul(x, kernel), bias)
        return y if activation is None else activation(y)
