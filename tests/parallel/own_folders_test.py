"""Programs that give the model_dir to rank 0 alone, as Horovod's examples do, and evaluate and predict each rank's own part."""

from __future__ import annotations

import os
from typing import Any, Dict

import launch
import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster.parallel import own_folders

v1 = tf.compat.v1
X = np.linspace(-1, 1, 24).astype(np.float32)


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    import horovod.tensorflow as hvd

    y = v1.layers.dense(features["x"][:, None], 1, kernel_initializer=v1.constant_initializer(0.5))[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = hvd.DistributedOptimizer(v1.train.AdagradOptimizer(0.1))
    train_op = optimizer.minimize(loss, v1.train.get_global_step()) if mode == tf.estimator.ModeKeys.TRAIN else None
    metrics = {"rows": v1.metrics.mean(tf.cast(tf.shape(labels)[0], tf.float32)), "y": v1.metrics.mean(y)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def run(rank: int, size: int, folder: str, boosted: bool) -> Dict[str, Any]:
    if boosted:
        tf_booster.enable_gpu_booster()
    import horovod.tensorflow as hvd

    hvd.init()
    part = lambda x: tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(3)  # noqa: E731
    own = {0: folder, 1: None, 2: f"{folder}/of rank 2"}[rank]
    config = tf.estimator.RunConfig(own, tf_random_seed=1, save_checkpoints_steps=2)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    found = []
    for length in ({"steps": 3}, {"steps": 2}, {"max_steps": 8}, {"max_steps": 8}):
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        estimator.train(lambda: part(X).shard(size, rank).repeat(), hooks=hooks, **length)
        numbers = estimator.evaluate(lambda: part(X[rank::size]))
        own = [float(each["y"]) for each in estimator.predict(lambda: part(X[rank::size]))]
        found.append({**{name: float(value) for name, value in numbers.items()}, "predictions": own})
        found[-1]["saved"] = os.path.basename(estimator.latest_checkpoint())
    return found


def test_every_rank_has_what_it_has_without_tf_booster(tmp_path):
    plain = launch.values(run, 3, folder=str(tmp_path / "plain"), boosted=False)
    boosted = launch.values(run, 3, folder=str(tmp_path / "boosted"), boosted=True)
    for rank, (ours, theirs) in enumerate(zip(boosted, plain)):
        assert len(theirs) == 4 and theirs[-1]["saved"] == "model.ckpt-8" and len(theirs[0]["predictions"]) == 8
        for one, other in zip(ours, theirs):
            assert one.pop("saved") == other.pop("saved"), rank
            for name, value in other.items():
                np.testing.assert_allclose(one[name], value, rtol=1e-6, err_msg=f"{name}, rank {rank}")
    assert plain[0][0]["y"] != plain[1][0]["y"]  # Of its own part.


def test_which_folder_is_a_ranks_own(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    own_folders.compare(f"{tmp_path}/link", f"{tmp_path}/real/")
    assert not own_folders.has(f"{tmp_path}/link/model.ckpt")
    own_folders.compare(f"{tmp_path}/other/", f"{tmp_path}/real")
    assert own_folders.has(f"{tmp_path}/other/model.ckpt") and not own_folders.has(f"{tmp_path}/real/model.ckpt")
