"""Evaluations and exports beside a training read its hash tables where they are, in place of restoring a copy.

What they are lent is in lending.py. Graphs that are rewritten then get tables with the attribute `lenders`, the files that the save has
written; which table that is, and whether it has changed since, the op finds out (cc/tf/kernels/lent_tables.h), else it makes one of its own to be restored.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import lending, listed_tables
from tf_booster.embedding import registry
from tf_booster.embedding.table_spec import TableSpec
from tf_booster.parallel import shared_graphs
from tf_booster.passes.base import RewriteError


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


def lend_op(graph: tf.Graph, lender: str) -> tf.Operation:
    """An op that lends all tables of a rewritten graph, as they are when it runs."""
    ops = []
    with graph.as_default(), tf.control_dependencies(None):
        for device, listed in listed_tables.all_by_device(graph).items():
            with tf.device(None), tf.device(device):
                ops.append(_native.ops().tf_booster_table_lend(listed_tables.resources(listed), lender=lender))
        return tf.group(*ops)


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
    saved, known = lending.current(), _trained()
    if saved is None or not known:
        return NOTHING
    refusal = _refusal(graph, tables, trained, edited)
    if not refusal:
        owner = known[tables[0].name].resource.op
        attributes = {name: owner.get_attr(name) for name in _FIELDS}
        attributes.update(lenders=saved.lenders, lent_checkpoint=saved.prefix)
        return Lent(attributes, tuple(known[table.name].field for table in tables))
    if not saved.prefix:
        raise RewriteError(
            f"Table '{tables[0].name}': InMemoryEvaluatorHook evaluates with the tables of the training, but {refusal}; evaluate "
            "checkpoints, by tf.estimator.train_and_evaluate."
        )
    return Lent({}, refusal=refusal)


def _refusal(graph: tf.Graph, tables: Sequence[TableSpec], trained: bool, edited: bool) -> str:
    known = [_trained().get(table.name) for table in tables]
    if edited:
        return "the evaluation's graph changes them by hand"
    saved = lending.current()
    if saved is None or shared_graphs.place(graph) != shared_graphs.place(saved.graph()):
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
    saved = lending.current()
    graph = None if saved is None else saved.graph()
    return {} if graph is None else registry.rewritten(graph)
