"""Programs with tables and Horovod of their own, as one process, or as two that read the same: the numbers of those without Horovod."""

from __future__ import annotations

from typing import Any, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
STEPS, BATCH = 4, 3
IDS = np.array([5, -1, 5, 2**40, 7, -1, 7, 7, 5, 0, 1, 2], np.int64)
HOW = ("optimizer", "clip behind", "by hand", "clip before", "group", "broadcast")


def minimize(how: str, loss: Any) -> Any:
    optimizer, step = v1.train.AdagradOptimizer(0.5), v1.train.get_or_create_global_step()
    if how in ("none", "broadcast"):
        return optimizer.minimize(loss, step)
    import horovod.tensorflow as hvd

    if how in ("optimizer", "gates"):
        gates = v1.train.Optimizer.GATE_GRAPH if how == "gates" else v1.train.Optimizer.GATE_OP
        return hvd.DistributedOptimizer(optimizer).minimize(loss, step, gate_gradients=gates)
    if how == "group":
        return hvd.DistributedOptimizer(optimizer, groups=1).minimize(loss, step)
    horovods = hvd.DistributedOptimizer(optimizer) if how == "clip behind" else optimizer
    gradients, variables = zip(*horovods.compute_gradients(loss))
    if how != "by hand":
        gradients, _ = tf.clip_by_global_norm(gradients, 100.0)
    if how != "clip behind":
        gradients = [hvd.allreduce(gradient) for gradient in gradients]
    return optimizer.apply_gradients(zip(gradients, variables), step)


def looked_up(ids: tf.Tensor, column: bool) -> tf.Tensor:
    ones = v1.ones_initializer()
    if not column:
        return tf_booster.embedding_lookup(tf_booster.get_hash_table("table", 2, initializer=ones), ids)
    of_ids = tf_booster.feature_column.categorical_column_with_hash_table("ids")
    return v1.feature_column.input_layer(
        {"ids": ids}, [tf.feature_column.embedding_column(of_ids, 2, initializer=ones)]
    )


def train(
    rank: int, size: int, folder: str, how: str, v2: bool, static: bool = False, column: bool = False
) -> Dict[str, List[float]]:
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    hooks = []
    if how != "none":
        import horovod.tensorflow as hvd

        hvd.init()
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    tf_booster.enable_gpu_booster()
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(IDS).batch(BATCH, drop_remainder=static)
        ids = v1.data.make_one_shot_iterator(dataset).get_next()
        rows = looked_up(ids, column)
        w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.square(tf.linalg.matvec(rows, w) - 3.0))
        train_op = minimize(how, loss)
        with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks) as session:
            for _ in range(STEPS):
                session.run(train_op)
    reader = tf.train.load_checkpoint(folder)
    found = {
        name: np.asarray(reader.get_tensor(name)) for name, shape in reader.get_variable_to_shape_map().items() if shape
    }
    order = np.argsort(found[keys_in(found)])  # Ranks have the rows that they own.
    return {name: (of[order] if len(of) == len(order) else of).ravel().tolist() for name, of in found.items()}


def keys_in(found: Dict[str, Any]) -> str:
    return next(name for name in found if name.endswith("/keys"))


@pytest.mark.parametrize("v2", [True, False])
@pytest.mark.parametrize("how", HOW)
def test_one_process_trains_as_without_horovod(how: str, v2: bool, tmp_path: Any) -> None:
    check(1, str(tmp_path), how, v2)


@pytest.mark.parametrize("v2, static", [(True, True), (False, False), (False, True)])
@pytest.mark.parametrize("how", ["optimizer", "gates", "clip behind", "by hand"])
def test_ranks_with_the_same_batches_train_as_one_process(how: str, v2: bool, static: bool, tmp_path: Any) -> None:
    check(2, str(tmp_path), how, v2, static)


@pytest.mark.parametrize("v2", [True, False])
@pytest.mark.parametrize("how, size", [("broadcast", 1), ("optimizer", 1), ("optimizer", 2), ("by hand", 2)])
def test_tables_of_feature_columns(how: str, size: int, v2: bool, tmp_path: Any) -> None:
    check(size, str(tmp_path), how, v2, column=True)


def check(size: int, folder: str, how: str, v2: bool, static: bool = False, column: bool = False) -> None:
    program = {"v2": v2, "static": static, "column": column}
    (alone,) = launch.values(train, 1, folder=f"{folder}/alone", how="none", **program)
    # Columns leave negative ids of dense features out.
    assert alone[keys_in(alone)] == sorted(key for key in set(IDS.tolist()) if key >= 0 or not column)
    frequencies = keys_in(alone).replace("/keys", "/frequencies")
    alone[frequencies] = [size * n for n in alone[frequencies]]
    for found in launch.values(train, size, folder=f"{folder}/own", how=how, **program):
        assert found == alone


def made_before_the_graph(rank: int, size: int) -> str:
    import horovod.tensorflow as hvd

    hvd.init()
    tf_booster.enable_gpu_booster()
    optimizer = hvd.DistributedOptimizer(v1.train.AdagradOptimizer(0.5))  # Where TensorFlow is eager.

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_sum(looked_up(features, column=False))
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizer.minimize(loss, v1.train.get_global_step())
        )

    try:
        tf.estimator.Estimator(model_fn).train(lambda: tf.data.Dataset.from_tensors(IDS), steps=1)
    except ValueError as error:
        return str(error)
    return ""


def test_an_optimizer_that_was_made_before_the_graph() -> None:
    (error,) = launch.values(made_before_the_graph, 1)
    assert "made outside of the model function" in error and "optimizer=lambda: hvd.DistributedOptimizer(" in error
