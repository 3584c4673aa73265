"""Batch normalization that trains, forward and backward with its moving averages, beside TensorFlow's ops."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import initialized, turn_of

v1 = tf.compat.v1
SHAPES = ((8, 64, 32), (8, 256, 32), (8, 1024, 256), (1, 4096, 1024))  # Layers, rows, units.


def run(threads: int) -> Iterator[Result]:
    for layers, rows, units in SHAPES:
        steps = max(1, 2**22 // (layers * rows * units) // 4)
        rates = contest_of(layers, rows, units, steps, threads)
        count = f"{layers} layer{'s' * (layers > 1)}"
        yield Result("batch_normalization", f"{rows} rows", units, count, threads, "layers/s", rates, {})


def contest_of(layers: int, rows: int, units: int, steps: int, threads: int) -> Dict[str, Any]:
    """The layers of a step, side by side. Outputs, gradients and moving averages are compared first."""
    runners: Dict[str, Any] = {}
    found = []
    for contestant in (OURS, "TensorFlow"):
        with tf.Graph().as_default() as graph:
            made, step = _step(layers, rows, units)
            if contestant == OURS:
                tf_booster.rewrite_graph(graph)
            session = initialized(threads)
            found.append(session.run(made))
            session.run(step)
            found[-1] += session.run([v for v in v1.global_variables() if "moving" in v.name])
            runners[contestant] = turn_of(session, step, steps)
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())
    return contest(runners, steps * layers * 1e6, seconds=2.0)


def _step(layers: int, rows: int, units: int) -> Any:
    """Outputs and gradients of all layers, and what computes them and writes the averages."""
    rng = np.random.RandomState(0)
    made = []
    for _ in range(layers):
        x, dy = (
            v1.Variable(rng.standard_normal((rows, units)).astype(np.float32), trainable=False, use_resource=True)
            for _ in range(2)
        )
        given = x.read_value()
        before = len(v1.trainable_variables())
        y = v1.layers.batch_normalization(given, training=True)
        made += [y, *tf.gradients(y, [given, *v1.trainable_variables()[before:]], dy.read_value())]
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    # Grappler leaves out what is only waited for.
    kept = [v1.Variable(tf.zeros(tensor.shape), trainable=False, use_resource=True).assign(tensor) for tensor in made]
    step = tf.group(*(variable.op for variable in kept), *updates)
    v1.add_to_collection(v1.GraphKeys.TRAIN_OP, step)
    return made, step
