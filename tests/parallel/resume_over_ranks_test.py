"""Estimators with tables on several ranks: stopping, dying and going on from the checkpoint, with the same numbers as without."""

import os
import signal

import checkpoint_ranks
import launch
import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster.checkpoint import publishing

v1 = tf.compat.v1
STEPS = 8


def model_fn(features, labels, mode):
    table = tf_booster.get_hash_table("user_emb", 3, seed=4, min_frequency=2)
    rows = tf_booster.embedding_lookup(table, features["user"])
    columns = [tf_booster.feature_column.categorical_column_with_hash_table("item")]
    bag = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(columns[0], 3)])
    hidden = v1.layers.dense(tf.concat([rows, bag], 1), 4, tf.tanh)
    logit = v1.layers.dense(hidden, 1)[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))
    train_op = v1.train.AdamOptimizer(0.05).minimize(loss, v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def batches(rank, size, first):
    """Batches `first`, first + 1, … of this rank, 24 rows over all ranks."""
    random = np.random.RandomState(1)
    users = random.zipf(1.3, [STEPS, 24]) % 50 - 3
    items = random.randint(0, 40, [STEPS, 24])
    labels = (users % 2).astype(np.float32)
    part = slice(rank * 24 // size, (rank + 1) * 24 // size)
    features = {"user": users[first:, part].astype(np.int64), "item": items[first:, part].astype(np.int64)}
    return tf.data.Dataset.from_tensor_slices((features, labels[first:, part]))


class KillAt(v1.train.SessionRunHook):
    """Kills the process after a number of runs."""

    def __init__(self, runs):
        self._runs = runs

    def after_run(self, run_context, run_values):
        self._runs -= 1
        if self._runs == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def train(rank, size, model_dir, first=0, last=STEPS, save_steps=None, save_secs=None, kill=None):
    """Steps first + 1 to last; returns the checkpoint's tensors on rank 0."""
    tf_booster.enable_gpu_booster(shard_input=False)
    tf.keras.utils.set_random_seed(7)
    config = tf.estimator.RunConfig(
        tf_random_seed=6,
        save_checkpoints_steps=save_steps,
        save_checkpoints_secs=save_secs,
        keep_checkpoint_max=2,
        session_config=v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1),
    )
    saves = []
    publishing.at = lambda stage: saves.append(stage)
    hooks = [KillAt(kill)] if kill is not None and rank == 1 else []
    estimator = tf.estimator.Estimator(model_fn, model_dir, config)
    estimator.train(lambda: batches(rank, size, first), max_steps=last, hooks=hooks)
    return saves.count("begun"), tf.train.latest_checkpoint(model_dir)


def same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        if np.asarray(tensor).dtype.kind == "f":
            np.testing.assert_allclose(tensor, other[name], rtol=1e-5, atol=1e-7, err_msg=name)
        else:
            np.testing.assert_array_equal(tensor, other[name], name)


def tensors(model_dir):
    return checkpoint_ranks.read(tf.train.latest_checkpoint(str(model_dir)))


def test_going_on_gives_the_same_numbers_on_any_number_of_ranks(tmp_path):
    whole, parted = str(tmp_path / "whole"), str(tmp_path / "parted")
    launch.values(train, 1, model_dir=whole, save_steps=100)
    # Two ranks are interrupted by a death between checkpoints, and go on.
    ended = launch.outcomes(train, 2, seconds=90, model_dir=parted, save_steps=2, kill=3)
    assert ended[1].status == -signal.SIGKILL and ended[0].status != 0
    assert tf.train.latest_checkpoint(parted).endswith("-2"), ended[0].output
    results = launch.values(train, 2, model_dir=parted, first=2, last=4, save_steps=2)
    assert results[0] == results[1] == (2, parted + "/model.ckpt-4")  # At the start, over itself, and at the end.
    launch.values(train, 3, model_dir=parted, first=4, save_secs=3600)
    done, wanted = tensors(parted), tensors(whole)
    assert done["global_step"] == wanted["global_step"] == STEPS
    assert len(wanted["user_emb/keys"]) > 5 and len(wanted["user_emb/pending_keys"]) > 2
    same(done, wanted)
    # Nothing but what was asked to be kept.
    files = [name for name in os.listdir(parted) if name.startswith("model.ckpt")]
    assert {name.split(".")[1] for name in files} == {"ckpt-4", f"ckpt-{STEPS}"}
    assert not [name for name in os.listdir(parted) if "temp" in name or "shared" in name]
