"""Checkpoints that several ranks write together, and what becomes of them when a rank dies while saving."""

import os
import re
import resource
import signal

import checkpoint_ranks
import launch
import numpy as np
import pytest
import tensorflow as tf
from checkpoint_ranks import Model, joined

import tf_booster
from tf_booster.checkpoint import publishing

v1 = tf.compat.v1

IDS = [0, 1, 2, 3, 7, 8, -5, -6, 2**40 + 1]


def write_and_read(rank, size, folder):
    """Saves at three steps, one of them twice, and restores."""
    m = Model(rank, size, max_to_keep=2, sharded=True)
    paths = []
    for step in (1, 2, 3, 3):
        m.train(IDS)
        m.set([float(rank), 5.0])  # Rank 0's is what counts.
        paths.append(m.save(folder, step))
    saved = m.contents()
    m.train([100, 101, 102])
    m.set([9.0, 9.0])
    m.restore(paths[-1])
    assert m.contents() == saved
    return saved, paths, m.session.run(m.variable).tolist()


def restored(rank, size, prefix):
    m = Model(rank, size)
    m.restore(prefix)
    return m.contents()


def test_one_checkpoint_of_all_ranks(tmp_path):
    results = launch.values(write_and_read, 2, folder=str(tmp_path))
    whole = joined([saved for saved, _, _ in results])
    prefix = str(tmp_path / "model.ckpt-3")
    assert [paths[-1] for _, paths, _ in results] == [prefix, prefix]
    assert [variable for _, _, variable in results] == [[0.0, 5.0], [0.0, 5.0]]
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    # Steps 2 and 3 are kept, with all of their shards; nothing is left of step 1, of the first save of step 3 or of folders.
    files = sorted(os.listdir(tmp_path))
    for step, shards in (
        (2, 3),
        (3, 4),
    ):  # Tables of two ranks, Variables; the second save of a step has another number.
        data = [f"data-{i:05d}-of-{shards:05d}" for i in range(3)]
        assert [f for f in files if f.startswith(f"model.ckpt-{step}")] == [
            f"model.ckpt-{step}.{end}" for end in (*data, "index", "meta")
        ]
    assert len(files) == 11 and "checkpoint" in files
    tensors = checkpoint_ranks.read(prefix)
    assert tensors["weight"].tolist() == [0.0, 5.0]
    assert tensors["table_0/keys"].tolist() == sorted(IDS) and tensors["table_0/step"] == 4
    # Without ranks it is an ordinary checkpoint, and restores at another number of ranks.
    assert restored(0, 1, prefix) == whole
    assert joined(launch.values(restored, 3, prefix=prefix)) == whole


class SaveAtTheEnd(v1.train.SessionRunHook):
    """By a Saver of its own, which the graph's collections do not have."""

    def __init__(self, path):
        self.path = path

    def begin(self):
        self.saver = v1.train.Saver()

    def end(self, session):
        self.saver.save(session, self.path)


def save_by_a_hook(rank, size, folder):
    tf.enable_gpu_booster(shard_input=False)

    def model_fn(features, labels, mode):
        table = tf_booster.get_hash_table("user", 4)
        loss = tf.reduce_sum(tf.square(tf_booster.embedding_lookup(table, features) - 1.0))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    ids = np.int64([5 * rank, 5 * rank + 1, -7, 2**40])
    estimator = tf.estimator.Estimator(model_fn, os.path.join(folder, "model"))
    estimator.train(
        lambda: tf.data.Dataset.from_tensors(ids).repeat(3), hooks=[SaveAtTheEnd(os.path.join(folder, "own"))]
    )


def test_a_saver_that_a_hook_makes_for_itself(tmp_path):
    launch.values(save_by_a_hook, 2, folder=str(tmp_path))
    own, models = (checkpoint_ranks.read(str(tmp_path / name)) for name in ("own", "model/model.ckpt-3"))
    assert own["user/keys"].tolist() == [-7, 0, 1, 5, 6, 2**40] and own.keys() == models.keys()
    for name, value in own.items():
        assert np.array_equal(value, models[name]), name


def kill_at(rank, size, folder, stage, victim, count=1):
    """Saves step 1, then saves it again; `victim` is killed when it comes to `stage` for the `count`th time of the second save."""
    m = Model(rank, size)
    m.train(IDS)
    m.save(folder, 1)
    m.train(IDS)
    seen = []

    def at(name):
        seen.append(name)
        if rank == victim and seen.count(stage) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    publishing.at = at
    m.save(folder, 1)


@pytest.mark.parametrize(
    "stage, victim, count, step",
    [
        ("begun", 1, 1, 1),
        ("data renamed", 0, 1, 1),
        ("index renamed", 0, 1, 2),
    ],
)
def test_a_rank_that_is_killed_while_saving_leaves_a_whole_checkpoint(tmp_path, stage, victim, count, step):
    ended = launch.outcomes(kill_at, 2, seconds=40, folder=str(tmp_path), stage=stage, victim=victim, count=count)
    assert ended[victim].status == -signal.SIGKILL, ended[victim].output
    prefix = tf.train.latest_checkpoint(str(tmp_path))
    tensors = checkpoint_ranks.read(prefix)
    assert tensors["table_0/step"] == step and tensors["table_0/keys"].tolist() == sorted(IDS)
    (rows, _, clock, _), _ = restored(0, 1, prefix)
    assert clock == step and sorted(rows) == sorted(IDS)


def fail_on(rank, size, folders):
    """The victim's disk is full after 8 KB of a shard of 100 KB; then there is room again. `folders`: of rank 0 as the victim, of rank 1."""
    return [fail_in(folder, rank, size, victim) for victim, folder in enumerate(folders)]


def fail_in(folder, rank, size, victim):
    m = Model(rank, size)
    m.train(IDS)
    prefix = os.path.join(folder, "model.ckpt")
    m.save(folder, 1)
    m.train([*IDS, *range(100, 2100)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == victim:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    error = None
    try:
        m.save(folder, 2)
    except (RuntimeError, tf.errors.OpError) as caught:
        error = str(caught)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert tf.train.latest_checkpoint(folder) == prefix + "-1"
    assert len(checkpoint_ranks.read(prefix + "-1")["table_0/keys"]) == len(IDS)
    left = [name for name in os.listdir(folder) if "ckpt-2" in name]
    m.save(folder, 3)
    return error, left


def test_a_rank_that_cannot_write_fails_on_all_ranks(tmp_path):
    folders = [str(tmp_path / str(victim)) for victim in range(2)]
    for folder in folders:
        os.mkdir(folder)
    for victim, results in enumerate(zip(*launch.values(fail_on, 2, folders=folders))):
        file = f"model.ckpt-2_temp-[0-9a-f]+/rank-{victim}-tables-0.data-00000-of-00001"
        assert re.search(file, results[victim][0]) and "File too large" in results[victim][0]
        assert f"because rank {victim} failed" in results[1 - victim][0] and re.search(file, results[1 - victim][0])
        assert results[0][1] == []  # Rank 0 has removed what was written, when its own call ends.
        assert checkpoint_ranks.read(f"{folders[victim]}/model.ckpt-3")["table_0/step"] == 2
        assert not [name for name in os.listdir(folders[victim]) if "temp" in name]
