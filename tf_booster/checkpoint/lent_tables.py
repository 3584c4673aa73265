"""Evaluations and exports beside a training read its hash tables where they are, in place of restoring a copy.

`train_and_evaluate` evaluates from within the hook that has just saved a checkpoint: the training waits meanwhile, and its tables are what the
checkpoint has. So graphs that are rewritten then get tables with the attribute `lenders`, the files that the save has written; which table
that is, and whether it has changed since, the op finds out (cc/tf/kernels/lent_tables.h), else it makes one of its own to be restored.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import listed_tables
from tf_booster.embedding import registry
from tf_booster.embedding.table_spec import TableSpec
from tf_booster.parallel import shared_graphs
from tf_booster.passes.base import RewriteError


class _Saved(NamedTuple):
    """The checkpoint that a session saved last, and what it wrote for its tables."""

    graph: Any  # weakref.ref
    prefix: str
    lenders: List[str]


class Lent(NamedTuple):
    """Where tables are read that another graph of this process trains.

    attributes: of the op that makes the table; {} if nothing is lent. fields: of each table, there. refusal: why nothing is lent, or "".
    """

    attributes: Dict[str, Any]
    fields: Tuple[int, ...] = ()
    refusal: str = ""


NOTHING = Lent({})
# Of the op that makes a table: what its fields are.
_FIELDS = (
    "table_name",
    "field_names",
    "seeds",
    "initializers",
    "initializer_args",
    "min_frequencies",
    "max_rows",
    "evictions",
    "eviction_args",
)

_saved: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> _Saved.
_here = threading.local()  # waiting: the graph whose training waits for this thread. lent: the _Saved that may be read.


def note_save(session: Any, prefix: str, lenders: Sequence[str]) -> None:
    """Notes that `session` has saved the checkpoint `prefix`, its tables as `lenders` first."""
    if not session.sess_str:  # Of this process.
        _saved[session.graph] = _Saved(weakref.ref(session.graph), prefix, list(lenders))


def waits(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps methods of CheckpointSaverHook, (session or run context, …), during which the training of the session waits for the caller."""

    @functools.wraps(original)
    def method(self: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        session = getattr(context, "session", context)
        with _set("waiting", session.graph):
            return original(self, context, *args, **kwargs)

    return method


def from_checkpoint(checkpoint: Optional[str]) -> ContextManager[None]:
    """While graphs are built, run and closed again in which tables are restored from `checkpoint`."""
    waiting = getattr(_here, "waiting", None)
    saved = None if waiting is None else _saved.get(waiting)
    return _set("lent", saved if saved is not None and saved.prefix == checkpoint else None)


def from_memory(graph: tf.Graph, lender: str) -> ContextManager[None]:
    """While other graphs are built, run and closed again that read the tables of `graph` whatever checkpoints there are.

    `lender`: the name that lend_op() has.
    """
    return _set("lent", _Saved(weakref.ref(graph), "", [lender]))


def lend_op(graph: tf.Graph, lender: str) -> tf.Operation:
    """An op that lends all tables of a rewritten graph, as they are when it runs."""
    ops = []
    with graph.as_default(), tf.control_dependencies(None):
        for device, listed in listed_tables.all_by_device(graph).items():
            with tf.device(None), tf.device(device):
                ops.append(_native.ops().tf_booster_table_lend(listed_tables.resources(listed), lender=lender))
        return tf.group(*ops)


def evaluate(original: Any) -> Any:
    """Wraps Estimator.evaluate."""

    @functools.wraps(original)
    def evaluate(
        self: Any, input_fn: Any, steps: Any = None, hooks: Any = None, checkpoint_path: Any = None, name: Any = None
    ) -> Any:
        with from_checkpoint(checkpoint_path or tf.train.latest_checkpoint(self.model_dir)):
            return original(self, input_fn, steps=steps, hooks=hooks, checkpoint_path=checkpoint_path, name=name)

    return evaluate


def owner_of(table: str) -> Any:
    """Tables that can be lent together alone have the same; None: it is not lent."""
    entry = _trained().get(table)
    return None if entry is None else entry.resource.ref()


def place_of(table: str) -> int:
    """Of a table among those of its owner."""
    entry = _trained().get(table)
    return 0 if entry is None else entry.field


def lent(graph: tf.Graph, tables: Sequence[TableSpec], trained: bool, edited: bool) -> Lent:
    """What is lent to `graph` for tables that become one.

    Args:
      graph: where they will be.
      tables: in their order.
      trained: whether the graph has an update of them, which an evaluation does not run.
      edited: whether the graph changes them otherwise.

    Raises:
      RewriteError: nothing can be lent, and there is no checkpoint.
    """
    known = _trained()
    if not known:
        return NOTHING
    refusal = _refusal(graph, tables, trained, edited)
    if not refusal:
        owner = known[tables[0].name].resource.op
        lending = {"lenders": _here.lent.lenders, "lent_checkpoint": _here.lent.prefix}
        fields = tuple(known[table.name].field for table in tables)
        return Lent({**{name: owner.get_attr(name) for name in _FIELDS}, **lending}, fields)
    if not _here.lent.prefix:
        raise RewriteError(
            f"Table '{tables[0].name}': InMemoryEvaluatorHook evaluates with the tables of the training, but {refusal}; evaluate "
            "checkpoints, by tf.estimator.train_and_evaluate."
        )
    return Lent({}, refusal=refusal)


def _refusal(graph: tf.Graph, tables: Sequence[TableSpec], trained: bool, edited: bool) -> str:
    known = [_trained().get(table.name) for table in tables]
    if edited:
        return "the evaluation's graph changes them by hand"
    if shared_graphs.place(graph) != shared_graphs.place(_here.lent.graph()):
        return "of the training's each rank has a part"
    if any(entry is None for entry in known):
        return "the training has no such table"
    if any(entry.spec.initializer != table.initializer for entry, table in zip(known, tables)):
        return "new rows of the training's begin with other values"
    resource = known[0].resource.op
    everything = list(range(len(resource.get_attr("field_names"))))
    if any(e.resource.op is not resource for e in known) or (trained and [e.field for e in known] != everything):
        return "the training has them fused with others"
    return ""


def _trained() -> Dict[str, registry.RewrittenTable]:
    lent_here = getattr(_here, "lent", None)
    graph = None if lent_here is None else lent_here.graph()
    return {} if graph is None else registry.rewritten(graph)


@contextlib.contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    outer = getattr(_here, name, None)
    setattr(_here, name, value)
    try:
        yield
    finally:
        setattr(_here, name, outer)
