"""find_or_insert with 10 % new keys in each batch. The peers have no such op: their insert (upsert) is measured."""

from __future__ import annotations

from functools import partial
from typing import Iterator

import numpy as np
import tensorflow as tf

from benchmarks import data, floors, machine, peers, tables
from benchmarks.find_bench import OUTPUT_FLOATS, TABLE_BYTES
from benchmarks.harness import Result, contest

v1 = tf.compat.v1
ROUNDS = 9
NEW = 0.1


def batches(distribution: str, rows: int, batch: int, seed: int):
    """OPS_IN_A_TURN for each round and one round more; every tenth key has not been in a batch before."""
    for turn in range((ROUNDS + 1) * tables.OPS_IN_A_TURN):
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
                keys = [v1.placeholder(tf.int64, [None]) for _ in range(tables.OPS_IN_A_TURN)]
                values = tables.held(np.zeros([batch, dim], np.float32))
                session.run(v1.global_variables_initializer())
                all_batches = list(batches(distribution, rows, batch, seed=dim))
                turns = [all_batches[i :: ROUNDS + 1] for i in range(ROUNDS + 1)]
                feeds = [dict(zip(keys, turn)) for turn in turns]
                ops = {ours.name: tables.chain([partial(ours.find_or_insert, k) for k in keys])}
                for t in theirs:
                    ops[t.name + " insert"] = tables.chain([partial(t.insert, k, values) for k in keys])
                runners = {name: tables.runner(session, op, feeds) for name, op in ops.items()}
                new = len(all_batches) * (batch // int(1 / NEW) + 1)
                runners.update(floors.find_or_insert(rows, dim, turns, new, threads))
                memory = machine.TouchedMemory(ROUNDS * len(runners))
                rates = contest(runners, batch * len(keys), rounds=ROUNDS, before=memory.release)
                last = feeds[-1][keys[-1]]
                for t in [ours, *theirs]:
                    found = session.run(t.find(last))
                    np.testing.assert_array_equal(found[:: int(1 / NEW)], 0.0)  # New rows start at zero in every table.
                facts = {
                    "rows": rows,
                    "batch": batch,
                    "new": f"{NEW:.0%}",
                    "load": ours.load_factor(session),
                    "unique": f"{data.unique_share(last):.0%}",
                }
                yield Result("find_or_insert", "op", dim, distribution, threads, "M keys/s", rates, facts)
