"""Lives of hash tables put together at random, against dictionaries: all values are equal bit for bit.

A life is a row of processes, each with a graph of its own in which the tables have other settings (filter, eviction, optimizer, fused or
not). A process restores a checkpoint, the last one or one from before, or is warm started from it under other names, or begins anew; then
it trains, asks, assigns, erases and saves. Gradients are small multiples of 1/8, so that sums are exact in any order.
"""

from __future__ import annotations

import collections
import os
import random
import tempfile
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf
from table_model import MOMENTUM, RATE, TableModel

import tf_booster

v1 = tf.compat.v1
INT64 = np.iinfo(np.int64)
Models = Dict[str, TableModel]


def draw(seed: int) -> List[Dict[str, Any]]:
    """The processes of a life."""
    r = random.Random(seed)
    dims = [r.choice([1, 2, 3, 8]) for _ in range(3)]
    dims = [dims[0]] * 3 if r.random() < 0.6 else dims
    number = r.choice([1, 2, 3])

    def settings(i: int) -> Dict[str, Any]:
        return {
            "dim": dims[i],
            "min_frequency": r.choice([0, 0, 0, 2, 4]),
            "eviction": r.choice(
                [None, None, None, {"max_idle_steps": r.choice([1, 3])}]
                + [{"max_rows": r.choice([3, 20]), "order": order} for order in ("lru", "lfu")]
            ),
        }

    def process(first: bool) -> Dict[str, Any]:
        alike = r.random() < 0.5
        each = [settings(i) for i in range(number)]
        return {
            "begin": "anew" if first else r.choice(["restore", "restore", "restore", "warm start"]),
            "from": r.choice([0.999, 0.999, r.random()]),  # Which of the checkpoints.
            "fuse": r.choice([True, False, "auto"]),
            "optimizer": r.choice(["sgd", "momentum"]),
            "tables": [{**each[0], "dim": one["dim"]} if alike else one for one in each],
            "deeds": [r.choice(["train"] * 6 + ["save", "save", "assign", "erase", "find", "many"] + ["clear"] * (r.random() < 0.2))
                      for _ in range(r.randint(3, 12))],
        }  # fmt: skip

    return [process(i == 0) for i in range(r.randint(2, 5))]


class Process:
    """Tables in a graph and session of their own, and their models. names[i]: of table i."""

    def __init__(self, drawn: Dict[str, Any], names: List[str], models: List[TableModel], rng: Any):
        self._drawn, self._names, self._models, self._rng = drawn, names, models, rng
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._build()
            self._saver = v1.train.Saver()
        self.session = v1.Session(graph=self.graph)

    def begin(self, kind: str, path: str, old_names: List[str]) -> None:
        """`path`: of the checkpoint to begin with."""
        with self.graph.as_default():
            if kind == "warm start":
                v1.train.init_from_checkpoint(path, dict(zip(old_names, self._names)))
            tf_booster.rewrite_graph(self.graph)
            self.session.run(v1.global_variables_initializer())
            if kind == "restore":
                self._saver.restore(self.session, path)
            self._exports = [table.export() for table in self._tables]
            self._found = [table.find(self._ids[i][0]) for i, table in enumerate(self._tables)]
            self._assigned = [table.insert_or_assign(*self._new[i]) for i, table in enumerate(self._tables)]
            self._erased = [table.erase(self._ids[i][0]) for i, table in enumerate(self._tables)]
            self._cleared = [table.clear() for table in self._tables]
            self._sizes = [table.size() for table in self._tables]

    def save(self, path: str) -> str:
        with self.graph.as_default():
            return self._saver.save(self.session, path)

    def do(self, deed: str) -> None:
        """One deed, on the tables and on the models, and a look at all of them."""
        {"train": self._train, "many": lambda: self._train(3000), "find": self._find, "assign": self._assign,
         "erase": self._erase, "clear": self._clear}[deed]()  # fmt: skip
        self.compare(deed)

    def compare(self, what: str) -> None:
        """All that there is."""
        exported, sizes = self.session.run([[dict(e._asdict()) for e in self._exports], self._sizes])
        for name, model, found, size in zip(self._names, self._models, exported, sizes):
            momentum = found["slots"].get("momentum")
            slots = {} if momentum is None else {"slots/momentum": momentum}
            assert size == len(model.rows), (what, name)
            compare_table(f"{what}: {name}", model, {**{k: v for k, v in found.items() if k != "slots"}, **slots})

    def _build(self) -> None:
        self._tables, self._ids, self._new, losses = [], [], [], []
        self._lists, self._gradients = [], []
        for name, settings in zip(self._names, self._drawn["tables"]):
            initializer = tf.random_uniform_initializer(-1.0, 1.0)
            table = tf_booster.get_hash_table(
                name, settings["dim"], initializer, seed=5,
                min_frequency=settings["min_frequency"], eviction=settings["eviction"],
            )  # fmt: skip
            ids = v1.placeholder(tf.int64, [None])
            lists = v1.sparse_placeholder(tf.int64, [None, None])
            gradients = [v1.placeholder(tf.float32, [None, settings["dim"]]) for _ in range(2)]
            seen = tf_booster.embedding_lookup(table, ids)
            bags = tf_booster.embedding_lookup_sparse(table, lists, combiner="sum")
            losses += [tf.reduce_sum(seen * gradients[0]), tf.reduce_sum(bags * gradients[1])]
            self._tables.append(table)
            self._ids.append((ids, seen))
            self._lists.append((lists, bags))
            self._gradients.append(gradients)
            self._new.append((v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, settings["dim"]])))
        makes = {
            "sgd": lambda: v1.train.GradientDescentOptimizer(float(RATE)),
            "momentum": lambda: v1.train.MomentumOptimizer(float(RATE), float(MOMENTUM)),
        }
        self._loss = tf.add_n(losses)
        self._train_op = makes[self._drawn["optimizer"]]().minimize(self._loss)

    def _some(self, number: int) -> np.ndarray:
        """Ids: few of them often, extreme ones, and others."""
        kinds = [
            self._rng.zipf(1.5, number) % 30 - 8,
            self._rng.choice([INT64.min, INT64.min + 1, -1, 0, 1, INT64.max, INT64.max - 1], number),
            self._rng.randint(INT64.min, INT64.max, number),
        ]
        return np.choose(self._rng.choice(3, number, p=[0.8, 0.15, 0.05]), kinds).astype(np.int64)

    def _dyadic(self, rows: int, dim: int) -> np.ndarray:
        return (self._rng.randint(-8, 9, [rows, dim]) / 8).astype(np.float32)

    def _learn_first_values(self, i: int, keys: np.ndarray) -> None:
        """A find of keys without a row; what it says must never change."""
        model = self._models[i]
        values, there = self.session.run(self._found[i], {self._ids[i][0]: keys})
        for key, value, found in zip(keys.tolist(), values, there):
            row = model.rows.get(key)
            assert bool(found) == (row is not None), (self._names[i], key)
            wanted = row.values if row is not None else model.first.setdefault(key, value)
            np.testing.assert_array_equal(value, wanted, f"{self._names[i]}: find of {key}")

    def _train(self, most: int = 12) -> None:
        feeds: Dict[Any, Any] = {}
        batches: List[Tuple[np.ndarray, ...]] = []
        for i, settings in enumerate(self._drawn["tables"]):
            ids = self._some(self._rng.randint(0, most))
            counts = self._rng.randint(0, 4, self._rng.randint(1, 6))
            rows = np.repeat(np.arange(len(counts)), counts)
            places = np.concatenate([np.arange(n) for n in counts] or [[]]).astype(np.int64)
            listed = self._some(len(rows))
            gradients = [self._dyadic(len(ids), settings["dim"]), self._dyadic(len(counts), settings["dim"])]
            self._learn_first_values(i, np.concatenate([ids, listed]))
            feeds[self._ids[i][0]] = ids
            feeds[self._lists[i][0]] = v1.SparseTensorValue(
                np.stack([rows, places], 1).astype(np.int64), listed, [len(counts), 4]
            )
            feeds.update(zip(self._gradients[i], gradients))
            batches.append((ids, listed, np.concatenate([gradients[0], gradients[1][rows]]), rows, len(counts)))
        outputs = [(seen, bags) for (_, seen), (_, bags) in zip(self._ids, self._lists)]
        _, seen = self.session.run([self._train_op, outputs], feeds)
        exported = self.session.run([e.keys for e in self._exports])
        for i, (ids, listed, gradients, rows, number) in enumerate(batches):
            model = self._models[i]
            of = lambda key, model=model: model.rows[key].values if key in model.rows else model.first[key]
            for key, row in zip(ids.tolist(), seen[i][0]):
                np.testing.assert_array_equal(row, of(key), f"{self._names[i]}: lookup of {key}")
            for row in range(number):
                members = [of(key) for key in listed[rows == row].tolist()]
                wanted = np.sum(members, 0) if members else np.zeros(model.dim)
                np.testing.assert_allclose(seen[i][1][row], wanted, rtol=1e-5, atol=1e-5)
            sums: Dict[int, np.ndarray] = collections.defaultdict(lambda model=model: np.zeros(model.dim, np.float32))
            every = np.concatenate([ids, listed]).tolist()
            for key, gradient in zip(every, gradients):
                sums[key] = sums[key] + gradient
            settings = {**self._drawn["tables"][i], "optimizer": self._drawn["optimizer"]}
            model.train(sums, collections.Counter(every), settings)
            model.evict(settings["eviction"], exported[i].tolist())

    def _find(self) -> None:
        for i in range(len(self._tables)):
            self._learn_first_values(i, self._some(20))

    def _assign(self) -> None:
        for i, (keys, values) in enumerate(self._new):
            ids = self._some(6)
            self._learn_first_values(i, ids)
            new = self._dyadic(len(ids), self._models[i].dim)
            self.session.run(self._assigned[i], {keys: ids, values: new})
            for key, row in zip(ids.tolist(), new):
                self._models[i].assign(key, row)

    def _erase(self) -> None:
        for i, erased in enumerate(self._erased):
            ids = self._some(6)
            number = self.session.run(erased, {self._ids[i][0]: ids})
            assert number == sum(self._models[i].erase(key) for key in ids.tolist()), self._names[i]

    def _clear(self) -> None:
        which = self._rng.randint(len(self._tables))
        self.session.run(self._cleared[which])
        self._models[which].rows, self._models[which].pending = {}, {}


def compare_table(what: str, model: TableModel, found: Dict[str, np.ndarray]) -> None:
    """Raises AssertionError unless the tensors are those of the model; by the names that a checkpoint has for them."""
    keys = found["keys"].tolist()
    assert sorted(keys) == sorted(model.rows), f"{what}: keys {sorted(keys)}, wanted {sorted(model.rows)}"
    assert found["step"] == model.step, f"{what}: step {found['step']}, wanted {model.step}"
    rows = [model.rows[key] for key in keys]
    wanted = {
        "values": [row.values for row in rows],
        "slots/momentum": [row.slot for row in rows],
        "frequencies": [row.frequency for row in rows],
        "last_use_steps": [row.last_step for row in rows],
    }
    for name, values in wanted.items():
        if name in found and (rows or len(found[name])):
            np.testing.assert_array_equal(found[name], np.array(values), f"{what}: {name}")
    pending = dict(zip(found["pending_keys"].tolist(), found["pending_counts"].tolist()))
    assert pending == model.pending, f"{what}: pending {pending}, wanted {model.pending}"


def check(seed: int) -> None:
    """Raises AssertionError for anything that differs."""
    life, rng = draw(seed), np.random.RandomState(seed % 2**32)
    names = [f"t{i}" for i in range(len(life[0]["tables"]))]
    models = [TableModel(settings["dim"], {}) for settings in life[0]["tables"]]
    optimizer, checkpoints = "", []
    with tempfile.TemporaryDirectory() as folder:
        for number, drawn in enumerate(life):
            path, old_names = "", names
            if number:
                path, saved, optimizer, old_names, names = checkpoints[int(drawn["from"] * len(checkpoints))]
                models = [model.copy() for model in saved]
                if drawn["optimizer"] != optimizer:
                    for model in models:
                        model.forget_slots()
                if drawn["begin"] == "warm start":
                    names = [f"w{number}/{name.split('/')[-1]}" for name in old_names]
                    for model in models:
                        model.first = {}  # They depend on a table's name.
            tf.enable_gpu_booster(fuse_tables=drawn["fuse"])
            try:
                process = Process(drawn, names, models, rng)
                process.begin(drawn["begin"], path, old_names)
                process.compare(f"process {number}, {drawn['begin']}")
                for place, deed in enumerate([*drawn["deeds"], "save"]):
                    if deed != "save":
                        process.do(deed)
                        continue
                    path = process.save(os.path.join(folder, f"{number}-{place % 3}"))
                    _compare_file(path, names, models)
                    saved = (path, [m.copy() for m in models], drawn["optimizer"], names, names)
                    checkpoints = [c for c in checkpoints if c[0] != path] + [saved]
                process.session.close()
            finally:
                tf_booster.disable_gpu_booster()


def _compare_file(path: str, names: List[str], models: List[TableModel]) -> None:
    reader = tf.train.load_checkpoint(path)
    every = reader.get_variable_to_shape_map()
    for name, model in zip(names, models):
        found = {other[len(name) + 1 :]: reader.get_tensor(other) for other in every if other.startswith(name + "/")}
        compare_table(f"saved {name}", model, found)
