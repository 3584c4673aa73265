"""Scores with the option scoring_precision, int8 and int16, beside float32 and plain TensorFlow: a layer alone, and a pre-ranking model, from one candidate to 4,096.

The model is trained first, on clicks that depend on its ids; how far scores in integers are from those in float32, and what becomes of their order, is among
the facts. Features come from memory.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import sessions
from benchmarks.harness import OURS, Result, contest
from tf_booster import options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
FIELDS, DIM, ROWS, NUMBERS = 26, 16, 10_000, 13
WIDTHS = (512, 512, 256, 128)
BATCHES = (1, 32, 1000, 4096)
ROWS_OF_A_TURN = 8192
TRAINING, TRAINING_BATCH, SCORED = 300, 512, 20_000
PRECISIONS = {OURS: "int8", "int16": "int16", "float32": "float32", "TensorFlow": None}  # None: not rewritten.


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for batch in BATCHES:
        yield layer(batch, threads)
    with tempfile.TemporaryDirectory() as folder:
        saved = _train(os.path.join(folder, "model"))
        for batch in BATCHES:
            yield model(batch, threads, saved)


def layer(batch: int, threads: int) -> Result:
    """[batch, 512] times [512, 512] with bias and Relu; nothing else."""
    turns = {}
    for contestant, precision in PRECISIONS.items():
        with tf.Graph().as_default() as graph:
            x = v1.get_variable("x", [batch, 512], initializer=v1.random_normal_initializer(seed=1))
            reader = tf.reduce_sum(_dense(x, 512, "layer"))  # Is not run.
            _rewrite(graph, precision)
            session = sessions.initialized(threads)
            turns[contestant] = _turn(session.make_callable(reader.op.inputs[0].op), batch, [])
    rates = contest(turns, 1000 * _steps(batch) * batch, seconds=2.0)
    return Result("quantized_scoring", "layer", batch, "", threads, "k rows/s", rates, {})


def model(batch: int, threads: int, saved: str) -> Result:
    """Lookups of 26 fields, and four layers."""
    turns, scores = {}, {}
    data, clicks = _data(np.random.RandomState(99), SCORED)
    for contestant, precision in PRECISIONS.items():
        with tf.Graph().as_default() as graph:
            inputs, logits = _model()
            score = tf.sigmoid(logits)
            saver = v1.train.Saver(v1.trainable_variables())
            _rewrite(graph, precision)
            session = sessions.initialized(threads)
            saver.restore(session, saved)
        scores[contestant] = session.run(score, dict(zip(inputs, data)))
        call = session.make_callable(score, inputs)
        turns[contestant] = _turn(call, batch, [value[:batch] for value in data])
    rates = contest(turns, 1000 * _steps(batch) * batch, seconds=2.0)
    return Result("quantized_scoring", "model", batch, "", threads, "k rows/s", rates, _facts(scores, clicks))


def _rewrite(graph: tf.Graph, precision: Optional[str]) -> None:
    if precision is not None:
        pipelines.rewrite(graph, options.Options(scoring_precision=precision))


def _facts(scores: Dict[str, np.ndarray], clicks: np.ndarray) -> Dict[str, Any]:
    plain = scores["TensorFlow"]
    facts: Dict[str, Any] = {"AUC": round(_auc(plain, clicks), 5)}
    for contestant, precision in list(PRECISIONS.items())[:2]:
        off = np.abs(scores[contestant] - plain)
        facts[f"{precision} within 1 %"] = round(float((off <= 0.01 * plain).mean()), 4)
        facts[f"{precision} largest"] = float(f"{off.max():.1e}")
        facts[f"{precision} order"] = round(float(np.corrcoef(_ranks(scores[contestant]), _ranks(plain))[0, 1]), 6)
        facts[f"{precision} AUC"] = round(_auc(scores[contestant], clicks), 5)
    return facts


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)


def _auc(scores: np.ndarray, clicks: np.ndarray) -> float:
    ranks, positive = _ranks(scores), clicks.sum()
    return float((ranks[clicks == 1].sum() - positive * (positive - 1) / 2) / (positive * (len(clicks) - positive)))


def _turn(call: Callable[..., Any], batch: int, values: List[np.ndarray]) -> Callable[[int], None]:
    def turn(_: int) -> None:
        for _ in range(_steps(batch)):
            call(*values)

    return turn


def _steps(batch: int) -> int:
    return min(500, max(1, ROWS_OF_A_TURN // batch))


def _dense(x: tf.Tensor, width: int, name: str, activation: Any = tf.nn.relu) -> tf.Tensor:
    return v1.layers.dense(x, width, activation, kernel_initializer=v1.glorot_uniform_initializer(width), name=name)


def _model() -> Tuple[List[tf.Tensor], tf.Tensor]:
    ids, numbers = v1.placeholder(tf.int64, [None, FIELDS]), v1.placeholder(tf.float32, [None, NUMBERS])
    vectors = []
    for i in range(FIELDS):
        table = v1.get_variable(f"v{i}", [ROWS, DIM], initializer=v1.random_uniform_initializer(-0.05, 0.05, seed=i))
        vectors.append(tf.nn.embedding_lookup(table, ids[:, i]))
    x = tf.concat([*vectors, numbers], 1)
    for i, width in enumerate(WIDTHS):
        x = _dense(x, width, f"layer_{i}")
    return [ids, numbers], _dense(x, 1, "logits", None)[:, 0]


def _data(rng: np.random.RandomState, rows: int) -> Tuple[List[np.ndarray], np.ndarray]:
    """Features, some ids of which are frequent, and clicks that depend on them."""
    ids = np.minimum(rng.zipf(1.3, (rows, FIELDS)), ROWS) - 1
    numbers = np.log1p(rng.lognormal(1, 2, (rows, NUMBERS))).astype(np.float32)
    taste = np.random.RandomState(7).standard_normal((FIELDS, ROWS))
    liked = taste[np.arange(FIELDS), ids].sum(1) / 3 + (numbers[:, 0] - numbers[:, 1]) / 2 - 1
    return [ids, numbers], (rng.random_sample(rows) < 1 / (1 + np.exp(-liked))).astype(np.int64)


def _train(path: str) -> str:
    """Trains the model for some steps by plain TensorFlow; returns where it is saved."""
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        inputs, logits = _model()
        labels = v1.placeholder(tf.float32, [None])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        step = v1.train.AdagradOptimizer(0.05).minimize(loss)
        saver = v1.train.Saver(v1.trainable_variables())
        rng = np.random.RandomState(1)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(TRAINING):
                data, clicks = _data(rng, TRAINING_BATCH)
                session.run(step, {**dict(zip(inputs, data)), labels: clicks})
            return saver.save(session, path)
