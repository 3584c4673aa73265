"""What an evaluation pays for tf.compat.v1.metrics.auc: one update of a batch's predictions."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from benchmarks import sessions, tables
from benchmarks.harness import Result

v1 = tf.compat.v1


def run(threads: int) -> Iterator[Result]:
    for thresholds in (200, 2_000):
        for batch in (1_000, 10_000):
            rates = sessions.contest_of_steps(lambda t=thresholds, b=batch: _model(t, b), batch, threads)
            what = f"{thresholds:,} thresholds"
            yield Result("auc", what, 0, f"batch {batch}", threads, "M predictions/s", rates, {})


def _model(thresholds: int, batch: int) -> Any:
    rng = np.random.default_rng(0)
    predictions = rng.random((batch, 1)).astype(np.float32)
    labels = (rng.random((batch, 1)) < predictions).astype(np.float32)
    given = [tf.ensure_shape(tables.held(values), [None, 1]) for values in (labels, predictions)]
    _, update = v1.metrics.auc(*given, num_thresholds=thresholds)
    return update, update.op
