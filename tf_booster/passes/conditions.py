"""The conditions under which ops of a graph run that a pass has taken out of a tf.cond: who waits for the same one may become one op."""

from __future__ import annotations

import weakref
from typing import FrozenSet, Iterable

import tensorflow as tf

_pivots: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of ops.


def note(pivot: tf.Operation) -> None:
    """Says that what waits for `pivot` runs if a condition holds, and not at all otherwise, and is in no other branch or loop."""
    _pivots.setdefault(pivot.graph, weakref.WeakSet()).add(pivot)


def of(ops: Iterable[tf.Operation]) -> FrozenSet[tf.Operation]:
    """The pivots that one of `ops` waits for."""
    ops = list(ops)
    known = _pivots.get(ops[0].graph, ()) if ops else ()
    return frozenset(before for op in ops for before in op.control_inputs if before in known) if known else frozenset()
