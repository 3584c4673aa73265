"""tf.estimator.experimental.InMemoryEvaluatorHook, which evaluates within a training: tables are read where the training has them.

The hook builds its graph before the training's is rewritten, and hands Variables over by value. It refuses all other things that are saved;
tables are among these, and need no handing over.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from typing import Any, ContextManager

import tensorflow as tf

from tf_booster.checkpoint import lending, lent_tables
from tf_booster.checkpoint.saveable import TableSaveable
from tf_booster.parallel import calls, ranks

_hooks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph that trains -> WeakSet of its hooks.
_numbers = itertools.count(1)


def wrap_begin(original: Any) -> Any:
    """Wraps InMemoryEvaluatorHook.begin."""

    @functools.wraps(original)
    def begin(self: Any) -> None:
        with _by_whom():
            original(self)
        self._tf_booster_lend, self._tf_booster_lender = None, f"InMemoryEvaluatorHook {next(_numbers)}"
        _hooks.setdefault(tf.compat.v1.get_default_graph(), weakref.WeakSet()).add(self)

    return begin


def prepare_all(graph: tf.Graph) -> None:
    """Adds to a rewritten graph that is about to be finalized what its hooks lend its tables with."""
    for hook in _hooks.get(graph, ()):
        hook._tf_booster_lend = lent_tables.lend_op(graph, hook._tf_booster_lender)


def wrap_after_create_session(original: Any) -> Any:
    """Wraps InMemoryEvaluatorHook.after_create_session."""

    @functools.wraps(original)
    def after_create_session(self: Any, session: Any, coord: Any) -> None:
        saveables = session.graph.get_collection_ref(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        everything = list(saveables)
        saveables[:] = [saveable for saveable in everything if not isinstance(saveable, TableSaveable)]
        try:
            original(self, session, coord)
        finally:
            saveables[:] = everything

    return after_create_session


def wrap_evaluate(original: Any) -> Any:
    """Wraps InMemoryEvaluatorHook._evaluate."""

    @functools.wraps(original)
    def _evaluate(self: Any, train_session: Any) -> None:
        train_session.run(self._tf_booster_lend)
        with _by_whom(), lending.from_memory(train_session.graph, self._tf_booster_lender):
            original(self, train_session)

    return _evaluate


def _by_whom() -> ContextManager[None]:
    """In which a hook evaluates: with those of all ranks, or alone, where others have none."""
    return ranks.alone() if calls.is_alone(calls.EVALUATION, by=calls.HOOK) else contextlib.nullcontext()
