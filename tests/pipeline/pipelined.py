"""A small program with tables of every kind, trained with and without the embedding pipeline."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster.report import Report, report_of

v1 = tf.compat.v1

TABLES = {
    "plain": {},
    "filtered": {"min_frequency": 3},
    "small": {"eviction": {"max_rows": 12, "order": "lru"}},
    "idle": {"eviction": {"max_idle_steps": 2}},
    "frequent": {"eviction": {"max_rows": 9, "order": "lfu"}, "min_frequency": 2},
}
ROWS, TAGS = 8, 3
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.3),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.3),
    "adam": lambda: v1.train.AdamOptimizer(0.05),
}


def batch(step: int) -> Dict[str, np.ndarray]:
    """The batch of a step: ids of a hot and a growing part, lists of tags, numbers, labels."""
    rng = np.random.RandomState(step)
    hot = rng.randint(0, 15, [ROWS, len(TABLES)])
    fresh = rng.randint(10 * step, 10 * step + 40, hot.shape)
    return {
        "ids": np.where(rng.rand(*hot.shape) < 0.6, hot, fresh).astype(np.int64),
        "tags": np.where(rng.rand(ROWS, TAGS) < 0.3, -1, rng.randint(0, 20, [ROWS, TAGS])).astype(np.int64),
        "numbers": rng.randn(ROWS, 2).astype(np.float32),
        "label": rng.rand(ROWS, 1).astype(np.float32),
        "step": np.int64(step),
    }


def dataset(steps: int, read: Callable[[int], Dict[str, np.ndarray]] = batch) -> tf.data.Dataset:
    """The batches of `steps` steps; `read` makes each, when tf.data asks for it."""

    def batches() -> Iterator[Dict[str, np.ndarray]]:
        for step in range(steps):
            yield read(step)

    one = batch(0)
    signature = {
        name: tf.TensorSpec([None, *value.shape[1:]] if value.ndim else [], value.dtype) for name, value in one.items()
    }
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def loss_of(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """A scalar loss of lookups in all of TABLES, one of them of lists, and of an ordinary embedding."""
    tables = [tf_booster.get_hash_table(name, 4, seed=5, **settings) for name, settings in TABLES.items()]
    parts = [tf_booster.embedding_lookup(table, features["ids"][:, i]) for i, table in enumerate(tables)]
    tags = tf.sparse.from_dense(features["tags"] + 1)
    tags = tf.SparseTensor(tags.indices, tags.values - 1, tags.dense_shape)
    parts.append(tf_booster.embedding_lookup_sparse(tables[0], tags, combiner="mean"))
    words = v1.get_variable("words", [20, 4])
    parts.append(tf.nn.embedding_lookup(words, tf.math.floormod(features["ids"][:, 0], 20)))
    parts.append(tf.math.log1p(tf.abs(features["numbers"])) * 0.5)
    inputs = tf.concat(parts, 1)
    hidden = tf.nn.tanh(inputs @ v1.get_variable("hidden", [inputs.shape[1], 8]))
    return tf.reduce_mean(tf.square(hidden @ v1.get_variable("output", [8, 1]) - features["label"]))


def model_fn(
    features: Dict[str, tf.Tensor], labels: Any, mode: str, params: Dict[str, Any]
) -> tf.estimator.EstimatorSpec:
    """`loss_of` as an Estimator's model."""
    del labels
    loss = loss_of(features)
    train = OPTIMIZERS[params.get("optimizer", "adagrad")]().minimize(loss, v1.train.get_global_step())
    if mode != tf.estimator.ModeKeys.TRAIN:
        train = None
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


class Recorder(v1.train.SessionRunHook):
    """Notes at each step what tensors of the input and of the model are, by several ways of asking for them."""

    def __init__(self) -> None:
        self.seen: List[List[np.ndarray]] = []

    def begin(self) -> None:
        self.graph = v1.get_default_graph()
        is_source = lambda op: op.type == "IteratorGetNext" and self.graph.is_fetchable(op)
        source = next(filter(is_source, self.graph.get_operations()))
        loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]
        self._global_step = v1.train.get_or_create_global_step()
        # Tensors of the input itself, by object and by name, one that is computed from it, and the model's.
        self._fetches = [source.outputs[0], source.outputs[4].name, tf.reduce_sum(source.outputs[1]), loss]

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        # The counter in a run of its own: fetched beside the train op it would be read before or after, as it happens.
        values = [*run_values.results, run_context.session.run(self._global_step)]
        self.seen.append([np.asarray(value) for value in values])


@contextlib.contextmanager
def booster(pipeline: str, **options: Any) -> Iterator[None]:
    """tf_booster on inside, off after."""
    tf_booster.enable_gpu_booster(pipeline=pipeline, **options)
    try:
        yield
    finally:
        tf_booster.disable_gpu_booster()


def train(pipeline: str, folder: Any, input_fn: Callable[[], tf.data.Dataset], steps: Any = None, **kwargs: Any) -> Any:
    """Trains an Estimator: (what a Recorder saw, the Report). `kwargs`: hooks, optimizer, and what a RunConfig takes."""
    recorder = Recorder()
    hooks = [recorder, *kwargs.pop("hooks", [])]
    params = {"optimizer": kwargs.pop("optimizer", "adagrad")}
    config = tf.estimator.RunConfig(
        str(folder), tf_random_seed=7, save_summary_steps=kwargs.pop("summaries", None), **kwargs
    )
    with booster(pipeline):
        tf.estimator.Estimator(model_fn, config=config, params=params).train(input_fn, hooks=hooks, max_steps=steps)
    return recorder.seen, report_of(recorder.graph)


def entries(folder: Any) -> Dict[str, np.ndarray]:
    """All of the last checkpoint; rows of tables by their keys, since a restored table has them in another order."""
    reader = tf.train.load_checkpoint(str(folder))
    found = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for keys, others in (
        ("keys", ("values", "slots", "frequencies", "last_use_steps")),
        ("pending_keys", ("pending_counts",)),
    ):
        for table in TABLES:
            order = np.argsort(found[f"{table}/{keys}"])
            for name in found:
                if name.startswith(tuple(f"{table}/{of}" for of in (keys, *others))):
                    found[name] = found[name][order]
    return found


def assert_same(one: List[List[np.ndarray]], other: List[List[np.ndarray]]) -> None:
    """Bit for bit, step by step."""
    assert len(one) == len(other)
    for step, (a, b) in enumerate(zip(one, other)):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y, err_msg=f"step {step}")


def assert_same_entries(one: Dict[str, np.ndarray], other: Dict[str, np.ndarray]) -> None:
    """Bit for bit."""
    assert sorted(one) == sorted(other)
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def pipeline_pass(report: Report) -> Dict[str, Any]:
    """What the report says of the pass."""
    return next(p for p in report.to_dict()["passes"] if p["name"] == "embedding_pipeline")


def threads() -> List[str]:
    """Names of the pipeline's threads that are alive."""
    return [thread.name for thread in threading.enumerate() if "embedding graph" in thread.name]
