"""Increments: small checkpoints of what training changed since the one before, for models that are served meanwhile.

`increment-<n>` is a checkpoint as any other: all Variables, and of each hash table <table>/keys and /values of the rows that changed.
Where rows have left it has <table>/left_keys, too, or, if nobody knows which, <table>/all_keys, of which a served table keeps the rows alone. It
is written as checkpoints of tables are, and put in its place by publishing, on several ranks as in one process.

They are a chain. Who has increment n - 1 may take n. Who has none, but an export, may take those that go on from a step of its tables
(since_step) that the export has reached, and passes over those of steps that it has (step). Where a training begins whose tables stand
elsewhere than at the end of the chain, because the one before was killed behind its last checkpoint, the chain goes on with an
increment of all rows (since_step -1), which anybody may take: steps that were taken and lost have changed rows that nobody knows.
"""

from __future__ import annotations

import dataclasses
import os
import re
import weakref
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

from tf_booster import _native, log
from tf_booster.arguments import check_finite, checked_int, checked_path
from tf_booster.checkpoint import listed_tables, rank_savers, table_saves
from tf_booster.parallel import meetings, shared_graphs
from tf_booster.parallel.store import store

_BASE = "increment"
_STEP, _EDITS, _EVICTED, _LISTED_FROM = range(4)  # Columns of what TableMarks gives.
_MOST_COMPARED = 1 << 22  # Elements of a Variable.
_hooks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> its hooks, until it is rewritten.


class IncrementHook(tf.compat.v1.train.SessionRunHook):
    """Writes increments while a model trains, for `tf_booster.apply_increments` or the signature "apply_increment" of its exports.

    It goes beside the checkpoints, which it does not replace: a training is resumed from these. Give it the same directory in all
    trainings of a model; on several ranks, to all of them.

        estimator.train(input_fn, hooks=[tf_booster.IncrementHook("/models/ctr/increments", save_steps=1000)])

    Args:
      directory: where increments go; made as needed.
      save_steps, save_secs: one of them: after how many steps or seconds. There is one at the end, too.
      max_to_keep: how many of the latest stay; 0 for all. Who serves needs all that follow the export that it loaded.

    Raises:
      TypeError, ValueError: not one of save_steps and save_secs; a number out of range, or what is no number or path.
      RuntimeError: from the training, which tf_booster does not rewrite: call tf.enable_gpu_booster() before it.
    """

    def __init__(
        self,
        directory: Union[str, os.PathLike],
        save_steps: Optional[int] = None,
        save_secs: Optional[float] = None,
        max_to_keep: int = 0,
    ):
        if (save_steps is None) == (save_secs is None):
            raise ValueError(
                f"IncrementHook: save_steps is {save_steps!r} and save_secs {save_secs!r}; give one of the two"
            )
        if save_steps is not None:
            save_steps = checked_int("IncrementHook", "save_steps", save_steps, 1)
        else:
            check_finite("IncrementHook", "save_secs", save_secs, 0)
        self._directory = checked_path("IncrementHook", "directory", directory)
        self._max_to_keep = checked_int("IncrementHook", "max_to_keep", max_to_keep, 0)
        self._timer = tf.compat.v1.train.SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._writer: Optional[_IncrementWriter] = None
        self._step: Any = None

    def begin(self) -> None:
        """See SessionRunHook."""
        graph = tf.compat.v1.get_default_graph()
        self._step = tf.compat.v1.train.get_global_step()
        if self._step is None:
            raise RuntimeError("IncrementHook: the graph has no global step; make it by get_or_create_global_step()")
        if self._writer is not None and self._writer.graph is graph:  # Another session of it.
            return
        self._writer = None
        _hooks.setdefault(graph, []).append(self)

    def prepare(self, graph: tf.Graph) -> None:
        """Adds its ops to a graph that was rewritten and is not finalized."""
        self._writer = _IncrementWriter(graph, self._directory, self._max_to_keep)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See SessionRunHook."""
        del coord
        if self._writer is None:
            raise RuntimeError(
                "IncrementHook: the graph was not prepared for it, since tf_booster is off, or the graph was final before; call "
                "tf.enable_gpu_booster() before the training, and give the hook to the first session of a graph"
            )
        self._writer.start(session)
        self._timer.reset()
        self._timer.update_last_triggered_step(session.run(self._step))

    def before_run(self, run_context: Any) -> Any:
        """See SessionRunHook."""
        del run_context
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """See SessionRunHook."""
        # What was fetched may be the step before its update.
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            self._write(run_context.session)

    def end(self, session: Any) -> None:
        """See SessionRunHook."""
        if session.run(self._step) != self._timer.last_triggered_step():
            self._write(session)

    def _write(self, session: Any) -> None:
        assert self._writer is not None
        self._writer.write(session)


def prepare_all(graph: tf.Graph) -> None:
    """Prepares the hooks of a graph that is about to be finalized."""
    for hook in _hooks.pop(graph, ()):
        hook.prepare(graph)


def prefix_of(directory: str, number: int) -> str:
    """The path of an increment, without '.index'."""
    return f"{directory.rstrip('/')}/{_BASE}-{number}"


def numbers_in(directory: str) -> List[int]:
    """The increments that are in `directory`, which need not exist, in their order."""
    if not tf.io.gfile.isdir(directory):
        return []
    found = (re.fullmatch(_BASE + r"-(\d+)\.index", name) for name in tf.io.gfile.listdir(directory))
    return sorted(int(match[1]) for match in found if match)


@dataclasses.dataclass(frozen=True)
class _Tables:
    """The tables of one device: where they stand, whether an increment ends there, and what is fed to the op that saves them."""

    marks: tf.Tensor
    matches: tf.Tensor
    since: tf.Tensor
    all_keys: tf.Tensor


class _IncrementWriter:
    """The ops of one graph, and how far its increments have come."""

    def __init__(self, graph: tf.Graph, directory: str, max_to_keep: int):
        self.graph = graph
        self._directory, self._max_to_keep = directory, max_to_keep
        self._place = shared_graphs.place(graph)
        tf.io.gfile.makedirs(directory)
        with graph.as_default(), tf.control_dependencies(None), tf.device(None):
            with tf.device("/CPU:0"):
                self._number = tf.compat.v1.placeholder(tf.int64, [], name="tf_booster/increment/number")
                self._prefix = tf.compat.v1.placeholder(tf.string, [], name="tf_booster/increment/prefix")
            self._saver = tf.compat.v1.train.Saver(tf.compat.v1.global_variables(), name="tf_booster/increment/save")
            self._tables: List[_Tables] = []
            prefix = graph.get_tensor_by_name(self._saver.saver_def.filename_tensor_name)
            ops, suffixes = [], []
            for i, listed in enumerate(listed_tables.all_by_device(graph).values()):
                suffixes.append(f"-tables-{i}")
                ops.append(self._add(listed, table_saves.shard_prefix(prefix, suffixes[i])))
        self._saves = table_saves.TableSaves(tuple(ops), tuple(suffixes)) if ops else None
        self._last = 0  # The newest increment's number.
        self._marks: List[np.ndarray] = []  # Where the tables stood when it was written, device by device.

    def _add(self, listed: List[listed_tables.ListedTable], shard: tf.Tensor) -> tf.Operation:
        resources, attributes = listed_tables.resources(listed), listed_tables.attributes(listed)
        with tf.device("/CPU:0"):
            since = tf.compat.v1.placeholder(tf.int64, [None, 4], name="tf_booster/increment/since")
            all_keys = tf.compat.v1.placeholder(tf.bool, [None], name="tf_booster/increment/all_keys")
        with tf.device(None), tf.device(listed[0].resource.device):
            marks = _native.ops().tf_booster_table_marks(resources, **attributes, name="tf_booster/increment/marks")
            matches = _native.ops().tf_booster_table_matches_increment(
                resources,
                self._prefix,
                **attributes,
                **dataclasses.asdict(self._place),
                name="tf_booster/increment/matches",
            )
            op = _native.ops().tf_booster_table_save_increment(
                resources,
                since,
                all_keys,
                self._number,
                shard,
                **attributes,
                name="tf_booster/increment/save_tables",
            )
        self._tables.append(_Tables(marks, matches, since, all_keys))
        return op

    def start(self, session: Any) -> None:
        """Finds where the tables stand, and goes on with the chain of increments that is there."""
        self._last = max(numbers_in(self._directory), default=0)
        self._marks = self._read_marks(session)
        log.info_once(f"increments go to '{self._directory}', from number {self._last + 1} on")
        if self._last > 0 and not self._goes_on(session):
            log.info(
                f"the tables are not where increment {self._last} in '{self._directory}' left them, since steps behind a checkpoint "
                f"were lost or taken elsewhere; increment {self._last + 1} has all rows"
            )
            self._marks = [np.full_like(marks, -1) for marks in self._marks]
            self.write(session)

    def _goes_on(self, session: Any) -> bool:
        """Whether the newest increment ends where the tables are: at their step, with the rows and the Variables of now.

        Where steps were lost and as many taken again, of other batches, these are others.
        """
        prefix = prefix_of(self._directory, self._last)
        at_its_end = all(session.run([tables.matches for tables in self._tables], {self._prefix.name: prefix}))
        at_its_end = at_its_end and self._has_variables_of(tf.train.load_checkpoint(prefix), session)
        if self._place.size == 1:
            return at_its_end
        return all(found for (found,) in _of_all_ranks([at_its_end], self._place))

    def _has_variables_of(self, reader: Any, session: Any) -> bool:
        """Whether the trained Variables that are small are those of an increment. The next one has all of them in any case, but they tell
        histories apart of which the latest rows are equal."""
        trained = self.graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
        small = {v.op.name: v for v in trained if (v.shape.num_elements() or 0) <= _MOST_COMPARED}
        found = {name: v for name, v in small.items() if reader.has_tensor(name)}
        now = session.run(list(found.values()))
        return all(np.array_equal(reader.get_tensor(name), value, equal_nan=True) for name, value in zip(found, now))

    def _read_marks(self, session: Any) -> List[np.ndarray]:
        return session.run([tables.marks for tables in self._tables])

    def _wanted(self, marks: List[np.ndarray]) -> Tuple[List[np.ndarray], List[np.ndarray]]:
        """Of which tables all rows are wanted, and of which all keys, device by device: what one rank of several needs, all write."""
        whole, all_keys = [], []
        for since, now in zip(self._marks, marks):
            whole.append((since[:, _STEP] < 0) | (since[:, _EDITS] != now[:, _EDITS]))
            unlisted = (since[:, _EVICTED] != now[:, _EVICTED]) & (since[:, _EVICTED] < now[:, _LISTED_FROM])
            all_keys.append(whole[-1] | unlisted)
        if self._place.size == 1:
            return whole, all_keys
        mine = np.concatenate([np.concatenate(whole), np.concatenate(all_keys)])
        agreed = np.any(_of_all_ranks(mine.tolist(), self._place), axis=0)
        ends = np.cumsum([len(part) for part in whole + all_keys])[:-1]
        parts = np.split(agreed, ends)
        return parts[: len(whole)], parts[len(whole) :]

    def write(self, session: Any) -> None:
        """Writes the next increment."""
        # Before it is written: what changes meanwhile comes once more in the next.
        marks = self._read_marks(session)
        number = self._last + 1
        if self._saves is not None:
            whole, all_keys = self._wanted(marks)
            inputs: Dict[str, Any] = {self._number.name: number}
            for i, tables in enumerate(self._tables):
                inputs[tables.since.name] = np.where(whole[i][:, None], -1, self._marks[i])
                inputs[tables.all_keys.name] = all_keys[i]
            rank_savers.set_tables(self._saver, dataclasses.replace(self._saves, inputs=inputs))
        # No state file, which would make a checkpoint to resume from of what is none.
        self._saver.save(session, prefix_of(self._directory, number), write_meta_graph=False, write_state=False)
        self._last, self._marks = number, marks
        if self._place.rank == 0 and self._max_to_keep > 0:
            for old in numbers_in(self._directory)[: -self._max_to_keep]:
                tf.compat.v1.train.remove_checkpoint(prefix_of(self._directory, old))


def _of_all_ranks(mine: List[bool], place: Any) -> List[List[bool]]:
    """What each rank gives, on all of them; they meet in the store."""
    key = meetings.next_of("increment")
    store().put(f"{key}-{place.rank}", mine)
    return [store().wait(f"{key}-{rank}", f"rank {rank} to write an increment") for rank in range(place.size)]
