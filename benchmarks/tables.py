"""The tables that compete: ours, TFRA's and TensorFlow's own, in one graph, with one interface.

`find(keys)`, `insert(keys, values)` and so on build ops; a contest runs them in a session.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import tensorflow as tf

from tf_booster import _native

v1 = tf.compat.v1
SLOTS = {"": [], "adagrad": ["accumulator"], "adam": ["m", "v"]}
SLOT_START = {"accumulator": 0.1, "m": 0.0, "v": 0.0}
# Of a turn of a contest, each with a batch of its own. A step that follows another contestant's turn costs 300 us of
# threads that wake up and code that no cache holds: with one op in it, that was a quarter of a find of 16,384 rows.
OPS_IN_A_TURN = 4


class OurTable:
    name = "tf_booster"

    def __init__(self, dim: int, optimizer: str = ""):
        self.ops, self.dim, self.optimizer = _native.ops(), dim, optimizer
        name, slots = f"bench_{dim}_{optimizer}", SLOTS[optimizer]
        self.handle = self.ops.tf_booster_hash_table(
            table_name=name, dim=dim, optimizer=optimizer, slot_names=slots,
            slot_initial_values=[SLOT_START[s] for s in slots], field_names=[name], seeds=[1], initializers=["constant"],
            initializer_args=[0.0, 0.0], min_frequencies=[0], max_rows=[0], evictions=[""], eviction_args=[0],
        )  # fmt: skip

    def find(self, keys):
        return self.ops.tf_booster_table_find(self.handle, keys, dim=self.dim).values

    def find_or_insert(self, keys):
        return self.ops.tf_booster_table_find_or_insert(self.handle, keys, dim=self.dim)

    def insert(self, keys, values):
        return self.ops.tf_booster_table_insert_or_assign(self.handle, keys, values)

    def load_factor(self, session) -> float:
        stats = session.run(self.ops.tf_booster_table_stats(self.handle))
        return round(float(stats[0]) / float(stats[4]), 2)

    def probe(self, ids):
        return self.ops.tf_booster_table_probe(self.handle, [ids])

    def gather(self, probe):
        gather = self.ops.tf_booster_table_gather
        return gather(self.handle, probe.codes, probe.keys, probe.key_fields, probe.handles, dim=self.dim)[0]

    def apply(self, keys, fields, counts, handles, codes, grad, hyper: Sequence[float]):
        op = getattr(self.ops, "tf_booster_table_apply_" + self.optimizer)
        return op(self.handle, [keys], [fields], [counts], [handles], [codes], [grad], *hyper)


class TfraTable:
    name = "TFRA"

    def __init__(self, tfra, dim: int, rows: int):
        with tf.device("/CPU:0"):
            self.variable = tfra.get_variable(
                f"tfra_{dim}_{rows}",
                key_dtype=tf.int64,
                value_dtype=tf.float32,
                dim=dim,
                initializer=0.0,
                init_size=rows,
            )

    def find(self, keys):
        return self.variable.lookup(keys)

    def insert(self, keys, values):
        return self.variable.upsert(keys, values)


class TensorFlowTable:
    """tf.lookup.experimental.DenseHashTable, the one table of TensorFlow's whose values may be vectors."""

    name = "tf.lookup"

    def __init__(self, dim: int):
        self.table = tf.lookup.experimental.DenseHashTable(
            tf.int64, tf.float32, default_value=np.zeros(dim, np.float32), empty_key=-(2**63), deleted_key=2**63 - 1
        )

    def find(self, keys):
        return self.table.lookup(keys)

    def insert(self, keys, values):
        return self.table.insert(keys, values)


def held(value: np.ndarray) -> tf.Tensor:
    """A tensor that is in memory before the contest and that no optimiser takes for a constant."""
    return v1.Variable(value, use_resource=True, trainable=False).read_value()


def session(threads: int) -> v1.Session:
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # It drops ops whose results nobody reads.
    return v1.Session(config=config)


def fill(session: v1.Session, tables: Sequence[Any], keys: np.ndarray, dim: int, batch: int = 1 << 18) -> None:
    """Puts the same rows into every table: column j of key k is a small number made of both."""
    feed_keys, feed_values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, dim])
    inserts = [t.insert(feed_keys, feed_values) for t in tables]
    columns = np.arange(dim, dtype=np.float32)
    step = max(1024, batch * 16 // dim)
    for begin in range(0, len(keys), step):
        part = keys[begin : begin + step]
        values = (part % 1000).astype(np.float32)[:, None] * 1e-3 + columns
        for insert in inserts:
            session.run(insert, {feed_keys: part, feed_values: values})


def chain(builds: Sequence[Callable[[], Any]]) -> tf.Operation:
    """Ops one behind the other in one step, as a training step has many: what the session itself costs is not in them."""
    last: List[tf.Operation] = []
    for build in builds:
        with tf.control_dependencies(last):
            last = [tf.group(build())]
    return last[0]


def runner(session: v1.Session, fetch: Any, feeds: Sequence[Dict] = ({},)):
    """A contestant: runs the op behind `fetch`, without handing the result to Python."""
    op = tf.group(fetch)
    return lambda turn: session.run(op, feeds[turn % len(feeds)])
