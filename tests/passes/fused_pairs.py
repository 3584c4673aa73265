"""The same program with tables fused and not, step by step: what fusion must not change."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import layout
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
EXTREMES = [0, -1, 1, np.iinfo(np.int64).min, np.iinfo(np.int64).max, 1 << 40, -(1 << 40), 7]

OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered_rmsprop": lambda: v1.train.RMSPropOptimizer(0.1, centered=True),
    "keras_sgd": lambda: tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9, nesterov=True),
    "keras_adam": lambda: tf.keras.optimizers.legacy.Adam(0.1),
    "keras_adagrad": lambda: tf.keras.optimizers.legacy.Adagrad(0.1),
    "keras_rmsprop": lambda: tf.keras.optimizers.legacy.RMSprop(0.1),
    "keras_centered_rmsprop": lambda: tf.keras.optimizers.legacy.RMSprop(0.1, centered=True),
}

# What tables of one resource may differ in.
SETTINGS: List[Dict[str, Any]] = [
    {},
    {"min_frequency": 3},
    {"eviction": {"max_idle_steps": 3}},
    {"eviction": {"max_rows": 12, "order": "lru"}, "seed": 5},
    {"eviction": {"max_rows": 12, "order": "lfu"}, "min_frequency": 2},
    {"initializer": v1.random_uniform_initializer(-1, 1), "max_rows": 1000},
    {"initializer": v1.zeros_initializer()},
]


def rewrite(fuse: bool, graph: Any = None, **options: Any) -> Any:
    """All passes with their defaults."""
    return pipelines.rewrite(graph or v1.get_default_graph(), Options(fuse_tables=fuse, **options))


def ops(kind: str, graph: Any = None) -> List[tf.Operation]:
    return [op for op in (graph or v1.get_default_graph()).get_operations() if op.type == f"TfBooster{kind}"]


def minimize(loss: tf.Tensor, optimizer: Any, variables: Sequence[tf.Variable] = ()) -> tf.Operation:
    """The train op of a v1 or a Keras-legacy optimizer."""
    variables = list(variables) or v1.trainable_variables()
    if isinstance(optimizer, v1.train.Optimizer):
        return optimizer.minimize(loss, var_list=variables)
    return optimizer.apply_gradients(zip(v1.gradients(loss, variables), variables))


class Program:
    """A graph with tables, its session, and what it holds."""

    def __init__(self, build: Callable[[], Dict[str, Any]], fuse: bool, **options: Any):
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(3)
            self.nodes = build()
            self.report = rewrite(fuse, **options)
            self.tables = registry.rewritten(self.graph)
            self.exported = {name: _export(table) for name, table in self.tables.items()}
            self.stats = {name: table.stats for name, table in self.tables.items()}
            self.saver = v1.train.Saver()
            self.session = v1.Session(graph=self.graph)
            self.session.run(v1.global_variables_initializer())

    def run(self, names: Any, **feeds: Any) -> Any:
        chosen = [self.nodes[n] for n in names] if isinstance(names, list) else self.nodes[names]
        return self.session.run(chosen, {self.nodes[name]: value for name, value in feeds.items()})

    def contents(self) -> Dict[str, Any]:
        """All that each table holds, rows by key as bytes."""
        exported, stats = self.session.run([self.exported, self.stats])
        found = {}
        for name, e in exported.items():
            rows = {
                int(key): (
                    e.values[i].tobytes(),
                    tuple(slot[i].tobytes() for slot in e.slots),
                    int(e.frequencies[i]),
                    int(e.last_use_steps[i]),
                )
                for i, key in enumerate(e.keys)
            }
            pending = dict(zip(e.pending_keys.tolist(), e.pending_counts.tolist()))
            found[name] = (rows, pending, int(e.step), stats[name][:4].tolist())
        return found


def _export(table: registry.RewrittenTable) -> layout.Exported:
    slots = len(table.slot_names)
    return layout.tables_of(_native.ops().tf_booster_table_export(table.handle, N=1, S=slots, dim=table.spec.dim))[0]


def expect_same(one: Program, other: Program) -> None:
    """Every table has equal bits in both."""
    a, b = one.contents(), other.contents()
    assert a.keys() == b.keys()
    for name in a:
        assert a[name] == b[name], name
