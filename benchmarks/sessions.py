"""Sessions of the benchmarks that time whole steps."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

v1 = tf.compat.v1


def initialized(threads: int, grappler: bool = True) -> v1.Session:
    """A session of the default graph with as many threads in ops and between them, whose Variables and tables are initialized.

    grappler: False for graphs whose numbers are compared, because Grappler regroups sums by what it finds.
    """
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    session = v1.Session(config=config)
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])
    return session


def turn_of(session: v1.Session, fetches: Any, steps: int) -> Callable[[int], None]:
    """A contestant: runs `fetches`, an op, a tensor or a list of them, `steps` times. One step alone would measure the clock."""
    run_step = session.make_callable(fetches)

    def turn(_: int) -> None:
        for _ in range(steps):
            run_step()

    return turn
