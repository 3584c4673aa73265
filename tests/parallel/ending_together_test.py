"""Ranks end after the same step whichever of them wants to, evaluate between checkpoints together, and rank 0 exports."""

from __future__ import annotations

import glob
import os
from typing import Any, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf
from input_over_ranks_test import BATCH, estimator, slices, split

import tf_booster

v1 = tf.compat.v1


def of_zeros(batch: Any) -> Any:
    del batch
    return {"x": tf.zeros([2, 4])}, tf.zeros([2])


def endless() -> Any:
    return slices().repeat().batch(BATCH).map(split)


class StopAfter(v1.train.SessionRunHook):
    """A program's own hook."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps -= 1
        if self.steps == 0:
            run_context.request_stop()


class StopBehind(v1.train.CheckpointSaverListener):
    """A program's own listener, which asks for the end behind its second checkpoint."""

    def __init__(self, saves: int) -> None:
        self.saves = saves

    def after_save(self, session: Any, global_step_value: int) -> Any:
        self.saves -= 1
        return self.saves == 0 or None


def serving() -> Any:
    x = v1.placeholder(tf.float32, [None, 4], "x")
    features = {"x": x, "i": tf.range(tf.shape(x)[0])}
    return tf.estimator.export.ServingInputReceiver(features, {"x": x})


def files_in(folder: str) -> List[str]:
    return [os.path.join(folder, f"{i}.csv") for i in range(4)]


def lines_read(folder: str, files: List[str]) -> List[int]:
    """By this rank, by a program that trains on `files`."""
    found: List[int] = []

    class Seen(v1.train.SessionRunHook):
        def __init__(self, numbers):
            self.numbers = numbers

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self.numbers)

        def after_run(self, run_context, run_values):
            found.extend(run_values.results.astype(int).tolist())

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.square(features * v1.get_variable("w", []) - 1))
        train_op = v1.train.GradientDescentOptimizer(1e-4).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Seen(features)])

    def read():
        return tf.data.TextLineDataset(files).map(tf.strings.to_number).batch(2)

    tf.estimator.Estimator(model_fn, folder).train(read)
    return found


def end(rank, size, folder):
    tf_booster.enable_gpu_booster()
    found: Dict[str, Any] = {}

    def train(name: str, hooks: Any = (), **steps: Any) -> Any:
        trained = estimator(os.path.join(folder, name))
        trained.train(endless, hooks=hooks(trained) if callable(hooks) else list(hooks), **steps)
        found[name] = int(trained.get_variable_value("global_step"))
        return trained

    train("steps", steps=3)
    train("hook of one rank", [StopAfter(2 if rank == 1 else 1000)])
    listener = StopBehind(2 if rank == 1 else 1000)
    saved = estimator(os.path.join(folder, "listener"), save_every=2)
    saved.train(endless, saving_listeners=[listener])
    found["listener of one rank"] = int(saved.get_variable_value("global_step"))
    early = tf.estimator.experimental.make_early_stopping_hook
    train("early", lambda e: [early(e, lambda: rank == 0, run_every_secs=None, run_every_steps=2)])
    both = estimator(os.path.join(folder, "both"))
    exporter = tf.estimator.FinalExporter("final", serving)
    evaluated, exported = tf.estimator.train_and_evaluate(
        both,
        tf.estimator.TrainSpec(lambda: slices().repeat(3).batch(BATCH).map(split), max_steps=8),
        tf.estimator.EvalSpec(
            lambda: slices().batch(BATCH).map(split), steps=None, exporters=exporter, throttle_secs=0
        ),
    )
    found["evaluated"], found["exported"] = evaluated, exported
    found["by hand"] = both.export_saved_model(os.path.join(folder, "by hand"), serving)
    tf_booster.disable_gpu_booster()
    tf_booster.enable_gpu_booster(shard_input=False)
    apart = estimator(os.path.join(folder, "apart"))
    apart.train(lambda: slices().skip(20 * rank).batch(BATCH).map(split))
    found["apart"] = int(apart.get_variable_value("global_step"))
    found["left alone"] = apart.evaluate(lambda: slices(4).take(4 * rank).batch(BATCH).map(split))["count"]
    tf_booster.disable_gpu_booster()
    tf_booster.enable_gpu_booster()
    try:
        apart.train(lambda: slices(20 + rank).batch(BATCH).map(split))
    except ValueError as error:
        found["different"] = str(error)
    files = files_in(folder)
    for name, values in {"tensors": np.arange(8.0), "files": [*files, files[rank]]}.items():
        try:
            read = tf.data.TextLineDataset if name == "files" else tf.data.Dataset.from_tensor_slices
            apart.train(lambda read=read, values=values: read(values[::-1] if rank else values).batch(2).map(of_zeros))
        except ValueError as error:
            found[f"other {name}"] = str(error)
    found["lines"] = lines_read(os.path.join(folder, "shuffled"), files[rank:] + files[:rank])
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("run"))
    for i, file in enumerate(files_in(folder)):
        with open(file, "w", encoding="utf-8") as lines:
            lines.write(f"{i}\n{i + 10}\n")
    return folder, launch.values(end, 2, folder=folder, seconds=300)


def test_steps_count_as_in_one_process(run):
    assert [values["steps"] for values in run[1]] == [3, 3]


def test_wish_of_one_rank_ends_all_a_step_later(run):
    assert [values["hook of one rank"] for values in run[1]] == [3, 3]
    first, second = (values["listener of one rank"] for values in run[1])
    assert first == second == 3
    first, second = (values["early"] for values in run[1])
    assert first == second and first in (2, 3)  # The first step that the timer takes is TensorFlow's affair.


def test_train_and_evaluate(run):
    folder, (first, second) = run
    assert first["evaluated"] == second["evaluated"] and first["evaluated"]["global_step"] == 8
    assert first["exported"] == second["exported"] and len(glob.glob(f"{folder}/both/export/final/*")) == 1


def test_rank_0_exports_for_all(run):
    folder, (first, second) = run
    assert first["by hand"] == second["by hand"] and len(os.listdir(f"{folder}/by hand")) == 1
    served = tf.saved_model.load(tf.compat.as_str(first["by hand"])).signatures["serving_default"]
    assert np.isfinite(served(x=tf.ones([2, 4]))["p"].numpy()).all()


def test_shares_that_the_program_gives_are_trained_to_the_end_of_the_longest(run):
    assert [values["apart"] for values in run[1]] == [8, 8]
    assert run[1][0]["left alone"] == run[1][1]["left alone"] > 0


def test_different_inputs_are_refused(run):
    for values in run[1]:
        assert "ranks have different inputs" in values["different"] and "shard_input=False" in values["different"]


@pytest.mark.parametrize("what", ["files", "tensors"])
def test_other_files_and_tensors_are_refused(run, what):
    for values in run[1]:
        assert "begins with other files or tensors than rank 0's" in values[f"other {what}"]


def test_files_in_another_order_are_read_in_rank_0s(run):
    """As a program has them that shuffles their names in Python: each line is read once."""
    assert sorted(run[1][0]["lines"] + run[1][1]["lines"]) == [0, 1, 2, 3, 10, 11, 12, 13]
