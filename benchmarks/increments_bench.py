"""What keeps a served model up to date: an increment of the rows that changed, beside all rows of the table."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from benchmarks import harness
from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import initialized
from benchmarks.tables import OurTable
from tf_booster import _native

v1 = tf.compat.v1
ROWS, DIM, STEP = 4_000_000, 16, 100_000
WHOLE = "all rows"
_LISTED = {"sizes": [1], "fields": [0], "checkpoint_names": ["table"]}


def run(threads: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        table = _Table(threads, folder)
        for percent, all_keys in ((1, False), (10, False), (1, True)):
            yield from table.contests(percent, all_keys)


class _Table:
    """A table that trains, with Adagrad's slot, and one that serves it, without."""

    def __init__(self, threads: int, folder: str):
        ops = _native.ops()
        self._threads, self._folder = threads, folder
        trained, served = OurTable(DIM, "adagrad"), OurTable(DIM)
        self._ids = v1.placeholder(tf.int64, [None])
        self._path, self._number = v1.placeholder(tf.string, []), v1.placeholder(tf.int64, [])
        self._since = v1.placeholder(tf.int64, [1, 4])
        self._insert = trained.find_or_insert(self._ids).op
        probe = trained.probe(self._ids)
        grad = tf.ones([tf.size(self._ids), DIM])
        lists = ([probe.keys], [probe.key_fields], [probe.counts], [probe.handles])
        self._train = ops.tf_booster_table_apply_adagrad(trained.handle, *lists, probe.codes, [grad], 0.1)
        self._marks = ops.tf_booster_table_marks([trained.handle], **_LISTED)
        self._all_keys = v1.placeholder(tf.bool, [1])
        self._save = ops.tf_booster_table_save_increment(
            [trained.handle], self._since, self._all_keys, self._number, self._path, **_LISTED
        )
        self._save_all = ops.tf_booster_table_save([trained.handle], self._path, **_LISTED, with_slots=[False])
        self._restore = ops.tf_booster_table_restore(served.handle, self._path, checkpoint_names=["table"])
        self._apply = ops.tf_booster_table_apply_increment([served.handle], self._path, **_LISTED)
        self._session = initialized(threads)
        self._number_now = 0
        for first in range(0, ROWS, STEP):
            self._run(self._insert, np.arange(first, first + STEP))
        self._run(self._train, np.arange(STEP))

    def _seconds(self, op: Any, path: str) -> float:
        start = harness.clock()
        self._session.run(op, {self._path: path})
        return harness.clock() - start

    def _run(self, op: Any, ids: Any) -> None:
        self._session.run(op, {self._ids: ids * 7919})

    def contests(self, percent: int, all_keys: bool) -> Iterator[Result]:
        base = os.path.join(self._folder, "base")
        self._session.run(self._save_all, {self._path: base})
        marks = self._session.run(self._marks)
        changed = np.random.RandomState(percent).choice(ROWS, ROWS * percent // 100, replace=False)
        for first in range(0, len(changed), STEP):
            self._run(self._train, changed[first : first + STEP])
        paths = {OURS: os.path.join(self._folder, "increment"), WHOLE: os.path.join(self._folder, "whole")}

        def save(_: int) -> None:
            self._number_now += 1
            inputs = {self._since: marks, self._all_keys: [all_keys], self._number: self._number_now}
            self._session.run(self._save, {**inputs, self._path: paths[OURS]})

        def save_all(_: int) -> None:
            self._session.run(self._save_all, {self._path: paths[WHOLE]})

        written = contest({OURS: save, WHOLE: save_all}, ROWS)
        megabytes = {name: os.path.getsize(f"{path}.data-00000-of-00001") / 1e6 for name, path in paths.items()}
        facts = {"MB": round(megabytes[OURS], 1), "MB of all rows": round(megabytes[WHOLE], 1)}
        distribution = f"{percent} %" + (" and all keys" if all_keys else "")
        yield Result("increments", "written", DIM, distribution, self._threads, "M rows/s", written, facts)

        def restore(_: int) -> float:
            return self._seconds(self._restore, base)

        def apply(turn: int) -> float:
            save(turn)  # One is taken once.
            return self._seconds(self._apply, paths[OURS])

        restore(0)
        taken = contest({OURS: apply, WHOLE: restore}, ROWS, own_clock=True)
        yield Result("increments", "taken", DIM, distribution, self._threads, "M rows/s", taken, facts)
