"""unique on a million int64: all different, uniform draws, and Zipf."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import data, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import _native

v1 = tf.compat.v1
COUNT = 1 << 20
POPULATION = 10_000_000


def run(threads: int) -> Iterator[Result]:
    inputs = {"distinct": np.random.default_rng(0).permutation(COUNT)}
    for distribution in data.DISTRIBUTIONS:
        inputs[distribution] = data.ranks(distribution, POPULATION, COUNT, seed=1)
    for name, ranks in inputs.items():
        keys = data.keys_of(ranks)
        with tf.Graph().as_default(), tables.session(threads) as session:
            fed = tables.held(keys)
            session.run(v1.global_variables_initializer())
            outputs = {OURS: _native.ops().tf_booster_unique(fed), "tf.unique": tf.unique(fed)}
            for y, idx in session.run(list(outputs.values())):
                np.testing.assert_array_equal(y[idx], keys)
                assert len(np.unique(keys)) == len(y)
            runners = {label: tables.runner(session, [y, idx]) for label, (y, idx) in outputs.items()}
            rates = contest(runners, COUNT)
            facts = {"keys": COUNT, "unique": f"{data.unique_share(keys):.0%}"}
            yield Result("unique", "op", 0, name, threads, "M keys/s", rates, facts)
