"""An evaluation within a training, from its begin to its end: with what the training has in memory, with what is restored, and TensorFlow's."""

from __future__ import annotations

import functools
import gc
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import config_of

v1 = tf.compat.v1
DIM, STEP, BATCH, BATCHES = 16, 100_000, 1_000, 10
RESTORED = "restored"


def run(threads: int) -> Iterator[Result]:
    for rows in (400_000, 4_000_000):
        with tempfile.TemporaryDirectory() as folder:
            plain = _Training(f"{folder}/plain", rows, threads, tables=False)
            plain.train()
            for kind in ("table", "Variable"):
                tf_booster.enable_gpu_booster()
                made = _Training(f"{folder}/{kind}", rows, threads, tables=kind == "table")
                found = _Found()
                made.train([_AtTheEnd(functools.partial(found.compare, made, plain), made.steps)])
                tf_booster.disable_gpu_booster()
                what = f"{kind}, {rows:,} rows"
                yield Result("evaluation", what, DIM, "uniform", threads, "evaluations/s", found.rates, found.facts)


class _Found:
    """What is measured while a training waits."""

    rates: Dict[str, float]
    facts: Dict[str, Any]

    def compare(self, made: _Training, plain: _Training) -> None:
        def tensorflow(_: int) -> None:
            tf_booster.disable_gpu_booster()
            plain.evaluate()
            tf_booster.enable_gpu_booster()

        def restored(_: int) -> None:  # From another thread nobody knows that the training waits.
            thread = threading.Thread(target=made.evaluate)
            thread.start()
            thread.join()

        def ours(_: int) -> None:
            made.evaluate()

        self.rates = contest({OURS: ours, RESTORED: restored, "TensorFlow": tensorflow}, 1e6, rounds=5)
        runs = {"MB": ours, "MB restored": restored}
        self.facts = {name: round(_peak_megabytes(lambda run=run: run(0))) for name, run in runs.items()}


class _AtTheEnd(v1.train.CheckpointSaverListener):
    def __init__(self, act: Callable[[], None], steps: int):
        self._act, self._steps = act, steps

    def after_save(self, session: Any, global_step_value: int) -> None:
        if global_step_value == self._steps:
            self._act()


class _Training:
    """Of one embedding and one layer, long enough for all ids to come once."""

    def __init__(self, folder: str, rows: int, threads: int, tables: bool):
        self.steps = rows // STEP
        self._rows, self._tables = rows, tables
        run_config = tf.estimator.RunConfig(
            folder, tf_random_seed=1, session_config=config_of(threads), save_checkpoints_steps=self.steps
        )
        self._estimator = tf.estimator.Estimator(self._model_fn, config=run_config)

    def train(self, listeners: Any = ()) -> None:
        ids = np.arange(self._rows, dtype=np.int64).reshape([self.steps, STEP])
        self._estimator.train(lambda: _batches(ids), saving_listeners=list(listeners))

    def evaluate(self) -> Dict[str, Any]:
        ids = np.random.RandomState(0).randint(0, self._rows, [BATCHES, BATCH])
        return self._estimator.evaluate(lambda: _batches(ids))

    def _model_fn(self, features: Any, labels: Any, mode: Any) -> Any:
        if self._tables:
            rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("table", DIM), features)
        else:
            rows = tf.nn.embedding_lookup(v1.get_variable("table", [self._rows, DIM]), features)
        logits = v1.layers.dense(rows, 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        metrics = {"auc": v1.metrics.auc(labels, tf.sigmoid(logits))}
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def _batches(ids: np.ndarray) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((ids, (ids % 2).astype(np.float32)))


def _peak_megabytes(act: Callable[[], Any]) -> float:
    """How much more memory this process had at most while it acts than before."""
    gc.collect()  # Sessions that are over.
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # VmHWM is VmRSS from now on.
    before = _megabytes("VmRSS")
    act()
    return _megabytes("VmHWM") - before


def _megabytes(name: str) -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith(name))
    return int(line.split()[1]) / 1e3
