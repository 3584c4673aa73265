"""A training step of embedding tables under a partitioner, as code that was written for parameter servers has it."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from benchmarks import sessions, tables
from benchmarks.harness import Result

v1 = tf.compat.v1
FEATURES, ROWS, DIM, UNITS = 26, 100_000, 16, 64


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for parts in (4, 16):
        for batch in (64, 512):
            yield contest_of(parts, batch, threads)


def contest_of(parts: int, batch: int, threads: int) -> Result:
    rates = sessions.contest_of_steps(lambda: _model(parts, batch), batch, threads)
    return Result(
        "partitioned_variables",
        f"{parts}",
        DIM,
        f"batch {batch}",
        threads,
        "M examples/s",
        rates,
        {"features": FEATURES},
    )


def _model(parts: int, batch: int) -> Any:
    rng = np.random.default_rng(0)
    ids = {f"f{i}": np.minimum(rng.zipf(1.2, (batch, 1)) - 1, ROWS - 1) for i in range(FEATURES)}
    features = {name: tf.ensure_shape(tables.held(value), [None, 1]) for name, value in ids.items()}
    columns = [
        tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_identity(name, ROWS), DIM)
        for name in features
    ]
    with v1.variable_scope("tables", partitioner=v1.fixed_size_partitioner(parts)):
        embedded = v1.feature_column.input_layer(features, columns)
    initializer = v1.random_normal_initializer(0.0, 0.1)
    kernels = [
        v1.get_variable(name, size, initializer=initializer)
        for name, size in (("hidden", [embedded.shape[1], UNITS]), ("logit", [UNITS, 1]))
    ]
    loss = tf.reduce_mean(tf.square(tf.nn.relu(embedded @ kernels[0]) @ kernels[1] - 1.0))
    return loss, v1.train.AdagradOptimizer(0.01).minimize(loss)
