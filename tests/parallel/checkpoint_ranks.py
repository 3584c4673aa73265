"""What the ranks of checkpoint tests run: tables that were made by hand, each rank with the keys that it owns, and a Variable."""

from __future__ import annotations

import os
import sys
from typing import Sequence

import numpy as np
import tensorflow as tf

from tf_booster.checkpoint.saveable import TableSaveable
from tf_booster.estimator import patches
from tf_booster.options import Options
from tf_booster.parallel import ranks, shared_graphs

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "checkpoint"))
from checkpoint_tables import Table  # noqa: E402

v1 = tf.compat.v1


def owned(ids: Sequence[int], rank: int, size: int) -> list:
    """Those of `ids` that live on a rank under partition="mod"."""
    return [i for i in ids if i % size == rank]


class Model:
    """Two tables and a Variable in a graph that is shared by all ranks, with a Saver."""

    def __init__(self, rank: int, size: int, tables: int = 2, **saver):
        if size > 1:  # Else nothing is patched: this is plain TensorFlow, with tables.
            ranks.start(Options())
            shared_graphs.set_partition("mod")
            patches.install(lambda graph: None)
        self.rank, self.size = rank, size
        self.graph = tf.Graph()
        with self.graph.as_default():
            shared_graphs.share(self.graph)
            self.tables = [Table(f"table_{i}", optimizer="adam", min_frequency=2 * i) for i in range(tables)]
            for table in self.tables:
                self.graph.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, TableSaveable(table))
            self.variable = v1.get_variable("weight", initializer=[1.0, 2.0])
            self.saver = v1.train.Saver(**saver)
        self.session = v1.Session(graph=self.graph)
        with self.graph.as_default():
            self.session.run(v1.global_variables_initializer())

    def train(self, ids: Sequence[int]) -> None:
        for table in self.tables:
            table.train(self.session, owned(ids, self.rank, self.size))

    def set(self, value) -> None:
        with self.graph.as_default():
            self.variable.load(value, self.session)

    def save(self, folder: str, step: int) -> str:
        with self.graph.as_default():
            return self.saver.save(self.session, os.path.join(folder, "model.ckpt"), global_step=step)

    def restore(self, prefix: str) -> None:
        with self.graph.as_default():
            self.saver.restore(self.session, prefix)

    def contents(self) -> list:
        return [(c.rows, c.pending, c.step, c.seed) for c in (t.contents(self.session) for t in self.tables)]


def joined(parts: Sequence[list]) -> list:
    """The contents of whole tables, from those of their ranks."""
    return [
        (
            {key: row for part in parts for key, row in part[i][0].items()},
            {key: n for part in parts for key, n in part[i][1].items()},
            *parts[0][i][2:],
        )
        for i in range(len(parts[0]))
    ]


def read(prefix: str) -> dict:
    """All tensors of a checkpoint, rows in the order of keys."""
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for kind in ("pending_", ""):
        for name in [n for n in tensors if n.endswith(f"/{kind}keys")]:
            order, start = np.argsort(tensors[name]), name[: -len("keys")]
            for other in tensors:
                is_row = other.startswith(start) and np.ndim(tensors[other]) > 0
                if is_row and (kind or "/pending_" not in other):
                    tensors[other] = tensors[other][order]
    return tensors
