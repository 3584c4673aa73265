"""Predictions through 26 embedding columns on ordinary Variables: read where they lie, gathered first, and as TensorFlow runs them."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf

from benchmarks import sessions, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster.options import Options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
FEATURES, ROWS, BATCH = 26, 100_000, 1000
GATHERED = "gathered"
STEPS = 5
DISABLED: Dict[str, Any] = {OURS: (), GATHERED: ("direct_lookups",), "TensorFlow": None}


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for dim in (16, 64):
        for width, keys in ((1, "uniform"), (1, "zipf"), (20, "uniform"), (20, "zipf")):
            yield contest_of(dim, width, keys, threads)


def contest_of(dim: int, width: int, keys: str, threads: int) -> Result:
    runners: Dict[str, Any] = {}
    found: List[np.ndarray] = []
    for contestant, disabled in DISABLED.items():
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            pooled = _model(dim, width, keys)
            fetch = tf.reduce_sum(pooled)
            if disabled is not None:
                pipelines.rewrite(graph, Options(disable_passes=disabled))
            session = sessions.initialized(threads)
            found.append(session.run(pooled))
            runners[contestant] = sessions.turn_of(session, fetch, STEPS)
    for others in found[1:]:
        np.testing.assert_array_equal(found[0], others)
    rates = contest(runners, STEPS * BATCH * FEATURES * width, seconds=3.0)
    facts = {"features": FEATURES, "batch": BATCH}
    return Result("direct_lookups", f"{width} id{'s' * (width > 1)} a row", dim, keys, threads, "M ids/s", rates, facts)


def _model(dim: int, width: int, keys: str) -> tf.Tensor:
    rng = np.random.default_rng(0)
    features = {}
    for i in range(FEATURES):
        shape = (BATCH, width)
        ids = rng.integers(0, ROWS, shape) if keys == "uniform" else rng.permutation(ROWS)[rng.zipf(1.05, shape) % ROWS]
        features[f"f{i}"] = tf.ensure_shape(tables.held(ids), [None, width])
    make = tf.feature_column.categorical_column_with_identity
    columns = [tf.feature_column.embedding_column(make(name, ROWS), dim) for name in features]
    return v1.feature_column.input_layer(features, columns)
