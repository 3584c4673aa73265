"""Sessions of the benchmarks that time whole steps."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks.harness import OURS, contest

v1 = tf.compat.v1


def config_of(threads: int) -> v1.ConfigProto:
    """With as many threads in ops and between them."""
    return v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)


def initialized(threads: int, grappler: bool = True) -> v1.Session:
    """A session of the default graph with as many threads in ops and between them, whose Variables and tables are initialized.

    grappler: False for graphs whose numbers are compared, because Grappler regroups sums by what it finds.
    """
    config = config_of(threads)
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    session = v1.Session(config=config)
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
    return session


def turn_of(session: v1.Session, fetches: Any, steps: int) -> Callable[[int], None]:
    """A contestant: runs `fetches`, an op, a tensor or a list of them, `steps` times. One step alone would measure the clock."""
    run_step = session.make_callable(fetches)

    def turn(_: int) -> None:
        for _ in range(steps):
            run_step()

    return turn


def contest_of_steps(
    build: Callable[[], Tuple[tf.Tensor, tf.Operation]], examples: int, threads: int, steps: int = 5
) -> Any:
    """The rates of `build`'s train op, rewritten and as TensorFlow runs it, in examples. Their first losses must be equal.

    build: makes (loss, train op) in the default graph. examples: of a step. steps: of a turn.
    """
    runners: Dict[str, Any] = {}
    losses: List[float] = []
    for contestant in (OURS, "TensorFlow"):
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            loss, train = build()
            if contestant == OURS:
                tf_booster.rewrite_graph(graph)
            session = initialized(threads)
            losses.append(session.run([loss, train])[0])
            runners[contestant] = turn_of(session, train, steps)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    return contest(runners, steps * examples, seconds=3.0)
