"""Loops of a program's own: all ranks train, and rank 0 evaluates in a session of its own between trainings and at the end, or all do."""

from __future__ import annotations

from typing import Any, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
IDS = np.arange(12, dtype=np.int64)


def model(table: bool, times: Any) -> tf.Tensor:
    ids = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(IDS).repeat(times).batch(4)).get_next()
    if table:
        rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("w", 3, seed=2), ids)
    else:
        rows = tf.nn.embedding_lookup(v1.get_variable("w", [12, 3]), ids)
    return tf.reduce_sum(rows, 1)


def train(folder: str, table: bool, last: int) -> None:
    with tf.Graph().as_default():
        v1.set_random_seed(3)
        loss = tf.reduce_mean(tf.square(model(table, None) - 1.0))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        hooks = [v1.train.StopAtStepHook(last_step=last)]
        with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks, save_checkpoint_steps=2) as session:
            while not session.should_stop():
                session.run(train_op)


class Every(v1.train.SessionRunHook):
    """Asks a timer of seconds after each run, as TensorFlow's hooks do."""

    def __init__(self) -> None:
        self.timer = v1.train.SecondOrStepTimer(every_secs=0.001)
        self.runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.runs += 1
        if self.timer.should_trigger_for_step(self.runs):
            self.timer.update_last_triggered_step(self.runs)


def evaluate(folder: str, table: bool) -> List[float]:
    found: List[float] = []
    with tf.Graph().as_default():
        values = model(table, 1)
        mean, update = v1.metrics.mean(values)
        if not table:  # What a Variable does to the result, of which nothing is trained.
            (slope,) = tf.gradients(values, v1.trainable_variables())
            update = tf.group(update, tf.convert_to_tensor(slope))
        v1.train.get_or_create_global_step()
        creator = v1.train.ChiefSessionCreator(checkpoint_dir=folder)
        with v1.train.MonitoredSession(creator, [Every()]) as session:
            while not session.should_stop():
                found += session.run([values, update])[0].tolist()
                last = session.run_step_fn(lambda step_context: step_context.session.run(mean))
    return [*found, float(last)]


def run(rank: int, size: int, folder: str, table: bool, who: str) -> List[Any]:
    tf_booster.enable_gpu_booster()
    found = []
    for last in (4, 8):
        train(folder, table, last)
        if rank == 0 or who == "all":
            found.append((evaluate(folder, table), tf.train.latest_checkpoint(folder)))
    return found


@pytest.mark.parametrize("who", ["rank 0", "all"])
@pytest.mark.parametrize("table", [False, True])
def test_evaluations_between_trainings(tmp_path, table, who):
    found = launch.values(run, 2, folder=str(tmp_path), table=table, who=who)
    assert [len(each) for each in found] == [2, 2 if who == "all" else 0]
    assert who == "rank 0" or found[0] == found[1]
    for values, path in found[0]:
        reader = tf.train.load_checkpoint(path)
        rows = reader.get_tensor("w/values" if table else "w")
        keys = reader.get_tensor("w/keys") if table else IDS
        sums = dict(zip(keys.tolist(), rows))
        wanted = [sums[key] for key in IDS]
        np.testing.assert_allclose(values[:-1], np.sum(wanted, 1), rtol=1e-6)
        np.testing.assert_allclose(values[-1], np.mean(np.sum(wanted, 1)), rtol=1e-5)


def own_horovod(rank: int, size: int, folder: str) -> List[Any]:
    """The program sums gradients itself; rank 0 evaluates in the training's graph, whose train op and averages nobody runs then."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()

    def build(times: Any) -> Any:
        values = model(False, times)
        normal = v1.layers.batch_normalization(values[:, None], training=v1.placeholder_with_default(False, []))
        loss = tf.reduce_mean(tf.square(values - 1.0)) + 0.0 * tf.reduce_sum(normal)
        optimizer = hvd.DistributedOptimizer(v1.train.AdagradOptimizer(0.1), sparse_as_dense=True)
        return values, optimizer.minimize(loss, v1.train.get_or_create_global_step())

    found = []
    for last in (4, 8):
        with tf.Graph().as_default():
            v1.set_random_seed(3)
            _, train_op = build(None)
            hooks = [v1.train.StopAtStepHook(last_step=last), hvd.BroadcastGlobalVariablesHook(0)]
            own = folder if rank == 0 else None
            with v1.train.MonitoredTrainingSession(checkpoint_dir=own, hooks=hooks, save_checkpoint_steps=2) as session:
                while not session.should_stop():
                    session.run(train_op)
        if rank == 0:
            with tf.Graph().as_default():
                values, _ = build(1)
                creator = v1.train.ChiefSessionCreator(checkpoint_dir=folder)
                for _ in range(2):  # The second one finds the graph final.
                    seen: List[float] = []
                    with v1.train.MonitoredSession(creator, [Every()]) as session:
                        while not session.should_stop():
                            seen += session.run(values).tolist()
                    found.append((seen, tf.train.latest_checkpoint(folder)))
    return found


def test_evaluations_in_the_graph_of_an_own_horovods_training(tmp_path):
    found, others = launch.values(own_horovod, 2, folder=str(tmp_path))
    assert len(found) == 4 and not others
    for values, path in found:
        np.testing.assert_allclose(values, tf.train.load_variable(path, "w").sum(1), rtol=1e-6)
