"""Lives of one job put together at random: training that is killed, goes on, is evaluated, exported, warm started, plain and boosted in turns.

A life is lived twice from one seed: by plain TensorFlow alone, and with tf_booster in some of its phases, with other options each time.
Whatever a phase leaves is equal bit for bit: losses, metrics, predictions, what the SavedModel answers, the names of checkpoints, and all
tensors of the last one.
"""

from __future__ import annotations

import glob
import os
import random
import tempfile
from typing import Any, Callable, Dict, List

import numpy as np
import random_estimators
import tensorflow as tf
from random_models import estimator
from training_pair import LossRecorder, assert_no_pass_failed, boosted, entries_of

import tf_booster

v1 = tf.compat.v1
PASSES = [
    "constant_conditions", "conditional_updates", "sparse_lookups", "partitioned_lookups", "variable_gathers", "clipped_rows", "indicator_columns", "vocabulary_ids", "crossed_columns", "sparse_features", "bucketized_columns", "confusion_matrices", "finite_checks", "variable_updates", "unique", "known_shapes", "same_shapes", "columns", "joined_gathers", "joined_layers", "joined_lookups",
    "direct_lookups", "input_pipeline", "input_queues", "embedding_pipeline",
]  # fmt: skip


def draw(seed: int) -> Dict[str, Any]:
    """{"case": the Estimator's settings, as random_estimators.draw gives them, "phases": what is done with it}."""
    r = random.Random(seed)
    case = random_estimators.draw(seed)
    case["features"] = case["features"][:3]

    def phase(first: bool) -> Dict[str, Any]:
        off = [name for name in PASSES if r.random() < 0.15]
        return {
            "do": "train"
            if first
            else r.choice(["train"] * 4 + ["evaluate", "predict", "export", "kill", "kill", "warm start", "both"]),
            "boost": r.choice([True, True, False]),
            "options": {
                "pipeline": r.choice(["exact", "exact", "off"]),
                "fuse_variables": r.choice(["auto", "auto", True, False]),
                "fast_parser": r.choice(["auto", "auto", False]),
                "deterministic": r.random() < 0.2,
                "check_numerics": r.random() < 0.1,
                "disable_passes": random_estimators.OPTIONS["disable_passes"] + off,
            },
            "steps": r.choice([1, 3, 8]),
            "save_every": r.choice([None, 2, 3]),
            "batch": r.choice([case["batch"], case["batch"], 5, 24]),
            "past": r.random(),  # Which of the checkpoints that are there.
            "of_past": r.random() < 0.4,
            "warm": r.choice([".*", ".*(weights|table).*", ".*kernel.*"]),
        }

    return {"seed": seed, "case": case, "phases": [phase(i == 0) for i in range(r.randint(4, 7))]}


class Life:
    """One life of a job, in `folder`."""

    def __init__(self, life: Dict[str, Any], paths: List[str], folder: str, may_boost: bool):
        self._life, self._paths, self._folder, self._may_boost = life, paths, folder, may_boost
        self._model_dir = os.path.join(folder, "first")

    def live(self) -> List[Dict[str, Any]]:
        """What each phase left."""
        done = []
        for number, phase in enumerate(self._life["phases"]):
            tf.keras.utils.set_random_seed(7)
            with boosted(self._may_boost and phase["boost"], **phase["options"]):
                found = {"train": self._train, "both": self._train_and_evaluate, "evaluate": self._evaluate, "predict": self._predict,
                         "export": self._export, "kill": self._kill, "warm start": self._warm_start}[phase["do"]](phase, number)  # fmt: skip
            if self._may_boost and phase["boost"] and phase["do"] != "kill":
                assert_no_pass_failed(tf_booster.report().to_dict())
            found["checkpoints"] = [os.path.basename(path) for path in self._checkpoints()]
            found.update({f"tensor {name}": value for name, value in entries_of(self._model_dir).items()})
            done.append(found)
        return done

    def _case(self, phase: Dict[str, Any]) -> Dict[str, Any]:
        return {**self._life["case"], "batch": phase["batch"]}

    def _make(self, phase: Dict[str, Any], warm_start: Any = None) -> tf.estimator.Estimator:
        """A new one at every call, as after a restart."""
        settings = random_estimators.settings_of(self._life["case"])
        settings.update(save_checkpoints_steps=phase["save_every"] or 1000, keep_checkpoint_max=3)
        config = tf.estimator.RunConfig(self._model_dir, tf_random_seed=7, **settings)
        return estimator(self._case(phase), config, warm_start)

    def _reads(self, phase: Dict[str, Any]) -> Callable[[], tf.data.Dataset]:
        return random_estimators.input_fn(self._case(phase), self._paths)

    def _checkpoints(self) -> List[str]:
        return list(tf.train.get_checkpoint_state(self._model_dir).all_model_checkpoint_paths)

    def _past(self, phase: Dict[str, Any]) -> str:
        paths = self._checkpoints()
        return paths[int(phase["past"] * len(paths))] if phase["of_past"] else paths[-1]

    def _train(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        recorder = LossRecorder()
        self._make(phase).train(self._reads(phase), steps=phase["steps"], hooks=[recorder])
        return {"losses": np.array(recorder.losses)}

    def _train_and_evaluate(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        recorder, job = LossRecorder(), self._make(phase)
        last = int(job.get_variable_value("global_step")) + phase["steps"]
        metrics, _ = tf.estimator.train_and_evaluate(
            job,
            tf.estimator.TrainSpec(self._reads(phase), max_steps=last, hooks=[recorder]),
            tf.estimator.EvalSpec(self._reads(phase), steps=2, start_delay_secs=0, throttle_secs=0),
        )
        return {"losses": np.array(recorder.losses), **metrics}

    def _evaluate(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        return self._make(phase).evaluate(self._reads(phase), steps=3, checkpoint_path=self._past(phase))

    def _predict(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        predictions = self._make(phase).predict(self._reads(phase), checkpoint_path=self._past(phase))
        return {"predictions": np.array([p["logits"] for p, _ in zip(predictions, range(2 * phase["batch"]))])}

    def _export(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        """Exports, and serves the records of the first file."""
        spec = random_estimators.spec_of(self._life["case"])
        spec.pop("label")
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
        path = self._make(phase).export_saved_model(
            os.path.join(self._folder, f"export{number}"), receiver, checkpoint_path=self._past(phase)
        )
        records = tf.data.TFRecordDataset(self._paths[:1], self._life["case"]["compression"])
        served = tf.saved_model.load(tf.compat.as_str(path)).signatures["serving_default"]
        (answer,) = served(tf.constant(list(records.as_numpy_iterator()))).values()
        return {"served": answer.numpy()}

    def _kill(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        """The job died before it wrote its last checkpoints."""
        paths = self._checkpoints()
        kept = paths[: 1 + int(phase["past"] * len(paths))]
        v1.train.update_checkpoint_state(self._model_dir, kept[-1], kept)
        for path in paths[len(kept) :]:
            for file in glob.glob(path + ".*"):
                os.remove(file)
        return {}

    def _warm_start(self, phase: Dict[str, Any], number: int) -> Dict[str, Any]:
        """Goes on in another folder."""
        start = tf.estimator.WarmStartSettings(self._past(phase), vars_to_warm_start=phase["warm"])
        self._model_dir = os.path.join(self._folder, f"warm{number}")
        recorder = LossRecorder()
        self._make(phase, start).train(self._reads(phase), steps=phase["steps"], hooks=[recorder])
        return {"losses": np.array(recorder.losses)}


def check(seed: int) -> None:
    """Raises AssertionError for anything that differs."""
    life = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        paths = random_estimators.write(life["case"], folder)
        plain = Life(life, paths, os.path.join(folder, "plain"), may_boost=False).live()
        mixed = Life(life, paths, os.path.join(folder, "mixed"), may_boost=True).live()
    for number, (phase, want, have) in enumerate(zip(life["phases"], plain, mixed)):
        where = f"phase {number}, {phase['do']}"
        assert sorted(have) == sorted(want), where
        is_warm = any(before["do"] == "warm start" for before in life["phases"][: number + 1])
        for name in sorted(want, key=lambda n: n.startswith("tensor")):
            if name.endswith("/ExponentialMovingAverage") and is_warm:
                continue  # It begins with its Variable's value before or after the warm start, whichever TensorFlow runs first.
            a, b = np.asarray(have[name]), np.asarray(want[name])
            assert (a.dtype, a.shape) == (b.dtype, b.shape), (where, name, a.dtype, a.shape, b.dtype, b.shape)
            np.testing.assert_array_equal(a, b, f"{where}: {name}")
