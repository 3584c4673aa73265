"""find: a batch of keys, all in the table."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import data, peers, tables
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
                keys = data.keys_of(data.ranks(distribution, rows, batch, seed=dim))
                fed = tables.held(keys)
                session.run(v1.global_variables_initializer())
                found = {t.name: t.find(fed) for t in [ours, *theirs]}
                wanted, *others = session.run(list(found.values()))
                for other in others:
                    np.testing.assert_array_equal(other, wanted)
                rates = contest({name: tables.runner(session, op) for name, op in found.items()}, batch)
                facts = {
                    "rows": rows,
                    "batch": batch,
                    "hits": "100 %",
                    "load": ours.load_factor(session),
                    "unique": f"{data.unique_share(keys):.0%}",
                }
                yield Result("find", "op", dim, distribution, threads, "M keys/s", rates, facts)
