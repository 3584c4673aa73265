"""A training step of 38 tables of two dimensions: fused to two, and each by itself."""

from __future__ import annotations

from typing import Any, Iterator, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import sessions
from benchmarks.harness import OURS, Result, contest
from tf_booster.options import Options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
TABLES = 38
STEPS = 10  # In one turn.


def run(threads: int) -> Iterator[Result]:
    for batch in (64, 512, 4096):
        yield contest_of(batch, threads)


def contest_of(batch: int, threads: int) -> Result:
    """Steps per second with `fuse_tables` on and off; both forms are made to agree first."""
    fused, apart = (session(batch, fuse, threads) for fuse in (True, False))
    for _ in range(3):
        losses = [sess.run([loss, train])[0] for sess, loss, train in (fused, apart)]
        assert losses[0] == losses[1], losses
    both = {OURS: fused, "not fused": apart}
    runners = {name: sessions.turn_of(sess, train, STEPS) for name, (sess, _, train) in both.items()}
    rates = contest(runners, STEPS * 1e6, seconds=3.0)
    facts = {"tables": TABLES, "batch": batch}
    return Result("table_fusion", f"batch {batch} adagrad", 16, "zipf", threads, "steps/s", rates, facts)


def session(batch: int, fuse: bool, threads: int) -> Tuple[Any, Any, Any]:
    """A session, its loss and its train op; the same ids at every step."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        ids = tf.constant(np.random.RandomState(0).zipf(1.2, [batch, TABLES]).astype(np.int64))
        source = v1.Variable(ids, trainable=False, use_resource=True).read_value()
        tables = [tf_booster.get_hash_table(f"t{i}", 8 if i % 2 else 16) for i in range(TABLES)]
        values = [tf_booster.embedding_lookup(table, source[:, i]) for i, table in enumerate(tables)]
        loss = tf.reduce_mean(tf.square(tf.concat(values, 1)))
        train = v1.train.AdagradOptimizer(0.01).minimize(loss)
        pipelines.rewrite(graph, Options(fuse_tables=fuse))
        return sessions.initialized(threads), loss, train
