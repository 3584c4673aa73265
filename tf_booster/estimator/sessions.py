"""Which open sessions have run a graph already: what is edited in it later, they never see."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import tensorflow as tf

from tf_booster import _compat

_ran: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of sessions.


def note_run(original: Any) -> Any:
    """Wraps the method in which a session takes in what its graph has got since its last run."""

    @functools.wraps(original)
    def _extend_graph(self: Any) -> None:
        if not getattr(self, "_tf_booster_noted", False):  # The attribute costs a run 50 ns, the set would cost 500.
            self._tf_booster_noted = True
            _ran.setdefault(self.graph, weakref.WeakSet()).add(self)
        original(self)

    return _extend_graph


def num_open(graph: tf.Graph) -> int:
    """How many sessions that are still open have run `graph`, since tf_booster was enabled."""
    return sum(not _compat.is_closed(session) for session in _ran.get(graph, ()))


def is_any_made(graph: tf.Graph) -> bool:
    """Whether a session on `graph` is open, which may have run it before tf_booster was enabled."""
    kind = _compat.base_session_class()
    found = (each for each in gc.get_objects() if issubclass(type(each), kind))
    return any(session.graph is graph and not _compat.is_closed(session) for session in found)
