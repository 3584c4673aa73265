"""Attention of 1,000 candidates over the histories of few users: the gathered batch product beside tf.gather and tf.matmul.

"scores" are products of a query with all keys, "sums" are of values by weights. Rows of one user are beside each other, as candidates come.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np
import tensorflow as tf

from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import initialized
from tf_booster import _native

v1 = tf.compat.v1
BATCH, STEPS = 1000, 5
SHAPES = ((50, 16), (50, 64), (500, 32))  # Length of a history, dim.


def run(threads: int) -> Iterator[Result]:
    for history, dim in SHAPES:
        for users in (1, 10, 100, BATCH):
            for what in ("scores", "sums"):
                yield contest_of(what, users, history, dim, threads)


def contest_of(what: str, users: int, history: int, dim: int, threads: int) -> Result:
    rng = np.random.RandomState(users)
    keys = rng.standard_normal((users, history, dim)).astype(np.float32)
    own = rng.standard_normal((BATCH, 1, dim if what == "scores" else history)).astype(np.float32)
    rows = np.sort(rng.randint(0, users, BATCH)).astype(np.int32) if users < BATCH else np.arange(BATCH, dtype=np.int32)
    with tf.Graph().as_default():
        given = [v1.placeholder_with_default(array, [None, *array.shape[1:]]) for array in (own, keys, rows)]
        ends = {
            OURS: _native.ops().tf_booster_gather_batch_mat_mul(
                x=given[0], y=given[1], rows=given[2], gathered="y", adj_y=what == "scores"
            ),
            "TensorFlow": tf.matmul(given[0], tf.gather(given[1], given[2]), transpose_b=what == "scores"),
        }
        session = initialized(threads)
    found = session.run(list(ends.values()))
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)
    turns: Dict[str, Any] = {name: _turn(session.make_callable(end.op)) for name, end in ends.items()}
    rates = contest(turns, STEPS * BATCH, seconds=1.0)
    return Result("gather_matmul", f"{what} {history}", dim, f"{users} users", threads, "M rows/s", rates, {})


def _turn(call: Any) -> Any:
    def turn(_: int) -> None:
        for _ in range(STEPS):
            call()

    return turn
