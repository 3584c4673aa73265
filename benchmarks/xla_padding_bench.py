"""Predictions of batches of 1 to 2,000 rows, drawn at random: with the option xla="padded", without it, and plain TensorFlow.

A tower of layers, which is products; a deep and cross network; attention over a history with Dice, as in a deep interest network; gates between
normalized layers, which is ops that compute each number by itself. Features come from memory; predictions are compared first.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf

from benchmarks import sessions
from benchmarks.harness import OURS, Result, contest
from tf_booster import options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
MOST, BATCHES, HISTORY, DIM = 2000, 24, 50, 16
WITHOUT = "without"
WARM_ROUNDS = 4  # XLA compiles a size when it comes again.


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for model in MODELS:
        for sizes in ("1 to 2,000", "1 to 40", "1,000"):
            yield contest_of(model, sizes, threads)


def contest_of(model: str, sizes: str, threads: int) -> Result:
    build, columns = MODELS[model]
    rng = np.random.RandomState(1)
    rows = {"1 to 2,000": rng.randint(1, MOST + 1, BATCHES), "1 to 40": rng.randint(1, 41, BATCHES)}
    counts = rows.get(sizes, np.full(4, 1000))
    data = [rng.standard_normal((count, columns)).astype(np.float32) for count in counts]
    turns: Dict[str, Any] = {}
    found: List[List[np.ndarray]] = []
    clusters = 0
    for contestant, xla in {OURS: "padded", WITHOUT: "off", "TensorFlow": None}.items():
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            x = v1.placeholder(tf.float32, [None, columns])
            score = build(x)
            if xla:
                pipelines.rewrite(graph, options.Options(xla=xla))
                clusters += len([op for op in graph.get_operations() if op.type == "TfBoosterPadRows"])
            session = sessions.initialized(threads)
            call = session.make_callable(score, [x])
        for _ in range(WARM_ROUNDS):
            results = [call(batch) for batch in data]
        found.append(results)
        turns[contestant] = _turn(call, data)
    for results in zip(*found):
        for others in results[1:]:
            np.testing.assert_allclose(results[0], others, rtol=1e-4, atol=1e-5)
    rates = contest(turns, float(sum(counts)), seconds=4.0)
    return Result("xla_padding", model, 0, f"{sizes} rows", threads, "M rows/s", rates, {"clusters": clusters})


def _turn(call: Any, data: List[np.ndarray]) -> Any:
    def turn(_: int) -> None:
        for batch in data:
            call(batch)

    return turn


def _dense(x: tf.Tensor, width: int, name: str, activation: Any = None) -> tf.Tensor:
    initializer = v1.glorot_uniform_initializer(len(name))
    return v1.layers.dense(x, width, activation, kernel_initializer=initializer, name=name)


def tower(x: tf.Tensor) -> tf.Tensor:
    for i, width in enumerate((256, 128, 64)):
        x = _dense(x, width, f"layer_{i}", tf.nn.relu)
    return tf.sigmoid(_dense(x, 1, "score"))


def cross_network(x: tf.Tensor) -> tf.Tensor:
    """Four cross layers beside a tower."""
    crossed, columns = x, x.shape[1]
    for i in range(4):
        weight = v1.get_variable(f"cross_{i}", [columns], initializer=v1.random_uniform_initializer(-0.05, 0.05, i))
        bias = v1.get_variable(f"bias_{i}", [columns], initializer=v1.zeros_initializer())
        crossed = x * tf.reduce_sum(crossed * weight, 1, keepdims=True) + bias + crossed
    deep = _dense(_dense(x, 128, "deep_0", tf.nn.relu), 64, "deep_1", tf.nn.relu)
    return tf.sigmoid(_dense(tf.concat([crossed, deep], 1), 1, "score"))


def attention(x: tf.Tensor) -> tf.Tensor:
    """How much each item of a history says of the target."""
    history = tf.reshape(x[:, : HISTORY * DIM], [-1, HISTORY, DIM])
    target = tf.tile(x[:, None, HISTORY * DIM :], [1, HISTORY, 1])
    pairs = tf.concat([history, target, history - target, history * target], 2)
    hidden = _dice(_dense(pairs, 36, "attention_0"), 0)
    weights = tf.nn.softmax(_dense(hidden, 1, "attention_1"), 1)
    user = tf.reduce_sum(history * weights, 1)
    return tf.sigmoid(_dense(_dice(_dense(tf.concat([user, target[:, 0]], 1), 64, "deep"), 1), 1, "score"))


def _dice(x: tf.Tensor, number: int) -> tf.Tensor:
    """Dice as it predicts: moments that were gathered in training."""
    mean, variance, alpha = (
        v1.get_variable(f"{name}_{number}", [x.shape[-1]], initializer=v1.constant_initializer(value))
        for name, value in (("mean", 0.1), ("variance", 0.5), ("alpha", 0.2))
    )
    share = tf.sigmoid((x - mean) * tf.math.rsqrt(variance + 1e-3))
    return share * x + (1.0 - share) * alpha * x


def gates(x: tf.Tensor) -> tf.Tensor:
    """Layers that choose between what they read and a GELU of it, and are normalized."""
    y = x
    for i in range(4):
        gate = tf.sigmoid(y * v1.get_variable(f"gate_{i}", [x.shape[1]], initializer=v1.ones_initializer()))
        y = y * gate + x * (1.0 - gate)
        y = 0.5 * y * (1.0 + tf.tanh(0.7978846 * (y + 0.044715 * y * y * y)))
        y = y - tf.reduce_mean(y, 1, keepdims=True)
        y = y * tf.math.rsqrt(tf.reduce_mean(tf.square(y), 1, keepdims=True) + 1e-5)
    return tf.sigmoid(_dense(y, 1, "score"))


MODELS = {
    "tower": (tower, 416),
    "cross": (cross_network, 416),
    "attention": (attention, (HISTORY + 1) * DIM),
    "gates": (gates, 256),
}
