"""What an evaluation or an export within a training may have of it, in place of restoring a copy: who waits for whom, and what was saved last.

`train_and_evaluate` evaluates from within the hook that has just saved a checkpoint: the training waits meanwhile, and its tables and Variables are what the
checkpoint has. lent_tables.py and lent_variables.py lend them.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Callable, ContextManager, Iterator, List, NamedTuple, Optional, Sequence

import tensorflow as tf


class Saved(NamedTuple):
    """The checkpoint that a session saved last, and what it wrote for its tables. prefix: "" stands for what the session has now."""

    graph: Any  # weakref.ref
    prefix: str
    lenders: List[str]


_saved: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> Saved.
# Of a thread. waiting: the graph whose training waits for it; lent: the Saved that may be read; exports: whether that is for an export.
_here = threading.local()


def note_save(session: Any, prefix: str, lenders: Sequence[str]) -> None:
    """Notes that `session` has saved the checkpoint `prefix`, its tables as `lenders` first."""
    if not session.sess_str:  # Of this process.
        _saved[session.graph] = Saved(weakref.ref(session.graph), prefix, list(lenders))


def waits(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps methods of CheckpointSaverHook, (session or run context, …), during which the training of the session waits for the caller."""

    @functools.wraps(original)
    def method(self: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        session = getattr(context, "session", context)
        with _set(waiting=session.graph):
            return original(self, context, *args, **kwargs)

    return method


def is_waiting(graph: tf.Graph) -> bool:
    """Whether the training of `graph` waits for this thread."""
    return getattr(_here, "waiting", None) is graph


def from_checkpoint(checkpoint: Optional[str], exports: bool = False) -> ContextManager[None]:
    """While graphs are built, run and closed again that are restored from `checkpoint`, for an export or else an evaluation."""
    waiting = getattr(_here, "waiting", None)
    saved = None if waiting is None else _saved.get(waiting)
    return _set(lent=saved if saved is not None and saved.prefix == checkpoint else None, exports=exports)


def from_memory(graph: tf.Graph, lender: str) -> ContextManager[None]:
    """While other graphs are built, run and closed again that read the tables of `graph` whatever checkpoints there are.

    `lender`: the name that lent_tables.lend_op() has.
    """
    return _set(lent=Saved(weakref.ref(graph), "", [lender]), exports=False)


def current() -> Optional[Saved]:
    """What may be read in place of a copy, here and now."""
    return getattr(_here, "lent", None)


def is_for_export() -> bool:
    """Whether that is for a graph that becomes a SavedModel."""
    return getattr(_here, "exports", False)


def evaluate(original: Any) -> Any:
    """Wraps Estimator.evaluate."""

    @functools.wraps(original)
    def evaluate(
        self: Any, input_fn: Any, steps: Any = None, hooks: Any = None, checkpoint_path: Any = None, name: Any = None
    ) -> Any:
        is_within = getattr(_here, "waiting", None) is not None
        path = checkpoint_path or (tf.train.latest_checkpoint(self.model_dir) if is_within else None)
        with from_checkpoint(path):
            return original(self, input_fn, steps=steps, hooks=hooks, checkpoint_path=checkpoint_path, name=name)

    return evaluate


@contextlib.contextmanager
def _set(**values: Any) -> Iterator[None]:
    outer = {name: getattr(_here, name, None) for name in values}
    vars(_here).update(values)
    try:
        yield
    finally:
        vars(_here).update(outer)
