"""An Estimator with tables of all kinds, which trains with increments, is exported and served: for tests of these."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
NAMES = ("user_emb", "item_emb", "deep/tag_emb")


def model_fn(features, labels, mode, params):
    tables = [
        tf_booster.get_hash_table("user_emb", 5, seed=3, eviction={"max_idle_steps": params.get("idle", 6)}),
        tf_booster.get_hash_table("item_emb", 5, seed=4, min_frequency=2),
    ]
    with v1.variable_scope("deep"):
        tables.append(tf_booster.get_hash_table("tag_emb", 3, seed=5, key_dtype=tf.string))
    ids = (features["user"], features["item"], features["tag"])
    rows = [tf_booster.embedding_lookup(table, i) for table, i in zip(tables, ids)]
    trained = not params.get("only_tables")
    kernel = v1.get_variable("kernel", [13, 1], initializer=v1.ones_initializer(), trainable=trained)
    parts = v1.get_variable("parts", [7, 13], partitioner=tf.compat.v1.fixed_size_partitioner(2), trainable=trained)
    joined = tf.concat(rows, 1) + tf.nn.embedding_lookup(parts, features["item"] % 7)
    logit = tf.matmul(joined, kernel)[:, 0]
    average = tf.train.ExponentialMovingAverage(0.5) if params.get("average") else None
    predictions = {"logit": logit, **{f"{name}_rows": r for name, r in zip(("user", "item", "tag"), rows)}}
    outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        scaffold = None
        if average is not None:
            listed = {average.average_name(kernel): kernel, "parts": parts, "global_step": v1.train.get_global_step()}
            listed.update({table.name: table.variable for table in tables})
            scaffold = v1.train.Scaffold(saver=v1.train.Saver(listed))
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs, scaffold=scaffold)
    loss = tf.reduce_mean(tf.square(logit - labels))
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    if average is not None:
        with tf.control_dependencies([train_op]):
            train_op = average.apply([kernel])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def batches(first, last, rank=0, size=1):
    """Batches of the steps first + 1 to last, 24 rows over all ranks; ids wander, so that old ones become idle."""
    random = np.random.RandomState(1)
    users = random.zipf(1.5, [100, 24]) % 30 - 3 + np.arange(100)[:, None]
    items = random.zipf(1.3, [100, 24]) % 50 - 3
    part = slice(rank * 24 // size, (rank + 1) * 24 // size)
    users, items = users[first:last, part].astype(np.int64), items[first:last, part].astype(np.int64)
    tags = np.char.add("tag ", (users % 11).astype(str)).astype(object)
    features = {"user": users, "item": items, "tag": tags}
    return tf.data.Dataset.from_tensor_slices((features, (users % 2).astype(np.float32)))


def receiver():
    """Features of a request, as they are."""
    ids = {name: v1.placeholder(tf.int64, [None], name) for name in ("user", "item")}
    ids["tag"] = v1.placeholder(tf.string, [None], "tag")
    return tf.estimator.export.ServingInputReceiver(ids, ids)


class Job:
    """A training in a folder, some steps at a time."""

    def __init__(self, folder, save_steps=1000, max_to_keep=0, every=4, **params):
        self.folder, self.increments = str(folder), os.path.join(str(folder), "increments")
        config = tf.estimator.RunConfig(tf_random_seed=6, save_checkpoints_steps=save_steps)
        self.estimator = tf.estimator.Estimator(model_fn, os.path.join(self.folder, "model"), config, params)
        self._hook = lambda: tf_booster.IncrementHook(self.increments, save_steps=every, max_to_keep=max_to_keep)

    def train(self, first, last, hooks=(), increments=True):
        hooks = [*hooks, self._hook()] if increments else list(hooks)
        self.estimator.train(lambda: batches(first, last), hooks=hooks)

    def export(self):
        return self.estimator.export_saved_model(os.path.join(self.folder, "exports"), receiver).decode()


class Served:
    """An export as one process serves it, by a session or by what tf.saved_model.load gives."""

    def __init__(self, path, by_session):
        self._features = {
            "user": np.arange(-5, 130, dtype=np.int64),
            "item": np.arange(-5, 130, dtype=np.int64) % 60,
            "tag": np.array([f"tag {i % 12}" for i in range(135)], object),
        }
        if by_session:
            self.model = v1.Session(graph=tf.Graph())
            with self.model.graph.as_default():
                loaded = v1.saved_model.load(self.model, ["serve"], path)
            self._signature = loaded.signature_def["serving_default"]
        else:
            self.model = tf.saved_model.load(path)

    def apply(self, directory):
        return tf_booster.apply_increments(self.model, directory)

    def apply_one(self, directory, number):
        prefix = f"{directory}/increment-{number}"
        if isinstance(self.model, v1.Session):
            return self.model.run("tf_booster_increment/rows:0", {"tf_booster_increment/path:0": prefix})
        return int(self.model.signatures["apply_increment"](path=tf.constant(prefix))["rows"])

    def predict(self):
        if isinstance(self.model, v1.Session):
            feeds = {self._signature.inputs[name].name: ids for name, ids in self._features.items()}
            return self.model.run({name: out.name for name, out in self._signature.outputs.items()}, feeds)
        outputs = self.model.signatures["serving_default"](**{n: tf.constant(v) for n, v in self._features.items()})
        return {name: out.numpy() for name, out in outputs.items()}


def same(one, other):
    """Whether two predictions are equal, bit for bit."""
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def increment(directory, number):
    """The tensors of an increment."""
    reader = tf.train.load_checkpoint(f"{directory}/increment-{number}")
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
