"""The models of random_ranks.py, by their settings."""

from __future__ import annotations

import zlib
from typing import Any, Callable, Dict, List, Tuple

import equal_training as equal
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column
ABSENT = -(2**40)  # In a padded list.
ROWS = 16  # Of an ordinary Variable.


def _normal(name: str) -> Any:
    """An initializer that depends on nothing but a name: ranks have other ops in their graphs than one process."""
    return v1.random_normal_initializer(stddev=0.3, seed=zlib.crc32(name.encode()))


def _sparse(ids: tf.Tensor, weights: tf.Tensor) -> Tuple[tf.SparseTensor, tf.SparseTensor]:
    there = tf.where(tf.not_equal(ids, ABSENT))
    shape = tf.shape(ids, tf.int64)
    return (
        tf.SparseTensor(there, tf.gather_nd(ids, there), shape),
        tf.SparseTensor(there, tf.gather_nd(weights, there), shape),
    )


class _Stores:
    """Tables and Variables by the feature that first asked for them."""

    def __init__(self) -> None:
        self._made: Dict[Any, List[Any]] = {}

    def of(self, f: Dict[str, Any]) -> Any:
        key = (f["store"], f["dim"], f["store"] == "table" and (f["min_frequency"], f["max_idle_steps"]))
        if f["shares"] and key in self._made:
            return self._made[key][-1]
        name = f"{f['store']}_{f['name']}"
        if f["store"] == "variable":
            made = v1.get_variable(name, [ROWS, f["dim"]], initializer=_normal(name))
        else:
            idle = f["max_idle_steps"]
            made = tf_booster.get_hash_table(
                name,
                f["dim"],
                initializer=tf.random_normal_initializer(stddev=0.3),
                min_frequency=f["min_frequency"],
                eviction={"max_idle_steps": idle} if idle else None,
            )
        self._made.setdefault(key, []).append(made)
        return made


def _column(f: Dict[str, Any]) -> Any:
    if f["store"] == "variable":
        return fc.categorical_column_with_identity(f["name"], ROWS)
    idle = f["max_idle_steps"]
    return tf_booster.feature_column.categorical_column_with_hash_table(
        f["name"], min_frequency=f["min_frequency"], eviction={"max_idle_steps": idle} if idle else None
    )


def _embedded(f: Dict[str, Any], features: Dict[str, tf.Tensor], stores: _Stores) -> tf.Tensor:
    """One feature as the model sees it: float32 [rows, …]."""
    name, ids = f["name"], features[f["name"]]
    if f["store"] == "variable":
        ids = tf.where(tf.equal(ids, ABSENT), ids, tf.math.floormod(ids, tf.constant(ROWS, tf.int64)))
    sparse, weights = _sparse(ids, features[f"{name}_weights"])
    if f["use"] in ("column", "linear"):
        seen = {name: sparse, f"{name}_weights": weights}
        column = fc.weighted_categorical_column(_column(f), f"{name}_weights") if f["weighted"] else _column(f)
        if f["use"] == "linear":
            return v1.feature_column.linear_model(seen, [column], sparse_combiner=f["combiner"])
        column = fc.embedding_column(column, f["dim"], f["combiner"], _normal(name), max_norm=f["max_norm"])
        return v1.feature_column.input_layer(seen, [column])
    store, table = stores.of(f), f["store"] == "table"
    if f["kind"] == "list":
        weights = weights if f["weighted"] else None
        if table:
            return tf_booster.embedding_lookup_sparse(store, sparse, weights, f["combiner"], f["max_norm"])
        return v1.nn.safe_embedding_lookup_sparse(store, sparse, weights, f["combiner"], max_norm=f["max_norm"])
    lookup = tf_booster.embedding_lookup if table else tf.nn.embedding_lookup
    if f["use"] == "unique":
        distinct, places = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(lookup(store, distinct, max_norm=f["max_norm"]), places)
        rows = tf.reshape(rows, [-1, ids.shape[1], f["dim"]])
    else:
        rows = lookup(store, ids, max_norm=f["max_norm"])
    return tf.reduce_sum(rows * features[f"{name}_weights"][:, :, None], 1) if f["weighted"] else rows[:, 0]


def _minimize(case: Dict[str, Any], loss: tf.Tensor) -> tf.Operation:
    """One optimizer, or one for the embeddings and another one for the rest."""
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(1.0, step, 3, 0.8) if case["decayed"] else 1.0
    first = equal.OPTIMIZERS[case["optimizer"]](rate)
    if case["second_optimizer"] is None:
        return equal.minimize(first, case["clip"], loss)
    second = equal.OPTIMIZERS[case["second_optimizer"]](rate)
    variables = v1.trainable_variables()
    gradients = equal.CLIPS[case["clip"]](tf.gradients(loss, variables))
    pairs = list(zip(gradients, variables))
    dense = [pair for pair in pairs if "dense" in pair[1].op.name]
    others = [pair for pair in pairs if "dense" not in pair[1].op.name]
    ops = []
    for optimizer, those in ((first, others), (second, dense)):
        if isinstance(optimizer, v1.train.Optimizer):
            ops.append(optimizer.apply_gradients(those))
        else:
            ops.append(optimizer.apply_gradients(those, experimental_aggregate_gradients=False))
    with tf.control_dependencies(ops):
        return v1.assign_add(step, 1).op


def _penalty(case: Dict[str, Any], inputs: List[tf.Tensor], reduce: Callable[..., tf.Tensor]) -> Any:
    if case["l2"] == "rows":
        return 1e-2 * tf.add_n([reduce(tf.reduce_sum(x * x, 1)) for x in inputs])
    if case["l2"] is None:
        return 0.0
    of_table = lambda v: v.shape.rank == 2 and v.shape[0] == 1
    kinds = {"dense": lambda v: "dense" in v.op.name, "all": lambda v: not of_table(v)}
    return 1e-2 * tf.add_n([tf.nn.l2_loss(v) for v in v1.trainable_variables() if kinds[case["l2"]](v)])


def model_fn_of(case: Dict[str, Any]) -> Callable[..., tf.estimator.EstimatorSpec]:
    """A model function over features of random_ranks.py and labels float32 [rows]."""
    reduce = tf.reduce_sum if case["loss"] == "sum" else tf.reduce_mean

    def model_fn(features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
        stores = _Stores()
        inputs = [_embedded(f, features, stores) for f in case["features"]]
        hidden = tf.concat([features["numbers"], *inputs], 1)
        for i, width in enumerate([*case["layers"], 1]):
            activation = tf.tanh if i < len(case["layers"]) else None
            hidden = v1.layers.dense(hidden, width, activation, kernel_initializer=_normal(f"{i}"), name=f"dense{i}")
        logits = hidden[:, 0]
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, {"logits": logits})
        loss = reduce(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        loss += _penalty(case, inputs, reduce)
        metrics = {"mean": v1.metrics.mean(logits), "auc": v1.metrics.auc(labels, tf.sigmoid(logits))}
        train_op = _minimize(case, loss) if mode == "train" else None
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op, metrics)

    return model_fn
