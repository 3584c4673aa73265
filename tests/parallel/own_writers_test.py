"""Savers to which a program adds ops that write files beside the checkpoint, as EasyRec does for embeddings of which each rank has a part."""

from __future__ import annotations

import os
from typing import Any, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1


class PartSaver(v1.train.Saver):
    """Also saves `part`, each rank its own, as <checkpoint>-part-<rank>, and restores it: zeros where there is no such file."""

    def __init__(self, part: Any, rank: int, variables: List[Any]) -> None:
        self.part, self.rank = part, rank
        super().__init__(variables)

    def build(self) -> None:
        if self._is_built:
            return
        super().build()
        graph = v1.get_default_graph()
        names = self.saver_def
        prefix, saved = (graph.get_tensor_by_name(n) for n in (names.filename_tensor_name, names.save_tensor_name))
        ops = [v1.py_func(self._write, [self.part, prefix], tf.string), *([saved] if self.rank == 0 else [])]
        with tf.control_dependencies(ops):
            names.save_tensor_name = tf.identity(prefix).name
        value = tf.ensure_shape(v1.py_func(self._read, [prefix], tf.float32), self.part.shape)
        restored = graph.get_operation_by_name(names.restore_op_name)
        names.restore_op_name = tf.group(self.part.assign(value), restored).name

    def _write(self, part: np.ndarray, prefix: bytes) -> bytes:
        part.tofile(f"{prefix.decode()}-part-{self.rank}")
        return prefix

    def _read(self, prefix: bytes) -> np.ndarray:
        name = f"{prefix.decode()}-part-{self.rank}"
        return np.fromfile(name, np.float32) if os.path.exists(name) else np.zeros(2, np.float32)


def train(rank: int, size: int, folder: str) -> List[List[float]]:
    """Three trainings; the part at the beginning of each. The third begins again at the step of the first."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()
    found = []
    for restores, steps in ((False, 2), (True, 1), (False, 2)):
        with tf.Graph().as_default():
            step = v1.train.get_or_create_global_step()
            part = v1.get_variable("part", [2], initializer=v1.constant_initializer(5.0 + rank + 10 * len(found)))
            w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
            train_op = tf.group(w.assign_add(hvd.allreduce(part)), step.assign_add(1))
            scaffold = v1.train.Scaffold(saver=PartSaver(part, rank, [w, step]))
            hooks = [v1.train.CheckpointSaverHook(folder, save_steps=1, scaffold=scaffold)]
            creator = v1.train.ChiefSessionCreator(scaffold, checkpoint_dir=folder if restores else None)
            with v1.train.MonitoredSession(creator, hooks) as session:
                found.append(session._tf_sess().run(part).tolist())
                for _ in range(steps):
                    session.run(train_op)
    return [*found, np.fromfile(f"{folder}/model.ckpt-2-part-{rank}", np.float32).tolist()]


@pytest.mark.parametrize("size", [1, 2])
def test_each_rank_writes_its_files(size: int, tmp_path: Any) -> None:
    for rank, found in enumerate(launch.values(train, size, folder=str(tmp_path))):
        assert found == [[own + rank] * 2 for own in (5.0, 5.0, 25.0, 25.0)]


def test_beside_a_table_such_a_saver_is_refused(tmp_path: Any) -> None:
    tf_booster.enable_gpu_booster()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            table = tf_booster.get_hash_table("table", 2)
            part = v1.get_variable("part", [2])
            tf_booster.embedding_lookup(table, tf.constant([1]))
            tf_booster.rewrite_graph()
            saver = PartSaver(part, 0, [*v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)])
            session.run(v1.global_variables_initializer())
            with pytest.raises(ValueError, match="is given the checkpoint's name"):
                saver.save(session, str(tmp_path / "model.ckpt"))
    finally:
        tf_booster.disable_gpu_booster()
