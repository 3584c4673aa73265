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
from tf_booster.passes.collective_names import CollectiveNames
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
STEPS, RATE = 6, 0.1
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(16, 2)


def gradient(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.mean(2 * (x @ w - 1)[:, None] * x, axis=0) + 0.1 * w


def train(rank: int, size: int, folder: str, passes: int, horovod: Any = "auto") -> List[float]:
    """As Horovod's documentation has it."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster(horovod=horovod)
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


@pytest.mark.parametrize("passes, horovod", [(1, "auto"), (2, "auto"), (1, False)])
def test_rank_0_alone_saves(passes: int, horovod: Any, tmp_path: Any) -> None:
    w, summed = np.ones(2), np.zeros(2)
    for step in range(STEPS):
        summed += sum(gradient(w, X[rank::2][step % 2 * 4 :][:4]) for rank in range(2)) / 2
        if step % passes == passes - 1:
            w, summed = w - RATE * summed, np.zeros(2)
    for found in launch.values(train, 2, folder=str(tmp_path), passes=passes, horovod=horovod):
        np.testing.assert_allclose(found, w, rtol=1e-5)


def same_names(rank: int, size: int, horovod: Any) -> List[Any]:
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster(horovod=horovod)
    hvd.init()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        hvd.allreduce(x, name="x_0")
        each = lambda: hvd.allreduce(x, name="x")  # noqa: E731
        inner = lambda: tf.cond(x > 2.0, each, lambda: x)  # noqa: E731
        one_of = tf.switch_case(tf.cast(x > 2.0, tf.int32), [lambda: x, each])
        means = [tf.cond(x > 0.0, each, lambda: x), tf.cond(x > 1.0, inner, lambda: x), one_of]
        names = CollectiveNames()
        result = names.run(GraphView(graph))
        names.ensures(GraphView(graph))
        assert not names.run(GraphView(graph)).modified  # As in a graph that is rewritten again.
        called = [op.get_attr("then_branch").name for op in GraphView(graph).ops("If", "StatelessIf")]
        called += [
            function.name
            for op in GraphView(graph).ops("Case", "StatelessCase")
            for function in op.get_attr("branches")
        ]
        bodies = [body for body in _compat.function_definitions(graph) if "_named_" in body.signature.name]
        nodes = [node for body in bodies for node in body.node_def if node.op == "HorovodAllreduce"]
        with v1.Session() as session:
            values = session.run(means, {x: 3.0 + rank})
        unscoped = [node.attr["ignore_name_scope"].b for node in nodes]
        return [result.changes, called, sorted(node.name for node in nodes), unscoped, values, progress.counts()]


@pytest.mark.parametrize("horovod", ["auto", False])
def test_names_are_of_one_collective_each(horovod: Any) -> None:
    names = ["x_0_again_1", "x_0_again_2", "x_0_again_3"]
    for (change,), called, found, unscoped, values, counts in launch.values(same_names, 2, horovod=horovod):
        assert change.startswith("3 collectives") and found == names and unscoped == [True] * 3
        assert len(set(called)) == 4 and ["_named_" in name for name in called] == [True, True, False, True]
        assert values == [3.5] * 3
        marked = {name: counts[name] for name in names if name in counts}
        assert marked == ({} if horovod is False else dict.fromkeys(names, (1, 1)))


def names_in_branches(rank: int, size: int) -> List[Any]:
    import horovod.tensorflow as hvd

    hvd.init()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        for i in range(8):
            tf.cond(x > i, lambda: hvd.allreduce(x, name="both"), lambda: hvd.allreduce(2 * x, name="both"))
        CollectiveNames().run(GraphView(graph))
        bodies = _compat.functions_by_name(graph)
        called = [
            bodies[op.get_attr(f"{which}_branch").name]
            for op in GraphView(graph).ops("If", "StatelessIf")
            for which in ("else", "then")
        ]
        return [node.name for body in called for node in body.node_def if node.op == "HorovodAllreduce"]


def test_both_branches_have_the_same_names_on_all_ranks() -> None:
    """A map's order is another in each process."""
    first, second = launch.values(names_in_branches, 2)
    assert first == second == ["both_0", *(f"both_0_again_{i}" for i in range(1, 16))]
