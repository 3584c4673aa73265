"""Trains programs with hash tables on several ranks, and in one process with their batches joined."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import equal_training as equal
import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster import _native
from tf_booster.checkpoint import layout
from tf_booster.embedding import registry
from tf_booster.report import report_of

v1 = tf.compat.v1
column = tf_booster.feature_column.categorical_column_with_hash_table

STEPS = 12
INT64 = np.iinfo(np.int64)


def records(size: int, steps: int = STEPS, batch: int = equal.BATCH) -> Dict[str, np.ndarray]:
    """[steps, size · batch, …]: the joined batch of each step. "empty" has ids on rank 0 alone, "six" has six, "one_owner" one."""
    rng = np.random.RandomState(11)
    shape = [steps, size * batch]
    tags = np.where(rng.rand(*shape, 3) < 0.6, rng.randint(1, 15, [*shape, 3]), -1)
    empty = np.where(np.arange(shape[1]) < batch, rng.randint(0, 9, shape), -1)[..., None]
    extreme = rng.choice([INT64.min, INT64.min + 1, -1, 0, 1, INT64.max], shape)
    return {
        "id": rng.randint(-10, 20, shape).astype(np.int64),
        "other_id": rng.randint(-10, 20, shape).astype(np.int64),
        "rare": (rng.zipf(1.3, shape) % 40).astype(np.int64),
        "extreme": extreme.astype(np.int64),
        "six": rng.randint(0, 6, shape).astype(np.int64),
        "one_owner": np.full(shape, 77, np.int64),
        "tags": tags.astype(np.int64),
        "empty": empty.astype(np.int64),
        "label": (rng.rand(*shape) < 0.4).astype(np.float32),
    }


def sparse(feature: tf.Tensor) -> tf.SparseTensor:
    """Of [batch, n] the entries that are not −1."""
    there = tf.where(tf.not_equal(feature, -1))
    return tf.SparseTensor(there, tf.gather_nd(feature, there), tf.shape(feature, tf.int64))


def table(name: str, dim: int, **settings: Any) -> tf_booster.HashTable:
    return tf_booster.get_hash_table(name, dim, initializer=tf.random_normal_initializer(stddev=0.3), **settings)


def logits_of(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """Every kind of lookup: ids as they are, sparse ids, one table by both, columns, shared and linear ones."""
    lookup, bag = tf_booster.embedding_lookup, tf_booster.embedding_lookup_sparse
    user, mixed = table("user", 4), table("mixed", 4)
    parts = [
        lookup(user, features["id"]),
        lookup(user, features["other_id"]),
        bag(table("tags", 4), sparse(features["tags"]), combiner="sum"),
        lookup(mixed, features["id"]),
        bag(mixed, sparse(features["tags"]), combiner="mean"),
        lookup(table("rare", 6, min_frequency=3), features["rare"]),
        lookup(table("extreme", 6), features["extreme"]),
        lookup(table("six", 6), features["six"]),
        lookup(table("one_owner", 6), features["one_owner"]),
    ]
    columns = {"tags": sparse(features["tags"]), "id": features["id"][:, None], "empty": sparse(features["empty"])}
    shared = tf.feature_column.shared_embeddings([column("tags"), column("id")], 4)
    parts.append(v1.feature_column.input_layer(columns, [tf.feature_column.embedding_column(column("empty"), 4)]))
    parts.append(tf.keras.layers.DenseFeatures(shared)(columns))
    linear = v1.feature_column.linear_model(columns, [column("tags"), column("id")])
    hidden = v1.layers.dense(tf.concat(parts, 1), 5, tf.tanh)
    return v1.layers.dense(hidden, 1)[:, 0] + linear[:, 0]


def mean_loss(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits_of(features)))


def with_v1_control_flow(build: Callable[..., Any]) -> Callable[..., Any]:
    """As in programs that call disable_v2_behavior: the branches of a tf.cond are in the graph."""

    def built(features: Dict[str, tf.Tensor]) -> Any:
        v1.disable_control_flow_v2()
        try:
            return build(features)
        finally:
            v1.enable_control_flow_v2()

    return built


def train(build: Callable[[Dict[str, tf.Tensor]], Any], data: Dict[str, Any]) -> Dict[str, Any]:
    """Trains what `build(features)` -> (loss, train_op) makes on data[name][step], and returns this rank's {"losses", "variables", "tables", "report"}."""
    tf.keras.utils.set_random_seed(7)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(5)
        fed = {
            name: v1.placeholder(steps[0].dtype, [None, *steps[0].shape[1:]][: steps[0].ndim], f"fed_{name}")
            for name, steps in data.items()
        }
        loss, train_op = build(fed)
        tf_booster.rewrite_graph(graph)
        tables = {name: _own_rows(entry) for name, entry in registry.rewritten(graph).items()}
        with v1.Session(config=v1.ConfigProto(intra_op_parallelism_threads=1, allow_soft_placement=True)) as session:
            session.run(v1.global_variables_initializer())
            losses = [
                session.run([loss, train_op], {fed[name]: data[name][step] for name in fed})[0]
                for step in range(len(data["id"]))
            ]
            found = session.run({v.op.name: v for v in v1.global_variables()})
            contents = session.run(tables)
        report = report_of(graph).to_dict()
    return {"losses": np.array(losses), "variables": found, "tables": contents, "report": report}


def _own_rows(entry: registry.RewrittenTable) -> Dict[str, Any]:
    exported = _native.ops().tf_booster_table_export(entry.handle, dim=entry.spec.dim, S=len(entry.slot_names), N=1)
    (out,) = layout.tables_of(exported)
    rows = {"values": out.values, "frequencies": out.frequencies, "last_use_steps": out.last_use_steps}
    rows.update({f"slot {i}": slot for i, slot in enumerate(out.slots)})
    return {"keys": out.keys, "rows": rows, "pending": (out.pending_keys, out.pending_counts), "step": out.step}


def alone(build: Callable[[Dict[str, tf.Tensor]], Any], data: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """train() in this process alone."""
    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster(horovod=False, **options)
    try:
        return train(build, data)
    finally:
        tf_booster.disable_gpu_booster()


def differences(joined: Dict[str, Any], ranks: List[Dict[str, Any]], total: str = "mean") -> Dict[str, str]:
    """What of the ranks' losses, Variables and tables is not that of the one process, and how far off."""
    wrong: Dict[str, str] = {}
    losses = np.array([rank["losses"] for rank in ranks])
    losses = losses.mean(0) if total == "mean" else losses.sum(0)
    _note(wrong, "losses", losses, joined["losses"])
    for name, want in joined["variables"].items():
        for rank in ranks:
            _note(wrong, name, rank["variables"][name], want)
    for name, want in joined["tables"].items():
        parts = [rank["tables"][name] for rank in ranks]
        keys = np.concatenate([part["keys"] for part in parts])
        if sorted(keys.tolist()) != sorted(want["keys"].tolist()):
            wrong[name] = f"keys {sorted(keys.tolist())}, wanted {sorted(want['keys'].tolist())}"
            continue
        if any(part["step"] != want["step"] for part in parts):
            wrong[name] = f"steps {[part['step'] for part in parts]}, wanted {want['step']}"
        order, wanted_order = np.argsort(keys), np.argsort(want["keys"])
        for what, rows in want["rows"].items():
            found = np.concatenate([part["rows"][what] for part in parts])[order]
            _note(wrong, f"{name} {what}", found, rows[wanted_order])
        pending = sorted(pair for part in parts for pair in zip(*(p.tolist() for p in part["pending"])))
        if pending != sorted(zip(*(p.tolist() for p in want["pending"]))):
            wrong[name] = f"pending {pending}, wanted {sorted(zip(*(p.tolist() for p in want['pending'])))}"
    return wrong


def _note(wrong: Dict[str, str], name: str, found: Any, want: Any) -> None:
    far = equal.distance(found, want)
    if not far <= 1e-5:
        wrong[name] = f"{far:.2e}"
