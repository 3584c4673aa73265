"""find_or_insert with 10 % new keys in each batch. The peers have no such op: their insert (upsert) is measured."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import data, peers, tables
from benchmarks.find_bench import OUTPUT_FLOATS, TABLE_BYTES
from benchmarks.harness import Result, contest

v1 = tf.compat.v1
ROUNDS = 9
NEW = 0.1


def batches(distribution: str, rows: int, batch: int, seed: int):
    """One more than ROUNDS; every tenth key has not been in a batch before."""
    for turn in range(ROUNDS + 1):
        ranks = data.ranks(distribution, rows, batch, seed + turn)
        new = np.arange(0, batch, int(1 / NEW))
        ranks[new] = rows * (1 + seed) + turn * batch + new
        yield data.keys_of(ranks)


def run(threads: int) -> Iterator[Result]:
    tfra = peers.tfra()
    for dim in (16, 64, 128):
        rows, batch = TABLE_BYTES // (4 * dim), OUTPUT_FLOATS // dim
        for distribution in data.DISTRIBUTIONS:
            with tf.Graph().as_default(), tables.session(threads) as session:
                ours, theirs = tables.OurTable(dim), [tables.TensorFlowTable(dim)]
                if tfra:
                    theirs.insert(0, tables.TfraTable(tfra, dim, rows))
                session.run(v1.tables_initializer())
                tables.fill(session, [ours, *theirs], data.keys_of(np.arange(rows)), dim)
                keys = v1.placeholder(tf.int64, [None])
                values = tables.held(np.zeros([batch, dim], np.float32))
                session.run(v1.global_variables_initializer())
                feeds = [{keys: k} for k in batches(distribution, rows, batch, seed=dim)]
                ops = {ours.name: ours.find_or_insert(keys)}
                ops.update({t.name + " insert": t.insert(keys, values) for t in theirs})
                runners = {name: tables.runner(session, op, feeds) for name, op in ops.items()}
                rates = contest(runners, batch, rounds=ROUNDS)
                last = feeds[-1][keys]
                for t in [ours, *theirs]:
                    found = session.run(t.find(keys), {keys: last})
                    np.testing.assert_array_equal(found[:: int(1 / NEW)], 0.0)  # New rows start at zero in every table.
                facts = {
                    "rows": rows,
                    "batch": batch,
                    "new": f"{NEW:.0%}",
                    "load": ours.load_factor(session),
                    "unique": f"{data.unique_share(last):.0%}",
                }
                yield Result("find_or_insert", "op", dim, distribution, threads, "M keys/s", rates, facts)
