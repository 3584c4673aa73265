"""A table in a graph and session of its own, called with numpy arrays, and the dictionary that it is compared with."""

from __future__ import annotations

from typing import Dict

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import layout

INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
EXTREME_IDS = [0, -1, 1, INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, 1 << 40, (1 << 40) + 1, -(1 << 40)]

SLOTS = {  # Of each optimizer, in row order, with initial values that tell slots apart.
    "": {},
    "sgd": {},
    "momentum": {"momentum": 0.0},
    "keras_momentum": {"momentum": 0.0},
    "adagrad": {"accumulator": 0.1},
    "adagrad_v2": {"accumulator": 0.1},
    "adam": {"m": 0.0, "v": 0.0},
    "ftrl": {"accumulator": 0.1, "linear": 0.0},
    "rmsprop": {"ms": 1.0, "momentum": 0.0},
    "centered_rmsprop": {"mg": 0.0, "ms": 1.0, "momentum": 0.0},
}


def table_attrs(name="user_emb", dim=2, optimizer="", seed=7, initializer="constant", args=(0.5, 0.0), **overrides):
    """Attributes of TfBoosterHashTable for a table of one field."""
    attrs = dict(
        table_name=name,
        dim=dim,
        optimizer=optimizer,
        slot_names=list(SLOTS[optimizer]),
        slot_initial_values=list(SLOTS[optimizer].values()),
        field_names=[name],
        seeds=[seed],
        initializers=[initializer],
        initializer_args=list(args),
        min_frequencies=[0],
        max_rows=[0],
        evictions=[""],
        eviction_args=[0],
    )
    attrs.update(overrides)
    return attrs


class TableSession:
    """Calls ops on one table: `t("find", keys, dim=2)` runs TfBoosterTableFind and gives numpy arrays."""

    def __init__(self, session: tf.compat.v1.Session | None = None, **options):
        self.ops = _native.ops()
        self.attrs = table_attrs(**options)
        self.dim = self.attrs["dim"]
        self.session = session or tf.compat.v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            self.handle = self.ops.tf_booster_hash_table(**self.attrs)

    def __call__(self, op: str, *args, **attrs):
        return self.run(lambda: getattr(self.ops, "tf_booster_table_" + op)(self.handle, *args, **attrs))

    def run(self, build):
        with self.session.graph.as_default():
            return self.session.run(build())

    def find(self, keys):
        return self("find", int64(keys), dim=self.dim)

    def find_or_insert(self, keys):
        return self("find_or_insert", int64(keys), dim=self.dim)

    def assign(self, keys, values):
        return self("insert_or_assign", int64(keys), np.asarray(values, np.float32))

    def size(self) -> int:
        return int(self("size"))

    def step(self, op, id_lists, grads, hyper, **attrs):
        """One training step: a probe for each list of ids, and one apply of all their gradients.

        `grads[i]` has a row for each id of `id_lists[i]`.
        """

        def build():
            probe = self.ops.tf_booster_table_probe
            probes = [probe(self.handle, [int64(ids)], group=g) for g, ids in enumerate(id_lists)]
            codes = tf.concat([tf.reshape(p.codes[0], [-1]) for p in probes], 0)
            grad = tf.concat([tf.reshape(tf.constant(g, tf.float32), [-1, self.dim]) for g in grads], 0)
            return self.apply_op(op)(
                self.handle,
                [p.keys for p in probes],
                [p.key_fields for p in probes],
                [p.counts for p in probes],
                [p.handles for p in probes],
                [codes],
                [grad],
                *hyper,
                **attrs,
            )

        return self.run(build)

    def apply_op(self, name):
        return getattr(self.ops, "tf_booster_table_apply_" + name)

    def contents(self) -> Dict[int, tuple]:
        """{key: (values, [slots…], frequency, last-use step)} of all rows."""
        e = self.export()
        return {
            int(k): (e.values[i], [s[i] for s in e.slots], int(e.frequencies[i]), int(e.last_use_steps[i]))
            for i, k in enumerate(e.keys)
        }

    def export(self):
        return layout.tables_of(self("export", dim=self.dim, N=1, S=len(self.attrs["slot_names"])))[0]


def int64(values) -> np.ndarray:
    return np.asarray(values, np.int64)
