"""Trains programs on several ranks with batch B, and plain TensorFlow in one process with their batches joined; compares both."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster.report import report_of

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy

BATCH, STEPS = 8, 50  # A rank's batch.
NUM_IDS, NUM_TAGS, MAX_TAGS = 30, 12, 3

OPTIMIZERS = {
    "sgd": lambda rate=1.0: v1.train.GradientDescentOptimizer(0.1 * rate),
    "momentum": lambda rate=1.0: v1.train.MomentumOptimizer(0.02 * rate, 0.9, use_nesterov=True),
    "adagrad": lambda rate=1.0: v1.train.AdagradOptimizer(0.1 * rate),
    "adam": lambda rate=1.0: v1.train.AdamOptimizer(0.01 * rate),
    "ftrl": lambda rate=1.0: v1.train.FtrlOptimizer(
        0.1 * rate, l1_regularization_strength=1e-3, l2_regularization_strength=1e-3
    ),
    "rmsprop": lambda rate=1.0: v1.train.RMSPropOptimizer(0.01 * rate, momentum=0.5),
    "keras sgd": lambda rate=1.0: keras.SGD(0.1 * rate),
    "keras momentum": lambda rate=1.0: keras.SGD(0.02 * rate, 0.9),
    "keras adagrad": lambda rate=1.0: keras.Adagrad(0.1 * rate),
    "keras adam": lambda rate=1.0: keras.Adam(0.01 * rate),
    "keras ftrl": lambda rate=1.0: keras.Ftrl(0.1 * rate),
    "keras rmsprop": lambda rate=1.0: keras.RMSprop(0.01 * rate),
}


def by_value(gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.clip_by_value(gradient.values, -0.01, 0.01), gradient.indices, gradient.dense_shape)
    return tf.clip_by_value(gradient, -0.01, 0.01)


def by_norm_of_rows(gradient: Any) -> Any:
    return tf.clip_by_norm(gradient, 0.02, axes=[1]) if isinstance(gradient, tf.IndexedSlices) else gradient


CLIPS: Dict[str, Callable[[List[Any]], List[Any]]] = {
    "none": lambda gradients: gradients,
    "value": lambda gradients: [by_value(g) for g in gradients],
    "norm": lambda gradients: [tf.clip_by_norm(g, 0.02) for g in gradients],
    "global norm": lambda gradients: tf.clip_by_global_norm(gradients, 0.05)[0],
    "norm of each row": lambda gradients: [by_norm_of_rows(g) for g in gradients],
}


def records(ranks: int, steps: int = STEPS) -> Dict[str, np.ndarray]:
    """[steps, ranks · BATCH, …]: the joined batch of each step; rank r has the r-th part of its rows. Some lists of tags are empty."""
    rng = np.random.RandomState(3)
    shape = [steps, ranks * BATCH]
    lengths = rng.randint(0, MAX_TAGS + 1, [*shape, 1])
    tags = np.where(np.arange(MAX_TAGS) < lengths, rng.randint(0, NUM_TAGS, [*shape, MAX_TAGS]), -1)
    ids = rng.zipf(1.4, shape) % NUM_IDS
    numbers = rng.randn(*shape, 3)
    labels = rng.rand(*shape) < 1 / (1 + np.exp(-numbers[..., 0] - np.sin(ids)))
    return {
        "numbers": numbers.astype(np.float32),
        "id": ids.astype(np.int64),
        "other_id": rng.randint(0, NUM_IDS, shape).astype(np.int64),
        "tags": tags.astype(np.int64),
        "label": labels.astype(np.float32),
    }


def part(data: Dict[str, np.ndarray], rank: int, size: int) -> Dict[str, np.ndarray]:
    """The rows of `rank` in each joined batch; all for one of one."""
    rows = len(data["id"][0]) // size
    return {name: values[:, rank * rows : (rank + 1) * rows] for name, values in data.items()}


def logits_of(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """Dense layers over numbers, over two lookups of one Variable, and over lists of tags, whose ids the lookup makes distinct."""
    ids = v1.get_variable("ids", [NUM_IDS, 5])
    tags = v1.get_variable("tags", [NUM_TAGS, 5])
    there = tf.where(features["tags"] >= 0)
    bag = tf.SparseTensor(there, tf.gather_nd(features["tags"], there), tf.shape(features["tags"], tf.int64))
    hidden = tf.concat(
        [
            features["numbers"],
            tf.nn.embedding_lookup(ids, features["id"]),
            tf.nn.embedding_lookup(ids, features["other_id"]),
            tf.nn.safe_embedding_lookup_sparse(tags, bag, combiner="mean"),
        ],
        1,
    )
    for width in (13, 7):
        hidden = v1.layers.dense(hidden, width, tf.tanh)
    return v1.layers.dense(hidden, 1)[:, 0]


def minimize(optimizer: Any, clip: str, loss: tf.Tensor) -> tf.Operation:
    """The train op of either kind of optimizer, with clipping between gradient and update; counts global_step."""
    step = v1.train.get_or_create_global_step()
    variables = v1.trainable_variables()
    if isinstance(optimizer, v1.train.Optimizer):
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        return optimizer.apply_gradients(zip(CLIPS[clip](list(gradients)), variables), global_step=step)
    optimizer.iterations = step
    gradients = CLIPS[clip](tf.gradients(loss, variables))
    return optimizer.apply_gradients(zip(gradients, variables), experimental_aggregate_gradients=False)


def train(build: Callable[[Dict[str, tf.Tensor]], Any], data: Dict[str, np.ndarray]) -> Dict[str, Any]:
    """Trains what `build(features)` -> (loss, train_op) makes, in a MonitoredTrainingSession on one thread.

    Returns {"losses", "variables", "initial", "step", "report"}.
    """
    tf.keras.utils.set_random_seed(7)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(5)
        fed = {name: v1.placeholder(values.dtype, [None, *values.shape[2:]], name) for name, values in data.items()}
        loss, train_op = build(fed)
        losses = []
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.train.MonitoredTrainingSession(config=config) as session:
            variables = {v.op.name: v for v in v1.global_variables()}
            initial = session.run(variables)
            for step in range(len(data["id"])):
                losses.append(session.run([loss, train_op], {fed[name]: data[name][step] for name in fed})[0])
            found = session.run(variables)
        report = report_of(graph)
    return {
        "losses": np.array(losses),
        "initial": initial,
        "variables": found,
        "step": found["global_step"],
        "report": report.to_dict() if report else None,
    }


def distance(a: Any, b: Any) -> float:
    """The norm of a − b over the norm of b."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    difference = np.linalg.norm(a - b)
    return 0.0 if difference == 0 else float(difference / max(np.linalg.norm(b), 1e-30))


def reordered(data: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The same joined batches with their rows in another order: the plain program's sums in another order."""
    order = np.random.RandomState(99).permutation(data["id"].shape[1])
    return {name: values[:, order] for name, values in data.items()}


def worst(joined: Dict[str, Any], ranks: List[Dict[str, Any]], noise: Dict[str, Any]) -> str:
    """ "" if all ranks end with the Variables of the one process, else which is not, and how far it is. Losses are compared by their mean.

    The bound is 1e-5, or twice what the plain program shows when the rows of its batches come in another order.
    """
    for name, want in joined["variables"].items():
        allowed = max(1e-5, 2 * distance(noise["variables"][name], want))
        for rank, found in enumerate(ranks):
            far = distance(found["variables"][name], want)
            if not far <= allowed:
                return f"'{name}' of rank {rank}: {far:.2e}, allowed are {allowed:.2e}"
    for rank, found in enumerate(ranks):
        for name, value in found["variables"].items():
            if not np.array_equal(value, ranks[0]["variables"][name]):
                return f"'{name}' is not the same on ranks 0 and {rank}"
    losses = np.mean([found["losses"] for found in ranks], axis=0)
    scale = max(1.0, float(np.abs(joined["losses"]).max()))
    allowed = max(1e-5 * scale, 2 * float(np.abs(noise["losses"] - joined["losses"]).max()))
    far = float(np.abs(losses - joined["losses"]).max())
    return "" if far <= allowed else f"losses: {far:.2e}, allowed are {allowed:.2e}"


def reference(
    train_one: Callable[[Dict[str, np.ndarray]], Any], data: Dict[str, np.ndarray], *mine: Dict[str, Any]
) -> Any:
    """(joined, noise) of plain TensorFlow on all of `data`; joined twice where all of `mine` are so close that noise does not matter."""
    joined = train_one(data)
    far = max(distance(one["variables"][name], want) for one in mine for name, want in joined["variables"].items())
    return joined, joined if far <= 1e-5 else train_one(reordered(data))


def plain(build: Callable[[Dict[str, tf.Tensor]], Any], data: Dict[str, np.ndarray]) -> Dict[str, Any]:
    """train() without tf_booster."""
    options = tf_booster.enable.enabled_options()
    tf_booster.disable_gpu_booster()
    try:
        return train(build, data)
    finally:
        if options is not None:
            tf.enable_gpu_booster(**vars(options))


class LossRecorder(v1.train.SessionRunHook):
    """Notes what the Estimator calls the loss, at every step."""

    def begin(self) -> None:
        self.losses: List[Any] = []
        self._loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(run_values.results)


class _Recorder(LossRecorder):
    """And all global Variables at the beginning and at the end."""

    def begin(self) -> None:
        super().begin()
        self.graph = v1.get_default_graph()
        self._variables = {v.op.name: v for v in v1.global_variables()}

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.initial = session.run(self._variables)

    def end(self, session: Any) -> None:
        self.variables = session.run(self._variables)


def train_estimator(
    make: Callable[[Any], tf.estimator.Estimator], data: Dict[str, np.ndarray], folder: str
) -> Dict[str, Any]:
    """As train(), of `make(config)`; its input function yields the batches of `data` one by one."""
    tf.keras.utils.set_random_seed(7)
    config = tf.estimator.RunConfig(
        folder,
        tf_random_seed=7,
        session_config=v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1),
        save_summary_steps=None,
        save_checkpoints_secs=None,
    )
    labels = data["label"]
    features = {name: values for name, values in data.items() if name != "label"}
    recorder = _Recorder()
    estimator = make(config)
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices((features, labels)), hooks=[recorder])
    report = report_of(recorder.graph)
    return {
        "losses": np.array(recorder.losses),
        "initial": recorder.initial,
        "variables": recorder.variables,
        "step": recorder.variables["global_step"],
        "report": report.to_dict() if report else None,
    }
