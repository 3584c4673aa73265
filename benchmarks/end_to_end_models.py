"""WDL, DeepFM and DLRM over 26 features with one id each, as people write them with TensorFlow's own layers and optimizers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from benchmarks.graph_models import Lookup, Shape

v1 = tf.compat.v1

FIELDS = 26
DIM = 16
HIDDEN = (128, 64)
SHAPE = Shape(tables=FIELDS, variables=0)  # What a Lookup needs to know: the rows of a table.
RATE = 0.05


def wdl(features: Dict[str, Any], lookup: Lookup) -> Tuple[tf.Tensor, Callable[[tf.Tensor, Any], List[tf.Operation]]]:
    """Wide: a weight for each id, by FTRL. Deep: embeddings and a tower, by Adagrad."""
    with v1.variable_scope("wide"):
        weights = [_embed(lookup, features, i, 1, FIELDS + i) for i in range(FIELDS)]
        wide = tf.add_n(weights) + _dense(features["numbers"], 1, "numbers")
    with v1.variable_scope("deep"):
        vectors = [_embed(lookup, features, i, DIM, i) for i in range(FIELDS)]
        deep = _dense(_tower(tf.concat([*vectors, features["numbers"]], 1)), 1, "logit")

    def train(loss: tf.Tensor, wrap: Callable[[Any], Any]) -> List[tf.Operation]:
        updates = []
        for scope, optimizer in (
            ("wide", v1.train.FtrlOptimizer(RATE)),
            ("deep", v1.train.AdagradOptimizer(RATE)),
        ):
            own = [variable for variable in v1.trainable_variables() if scope in variable.name.split("/")[0]]
            updates.append(wrap(optimizer).minimize(loss, var_list=own))
        return updates

    return wide + deep, train


def deepfm(
    features: Dict[str, Any], lookup: Lookup
) -> Tuple[tf.Tensor, Callable[[tf.Tensor, Any], List[tf.Operation]]]:
    """One embedding an id: its first column is the first-order weight, the others meet in pairs and in the tower."""
    embedded = tf.stack([_embed(lookup, features, i, 1 + DIM, i) for i in range(FIELDS)], 1)
    weights, vectors = tf.split(embedded, [1, DIM], axis=2)
    first = tf.reduce_sum(weights, 1) + _dense(features["numbers"], 1, "numbers")
    pairs = tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1)
    tower = _tower(tf.concat([tf.reshape(vectors, [-1, FIELDS * DIM]), features["numbers"]], 1))
    return first + 0.5 * tf.reduce_sum(pairs, 1, keepdims=True) + _dense(tower, 1, "logit"), _adagrad


def dlrm(
    features: Dict[str, Any], lookup: Lookup, order: Optional[Sequence[int]] = None
) -> Tuple[tf.Tensor, Callable[[tf.Tensor, Any], List[tf.Operation]]]:
    """All pairs of embeddings and of what the numbers become, as dot products, beside the numbers into the tower.

    order: of the DIM terms of each dot product, which changes nothing but how its sum is rounded.
    """
    bottom = _dense(_dense(features["numbers"], 64, "bottom", tf.nn.relu), DIM, "bottom_out", tf.nn.relu)
    vectors = tf.stack([bottom, *(_embed(lookup, features, i, DIM, i) for i in range(FIELDS))], 1)
    if order is not None:
        vectors = tf.gather(vectors, order, axis=2)
    dots = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, (FIELDS + 1) ** 2])
    pairs = [i * (FIELDS + 1) + j for i in range(FIELDS + 1) for j in range(i)]
    return _dense(_tower(tf.concat([bottom, tf.gather(dots, pairs, axis=1)], 1)), 1, "logit"), _adagrad


MODELS = {"wdl": wdl, "deepfm": deepfm, "dlrm": dlrm}


def build(
    model: str, features: Dict[str, Any], lookup: Lookup, wrap: Callable[[Any], Any], **kwargs: Any
) -> Tuple[Any, Any, Any]:
    """What a step runs (one op), its loss, and the logits before it. wrap: of an optimizer, as TFRA wants it. kwargs: the model's own."""
    logits, train = MODELS[model](features, lookup, **kwargs)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits))
    return tf.group(*train(loss, wrap)), loss, logits


def _adagrad(loss: tf.Tensor, wrap: Callable[[Any], Any]) -> List[tf.Operation]:
    return [wrap(v1.train.AdagradOptimizer(RATE)).minimize(loss)]


def _embed(lookup: Lookup, features: Dict[str, Any], field: int, dim: int, table: int) -> tf.Tensor:
    return lookup(SHAPE, f"C{table}", dim, features[f"C{field}"])


def _tower(x: tf.Tensor) -> tf.Tensor:
    for i, width in enumerate(HIDDEN):
        x = _dense(x, width, f"tower_{i}", tf.nn.relu)
    return x


def _dense(x: tf.Tensor, width: int, name: str, activation: Any = None) -> tf.Tensor:
    initializer = v1.glorot_uniform_initializer(seed=len(name))
    return v1.layers.dense(x, width, activation, kernel_initializer=initializer, name=name)
