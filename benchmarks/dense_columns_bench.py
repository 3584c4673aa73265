"""A training step of columns of many ops: indicator, bucketized, crossed and vocabulary columns, and embeddings with max_norm."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from benchmarks import sessions, tables
from benchmarks.harness import Result

v1 = tf.compat.v1
fc = tf.feature_column
FEATURES, BUCKETS, DIM, UNITS = 40, 50, 8, 32
WORDS = [f"word {i}" for i in range(BUCKETS)]
BOUNDARIES = list(np.linspace(0.0, 1.0, BUCKETS - 1))


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for kind in KINDS:
        for batch in (64, 512):
            yield contest_of(kind, batch, threads)


def contest_of(kind: str, batch: int, threads: int) -> Result:
    rates = sessions.contest_of_steps(lambda: _model(kind, batch), batch, threads)
    return Result("dense_columns", kind, 0, f"batch {batch}", threads, "M examples/s", rates, {"features": FEATURES})


def _model(kind: str, batch: int) -> Any:
    rng = np.random.default_rng(0)
    features = {}
    for i in range(FEATURES):
        numbers = rng.random((batch, 1)).astype(np.float32)
        given = numbers if "bucketized" in kind else (numbers * BUCKETS).astype(np.int64)
        if kind == "crossed" or "vocabulary" in kind:
            given = np.char.add("word ", given.astype(str)).astype(object)
        features[f"f{i}"] = tf.ensure_shape(tables.held(given), [None, 1])
    layer = v1.feature_column.input_layer(features, [KINDS[kind](name) for name in features])
    kernel = v1.get_variable("kernel", [layer.shape[1], UNITS], initializer=v1.random_normal_initializer(0.0, 0.1))
    loss = tf.reduce_mean(tf.square(tf.nn.relu(layer @ kernel)))
    return loss, v1.train.AdagradOptimizer(0.01).minimize(loss)


def _bucketized(name: str) -> Any:
    return fc.bucketized_column(fc.numeric_column(name), BOUNDARIES)


def _crossed(name: str) -> Any:
    """Of a feature and the next one, texts both."""
    other = f"f{(int(name[1:]) + 1) % FEATURES}"
    return fc.embedding_column(fc.crossed_column([name, other], BUCKETS * BUCKETS), DIM)


KINDS = {
    "indicator": lambda name: fc.indicator_column(fc.categorical_column_with_identity(name, BUCKETS)),
    "bucketized": _bucketized,
    "bucketized, embedded": lambda name: fc.embedding_column(_bucketized(name), DIM),
    "crossed": _crossed,
    "vocabulary": lambda name: fc.embedding_column(fc.categorical_column_with_vocabulary_list(name, WORDS), DIM),
    "half a vocabulary": lambda name: fc.embedding_column(
        fc.categorical_column_with_vocabulary_list(name, WORDS[::2], num_oov_buckets=10), DIM
    ),
    "with max_norm": lambda name: fc.embedding_column(
        fc.categorical_column_with_identity(name, BUCKETS), DIM, max_norm=1.0
    ),
}
