"""What programs have rank 0 do alone, as they do under plain Horovod: it is what one process does with the checkpoint."""

from __future__ import annotations

import time
from typing import Any, Dict

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
IDS = np.arange(30, dtype=np.int64)


def model_fn(features: Any, labels: Any, mode: str, params: Dict[str, Any]) -> Any:
    if params.get("own"):
        rows = tf.nn.embedding_lookup(v1.get_variable("ids", [30, 4]), features["id"])
    else:
        rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("ids", 4, seed=3), features["id"])
    weight = v1.get_variable("weight", [4], initializer=v1.ones_initializer())
    predictions = {"id": features["id"], "y": tf.reduce_sum(rows * weight, 1)}
    outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = tf.reduce_mean(tf.square(predictions["y"] - labels))
    optimizer = v1.train.AdagradOptimizer(0.1)
    if params.get("own") and mode == tf.estimator.ModeKeys.TRAIN:
        import horovod.tensorflow as hvd

        optimizer = hvd.DistributedOptimizer(optimizer)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    metrics = {"rows": v1.metrics.mean(tf.ones_like(labels)), "y": v1.metrics.mean(predictions["y"])}
    metrics["sum"] = v1.metrics.mean(tf.reduce_sum(labels))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"id": IDS}, IDS.astype(np.float32) / 30)).batch(5)


def receiver() -> Any:
    ids = {"id": v1.placeholder(tf.int64, [None])}
    return tf.estimator.export.ServingInputReceiver(ids, ids)


def estimator(folder: str, **params: Any) -> tf.estimator.Estimator:
    return tf.estimator.Estimator(model_fn, folder, tf.estimator.RunConfig(tf_random_seed=1), params)


def asked(made: tf.estimator.Estimator, path: str = "") -> Dict[str, Any]:
    """All that can be asked of a model."""
    predictions = list(made.predict(input_fn, checkpoint_path=path or None))
    found = {"evaluation": made.evaluate(input_fn, checkpoint_path=path or None), "path": made.latest_checkpoint()}
    found.update({name: np.array([each[name] for each in predictions]) for name in ("id", "y")})
    found["export"] = made.export_saved_model(f"{made.model_dir}/exports", receiver).decode()
    return found


def check(found: Dict[str, Any], made: tf.estimator.Estimator) -> None:
    """Against one process."""
    alone = asked(made, found["path"])
    assert found["evaluation"] == alone["evaluation"]
    np.testing.assert_array_equal(found["id"], IDS)
    np.testing.assert_array_equal(found["y"], alone["y"])
    exported = tf.train.load_checkpoint(f"{found['export']}/variables/variables")
    rows = sorted(exported.get_tensor("ids/keys")) if exported.has_tensor("ids/keys") else exported.get_tensor("ids")
    assert len(rows) == len(IDS)


def train(rank: int, size: int, folder: str, who: int, own: bool = False) -> Any:
    tf_booster.enable_gpu_booster()
    if own:
        import horovod.tensorflow as hvd

        hvd.init()
    made, found = estimator(folder, own=own), []
    for _ in range(2):
        made.train(input_fn)
        if rank == who:
            found.append(asked(made))
    together = made.evaluate(input_fn)
    if rank == who:
        time.sleep(0.5)  # The others have ended.
        found.append(asked(made))
    return found, together


@pytest.mark.parametrize("size, who, own", [(2, 0, False), (3, 2, False), (2, 0, True)])
def test_one_rank_alone(tmp_path, size, who, own):
    """own: the program sums gradients itself by Horovod, of a Variable."""
    results = launch.values(train, size, folder=str(tmp_path), who=who, own=own)
    tf_booster.enable_gpu_booster()
    assert [len(found) for found, _ in results] == [3 * (rank == who) for rank in range(size)]
    for found in results[who][0]:
        check(found, estimator(str(tmp_path), own=own))
    last = results[who][0][-1]["evaluation"]
    for _, together in results:
        assert together["rows"] == 1.0 and together["y"] == pytest.approx(last["y"], rel=1e-5)


def within(rank: int, size: int, folder: str) -> Any:
    """Rank 0 evaluates and exports while it trains; the others only train."""
    tf_booster.enable_gpu_booster()
    made, found = estimator(folder), []

    class Kept(tf.estimator.Exporter):
        name = "kept"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):  # pylint: disable=redefined-outer-name
            path = estimator.export_saved_model(export_path, receiver, checkpoint_path=checkpoint_path).decode()
            found.append({"evaluation": eval_result, "path": checkpoint_path, "export": path})

    if rank == 0:
        spec = tf.estimator.EvalSpec(input_fn, steps=None, throttle_secs=0, start_delay_secs=0, exporters=[Kept()])
        tf.estimator.train_and_evaluate(made, tf.estimator.TrainSpec(input_fn, max_steps=3), spec)
    else:
        made.train(input_fn, max_steps=3)
    return found


def test_train_and_evaluate_on_one_rank(tmp_path):
    found, others = launch.values(within, 2, folder=str(tmp_path))
    tf_booster.enable_gpu_booster()
    assert found and not others
    made = estimator(str(tmp_path))
    for each in found:
        assert each["evaluation"] == made.evaluate(input_fn, checkpoint_path=each["path"])
        keys = tf.train.load_checkpoint(f"{each['export']}/variables/variables").get_tensor("ids/keys")
        assert len(keys) == len(set(keys)) and set(keys) <= set(IDS)
