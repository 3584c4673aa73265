"""Programs' own collectives in functions: ranks meet whatever else their graphs have, as rank 0's that alone saves checkpoints."""

from __future__ import annotations

from typing import Any, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat
from tf_booster.parallel import progress
from tf_booster.passes.collective_names import name_in_functions
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
STEPS, RATE = 6, 0.1
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(16, 2)


def gradient(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.mean(2 * (x @ w - 1)[:, None] * x, axis=0) + 0.1 * w


def train(rank: int, size: int, folder: str, passes: int) -> List[float]:
    """As Horovod's documentation has it."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()
    with tf.Graph().as_default():
        x = v1.data.make_one_shot_iterator(
            tf.data.Dataset.from_tensor_slices(X[rank::size]).batch(4).repeat()
        ).get_next()
        w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - 1.0)) + 0.05 * tf.reduce_sum(tf.square(w))
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(RATE), backward_passes_per_step=passes)
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=folder if rank == 0 else None,
            hooks=[hvd.BroadcastGlobalVariablesHook(0)],
            save_checkpoint_steps=2,
        ) as session:
            for _ in range(STEPS):
                session.run(train_op)
            return session.run(w).tolist()


@pytest.mark.parametrize("passes", [1, 2])
def test_rank_0_alone_saves(passes: int, tmp_path: Any) -> None:
    w, summed = np.ones(2), np.zeros(2)
    for step in range(STEPS):
        summed += sum(gradient(w, X[rank::2][step % 2 * 4 :][:4]) for rank in range(2)) / 2
        if step % passes == passes - 1:
            w, summed = w - RATE * summed, np.zeros(2)
    for found in launch.values(train, 2, folder=str(tmp_path), passes=passes):
        np.testing.assert_allclose(found, w, rtol=1e-5)


def same_names(rank: int, size: int) -> List[Any]:
    import horovod.tensorflow as hvd

    hvd.init()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        hvd.allreduce(x, name="x_0")
        each = lambda: hvd.allreduce(x, name="x")  # noqa: E731
        inner = lambda: tf.cond(x > 2.0, each, lambda: x)  # noqa: E731
        means = [tf.cond(x > 0.0, each, lambda: x), tf.cond(x > 1.0, inner, lambda: x)]
        view = GraphView(graph)
        number = name_in_functions(view)
        assert name_in_functions(GraphView(graph)) == 0  # As in a graph that is rewritten again.
        called = [op.get_attr("then_branch").name for op in view.ops("If", "StatelessIf")]
        bodies = [body for body in _compat.function_definitions(graph) if "_named_" in body.signature.name]
        nodes = [node for body in bodies for node in body.node_def if node.op == "HorovodAllreduce"]
        with v1.Session() as session:
            values = session.run(means, {x: 3.0 + rank})
        unscoped = [node.attr["ignore_name_scope"].b for node in nodes]
        return [number, called, sorted(node.name for node in nodes), unscoped, values, progress.counts()]


def test_names_are_of_one_collective_each() -> None:
    names = ["x_0_again_1", "x_0_again_2"]
    for number, called, found, unscoped, values, counts in launch.values(same_names, 2):
        assert number == 2 and found == names and unscoped == [True, True]
        assert len(set(called)) == 2 and all("_named_" in name for name in called)
        assert values == [3.5, 3.5]
        assert [counts[name] for name in names] == [(1, 1), (1, 1)]
