"""find: batches of keys, all in the table."""

from __future__ import annotations

from functools import partial
from typing import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import data, floors, peers, tables
from benchmarks.harness import Result, contest

v1 = tf.compat.v1
TABLE_BYTES = 128 << 20  # Of embeddings: beyond the caches.
OUTPUT_FLOATS = 1 << 21  # 8 MiB a batch: of larger outputs the page faults would be measured, not the tables.


def run(threads: int) -> Iterator[Result]:
    tfra = peers.tfra()
    for dim in (16, 64, 128):
        rows, batch = TABLE_BYTES // (4 * dim), OUTPUT_FLOATS // dim
        with tf.Graph().as_default(), tables.session(threads) as session:
            ours, theirs = tables.OurTable(dim), [tables.TensorFlowTable(dim)]
            if tfra:
                theirs.insert(0, tables.TfraTable(tfra, dim, rows))
            session.run(v1.tables_initializer())
            tables.fill(session, [ours, *theirs], data.keys_of(np.arange(rows)), dim)
            for distribution in data.DISTRIBUTIONS:
                ranks = [data.ranks(distribution, rows, batch, seed=dim + i) for i in range(tables.OPS_IN_A_TURN)]
                batches = [data.keys_of(r) for r in ranks]
                fed = [tables.held(keys) for keys in batches]
                session.run(v1.global_variables_initializer())
                runners = {}
                for t in [ours, *theirs]:
                    runners[t.name] = tables.runner(session, tables.chain([partial(t.find, keys) for keys in fed]))
                wanted, *others = session.run([t.find(fed[0]) for t in [ours, *theirs]])
                for other in others:
                    np.testing.assert_array_equal(other, wanted)
                runners.update(floors.copy(rows, dim, ranks, threads))
                rates = contest(runners, batch * len(batches))
                facts = {
                    "rows": rows,
                    "batch": batch,
                    "hits": "100 %",
                    "load": ours.load_factor(session),
                    "unique": f"{data.unique_share(batches[0]):.0%}",
                }
                yield Result("find", "op", dim, distribution, threads, "M keys/s", rates, facts)
