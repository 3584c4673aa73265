"""What people wait for before and around the steps: a short training, an evaluation and an export of a canned model of many features."""

from __future__ import annotations

import functools
import tempfile
from typing import Any, Dict, Iterator, Tuple

import tensorflow as tf

import tf_booster
from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import config_of

STEPS, BATCH = 10, 64


def run(threads: int) -> Iterator[Result]:
    for features in (50, 200):
        with tempfile.TemporaryDirectory() as folder:
            model = _Model(folder, features, threads)
            for what, act in (("train", model.train), ("evaluate", model.evaluate), ("export", model.export)):
                contestants = {name: functools.partial(_acted, act, name) for name in (OURS, "TensorFlow")}
                rates = contest(contestants, 1e6, rounds=1)
                seconds = {f"s {name}": round(1 / rate, 1) for name, rate in rates.items()}
                yield Result("start_up", what, features, "", threads, "calls/s", rates, seconds)


def _acted(act: Any, name: str, _: int) -> None:
    if name == OURS:
        tf_booster.enable_gpu_booster()
    try:
        act(name)
    finally:
        tf_booster.disable_gpu_booster()


class _Model:
    """Wide and deep, of words and numbers; as many of the latter as every third."""

    def __init__(self, folder: str, features: int, threads: int):
        column = tf.feature_column
        self._words = [f"word_{i}" for i in range(features)]
        self._numbers = [f"number_{i}" for i in range(0, features, 3)]
        wide = [column.categorical_column_with_hash_bucket(name, 1000) for name in self._words]
        deep = [column.embedding_column(each, 8) for each in wide] + [column.numeric_column(n) for n in self._numbers]
        self._spec = column.make_parse_example_spec([*wide, *deep])
        self._folder = folder
        self._estimators = {
            name: tf.estimator.DNNLinearCombinedClassifier(
                linear_feature_columns=wide,
                dnn_feature_columns=deep,
                dnn_hidden_units=[64, 32],
                model_dir=f"{folder}/{name}",
                config=tf.estimator.RunConfig(tf_random_seed=1, session_config=config_of(threads)),
            )
            for name in (OURS, "TensorFlow")
        }

    def train(self, name: str) -> None:
        self._estimators[name].train(self._batches, steps=STEPS)

    def evaluate(self, name: str) -> None:
        self._estimators[name].evaluate(self._batches, steps=STEPS)

    def export(self, name: str) -> None:
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(self._spec)
        self._estimators[name].export_saved_model(f"{self._folder}/exported", receiver)

    def _batches(self) -> tf.data.Dataset:
        rows: Dict[str, Any] = {name: [[f"a{i % 7}"] for i in range(BATCH)] for name in self._words}
        rows.update({name: [[i / BATCH] for i in range(BATCH)] for name in self._numbers})
        element: Tuple[Any, Any] = (
            {k: tf.constant(v) for k, v in rows.items()},
            tf.constant([[i % 2] for i in range(BATCH)]),
        )
        return tf.data.Dataset.from_tensors(element).repeat()
