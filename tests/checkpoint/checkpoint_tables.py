"""Tables made by hand, without a rewrite, for tests of what Savers do with them."""

from __future__ import annotations

import types
from typing import Dict, Sequence

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import layout

SLOTS = {"sgd": {}, "adagrad": {"accumulator": 0.1}, "adam": {"m": 0.0, "v": 0.0}}


class Table:
    """A table in the default graph: the ops of one training step of SGD-like inserts, and what it holds as a dictionary."""

    def __init__(self, name="user_emb", dim=3, optimizer="adagrad", seed=7, min_frequency=0):
        self.ops = _native.ops()
        self.name, self.dim, self.slots = name, dim, SLOTS[optimizer]
        self.handle = self.ops.tf_booster_hash_table(
            table_name=name, dim=dim, optimizer=optimizer,
            slot_names=list(self.slots), slot_initial_values=list(self.slots.values()),
            field_names=[name], seeds=[seed], initializers=["uniform"], initializer_args=[-1.0, 1.0],
            min_frequencies=[min_frequency], max_rows=[0], evictions=[""], eviction_args=[0],
        )  # fmt: skip
        (self.exported,) = layout.tables_of(
            self.ops.tf_booster_table_export(self.handle, N=1, S=len(self.slots), dim=dim)
        )
        self.graph = tf.compat.v1.get_default_graph()

    def train(self, session, ids: Sequence[int]) -> None:
        """One step with gradient `id + column / 8` for each id."""
        with self.graph.as_default():
            probe = self.ops.tf_booster_table_probe(self.handle, [np.asarray(ids, np.int64)])
            grad = np.asarray(ids, np.float64)[:, None] + np.arange(self.dim) / 8.0
            keys = ([probe.keys], [probe.key_fields], [probe.counts], [probe.handles])
            inputs = (self.handle, *keys, probe.codes, [np.float32(grad)], 0.1)
            if "m" in self.slots:
                apply = self.ops.tf_booster_table_apply_adam(*inputs[:-1], 0.9, 0.99, 0.1, 0.9, 0.99, 1e-8)
            elif "accumulator" in self.slots:
                apply = self.ops.tf_booster_table_apply_adagrad(*inputs)
            else:
                apply = self.ops.tf_booster_table_apply_gradient_descent(*inputs)
        session.run(apply)

    def find(self, session, ids: Sequence[int]) -> np.ndarray:
        with self.graph.as_default():
            found = self.ops.tf_booster_table_find(self.handle, np.asarray(ids, np.int64), dim=self.dim)
        return session.run(found.values)

    def contents(self, session) -> types.SimpleNamespace:
        """All that a checkpoint has to keep; rows by key, since their order is not promised."""
        e = session.run(self.exported)
        rows: Dict[int, tuple] = {
            int(key): (
                e.values[i].tobytes(),
                tuple(slot[i].tobytes() for slot in e.slots),
                int(e.frequencies[i]),
                int(e.last_use_steps[i]),
            )
            for i, key in enumerate(e.keys)
        }
        pending = dict(zip(e.pending_keys.tolist(), e.pending_counts.tolist()))
        return types.SimpleNamespace(rows=rows, pending=pending, step=int(e.step), seed=int(e.seed))
