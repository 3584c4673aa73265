"""Keeps what would undo each edit of an op, until the edits are known to be good."""

from __future__ import annotations

import weakref
from typing import Any, Callable, List

import tensorflow as tf

_journals: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of Journal.


class Journal:
    """The edits made to a graph, through whichever function of graph_view.py, since the journal was made or committed."""

    def __init__(self, graph: tf.Graph, edited: Callable[[tf.Operation], None]):
        """`edited` is told of each op that gets other inputs or control inputs, by an edit or by its undoing."""
        self._undo: List[Callable[[], Any]] = []
        self.edited = edited
        _journals.setdefault(graph, weakref.WeakSet()).add(self)

    def __len__(self) -> int:
        return len(self._undo)

    def add(self, undo: Callable[[], Any]) -> None:
        """Has `undo` called on rollback, before what was added earlier."""
        self._undo.append(undo)

    def commit(self) -> None:
        """Nothing of what was done up to now can be undone any more."""
        self._undo.clear()

    def rollback(self) -> int:
        """Undoes the edits, last first. Returns how many."""
        undone = len(self._undo)
        while self._undo:
            self._undo.pop()()
        return undone


def note(op: tf.Operation, undo: Callable[[], Any]) -> None:
    """Gives every journal of the graph of `op` what undoes an edit of it."""

    def undo_and_tell() -> None:
        undo()
        _tell(op)

    _tell(op)
    for journal in _journals.get(op.graph, ()):
        journal.add(undo_and_tell)


def _tell(op: tf.Operation) -> None:
    for journal in _journals.get(op.graph, ()):
        journal.edited(op)
