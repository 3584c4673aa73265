"""The lookups of a step and their gradients: 38 embedding columns on ordinary Variables, as TensorFlow runs them and fused."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import tensorflow as tf

from benchmarks import tables
from benchmarks.harness import OURS, Result, contest
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.order_free_unique import OrderFreeUnique
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.variable_gathers import VariableGathers

v1 = tf.compat.v1
FEATURES, BUCKETS, DIM = 38, 10_000, 16


def run(threads: int) -> Iterator[Result]:
    for name, batch, width in (("one id", 512, 1), ("one id", 4096, 1), ("1 to 8 ids", 512, 8)):
        sessions: List[v1.Session] = []
        runners: Dict[str, Callable[[int], Any]] = {}
        losses = {}
        for label in (OURS, "TensorFlow"):
            with tf.Graph().as_default() as graph:
                fetches = _model(batch, width)
                if label == OURS:
                    passes = [SparseLookups(), VariableGathers(), OrderFreeUnique()]
                    pipelines.rewrite(graph, Options(), only=passes)
                session = tables.session(threads)
                sessions.append(session)
                session.run(v1.global_variables_initializer())
                losses[label] = session.run(fetches)[0]
                runners[label] = tables.runner(session, fetches)
        assert losses[OURS] == losses["TensorFlow"], losses
        rates = contest(runners, batch * FEATURES)
        for session in sessions:
            session.close()
        facts = {"features": FEATURES, "batch": batch}
        yield Result(
            "sparse_lookup", "forward and gradient", DIM, f"{name}, batch {batch}", threads, "M rows/s", rates, facts
        )


def _model(batch: int, width: int) -> List[Any]:
    """The loss and the sparse gradients of a sum of embedding columns of dense ids, −1 where there is none."""
    rng = np.random.default_rng(0)
    features = {}
    for i in range(FEATURES):
        ids = rng.integers(0, BUCKETS, (batch, width))
        ids[np.arange(width) >= rng.integers(1, width + 1, (batch, 1))] = -1
        features[f"f{i}"] = tables.held(ids)
    make = tf.feature_column.categorical_column_with_identity
    columns = [
        tf.feature_column.embedding_column(make(name, BUCKETS), DIM, initializer=v1.ones_initializer())
        for name in features
    ]
    features = {name: tf.ensure_shape(ids, [None, width]) for name, ids in features.items()}
    layer = v1.feature_column.input_layer(features, columns)
    loss = tf.reduce_sum(tf.tanh(layer))
    gradients = tf.gradients(loss, v1.trainable_variables())
    with tf.control_dependencies([tensor for g in gradients for tensor in (g.values + 0.0, g.indices + 0)]):
        return [tf.identity(loss)]
