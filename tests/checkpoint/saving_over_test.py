"""One process saves a checkpoint over itself, as it does after a restart: until the index is renamed, it is the old one."""

import os

import numpy as np
import pytest
import tensorflow as tf
from publishing_test import Killed

import tf_booster
from tf_booster.checkpoint import publishing

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def enabled():
    tf_booster.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def saver_of(**options):
    """A Saver of Variables, a partitioned one and a string among them, and how to set them."""
    parts = v1.fixed_size_partitioner(3)
    rows = v1.get_variable("rows", [7, 2], initializer=v1.zeros_initializer(), partitioner=parts)
    step = v1.get_variable("step", [], tf.int64, v1.zeros_initializer(), use_resource=True)
    word = v1.get_variable("word", initializer=tf.constant("none"), use_resource=True)
    value = v1.placeholder(tf.int64, [])
    assigned = [v.assign(tf.ones_like(v) * tf.cast(value, tf.float32)) for v in rows]
    op = tf.group(assigned, step.assign(value), word.assign(tf.strings.as_string(value)))
    return v1.train.Saver(**options), lambda session, number: session.run(op, {value: number})


def value_of(prefix):
    reader = tf.train.load_checkpoint(prefix)
    rows = reader.get_tensor("rows")
    assert rows.shape == (7, 2) and np.all(rows == rows[0, 0])
    assert str(int(rows[0, 0])) == reader.get_tensor("word").decode() == str(reader.get_tensor("step"))
    return int(rows[0, 0])


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(
    "stage, wanted", [("shard written", 1), ("merged", 1), ("data renamed", 1), ("index renamed", 2)]
)
def test_a_death_leaves_the_old_checkpoint_or_the_new_one(tmp_path, monkeypatch, stage, wanted, sharded):
    prefix = str(tmp_path / "model.ckpt")

    def at(name):
        if name == stage:
            raise Killed

    with tf.Graph().as_default(), v1.Session() as session:
        saver, set_all = saver_of(sharded=sharded)
        session.run(v1.global_variables_initializer())
        set_all(session, 1)
        path = saver.save(session, prefix, 5, latest_filename="state")
        assert path == prefix + "-5" and len(os.listdir(tmp_path)) == 4  # One data file, index, meta, state.
        set_all(session, 2)
        monkeypatch.setattr(publishing, "at", at)
        with pytest.raises(Killed):
            saver.save(session, prefix, 5, latest_filename="state")
        assert value_of(path) == wanted
        monkeypatch.undo()
        set_all(session, 3)
        assert saver.save(session, prefix, global_step=5, latest_filename="state") == path
        assert value_of(path) == 3 and len(os.listdir(tmp_path)) == 4
        saver.restore(session, path)


def test_a_save_that_fails_leaves_the_old_one_and_no_folder(tmp_path, monkeypatch):
    with tf.Graph().as_default(), v1.Session() as session:
        saver, set_all = saver_of()
        session.run(v1.global_variables_initializer())
        set_all(session, 1)
        path = saver.save(session, str(tmp_path / "model.ckpt"))
        monkeypatch.setattr(publishing, "shard_prefix", lambda folder, rank: "/dev/full/x")
        with pytest.raises(tf.errors.OpError, match="/dev/full"):
            saver.save(session, str(tmp_path / "model.ckpt"))
    assert value_of(path) == 1 and not [name for name in os.listdir(tmp_path) if "temp" in name]
