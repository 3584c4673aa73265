"""Evaluations and exports beside a training read its hash tables where they are, in place of restoring a copy.

What they are lent is in lending.py. Graphs that are rewritten then get tables with the attribute `lenders`, the files that the save has
written; which table that is, and whether it has changed since, the op finds out (cc/tf/kernels/lent_tables.h), else it makes one of its own to be restored.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

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


def known() -> Dict[str, registry.RewrittenTable]:
    """The tables that may be lent here and now, as their training has them, by name. Those of one resource can be lent together alone."""
    saved = lending.current()
    graph = None if saved is None else saved.graph()
    return {} if graph is None else registry.rewritten(graph)


def lent(
    owners: Dict[str, registry.RewrittenTable],
    graph: tf.Graph,
    tables: Sequence[TableSpec],
    trained: bool,
    edited: bool,
) -> Lent:
    """What is lent to `graph` for tables that become one.

    Args:
      owners: known().
      graph: where they will be.
      tables: in their order.
      trained: whether the graph has an update of them, which an evaluation does not run.
      edited: whether the graph changes them otherwise.

    Raises:
      RewriteError: nothing can be lent, and there is no checkpoint.
    """
    saved = lending.current()
    if saved is None or not owners:
        return NOTHING
    refusal = _refusal(saved, [owners.get(table.name) for table in tables], graph, tables, trained, edited)
    if not refusal:
        owner = owners[tables[0].name].resource.op
        attributes = {name: owner.get_attr(name) for name in _FIELDS}
        attributes.update(lenders=saved.lenders, lent_checkpoint=saved.prefix)
        return Lent(attributes, tuple(owners[table.name].field for table in tables))
    if not saved.prefix:
        raise RewriteError(
            f"Table '{tables[0].name}': InMemoryEvaluatorHook evaluates with the tables of the training, but {refusal}; evaluate "
            "checkpoints, by tf.estimator.train_and_evaluate."
        )
    return Lent({}, refusal=refusal)


def _refusal(
    saved: lending.Saved,
    owned: Sequence[Optional[registry.RewrittenTable]],
    graph: tf.Graph,
    tables: Sequence[TableSpec],
    trained: bool,
    edited: bool,
) -> str:
    if edited:
        return "the evaluation's graph changes them by hand"
    if shared_graphs.place(graph) != shared_graphs.place(saved.graph()):
        return "of the training's each rank has a part"
    entries = [entry for entry in owned if entry is not None]
    if len(entries) < len(tables):
        return "the training has no such table"
    if any(entry.spec.initializer != table.initializer for entry, table in zip(entries, tables)):
        return "new rows of the training's begin with other values"
    resource = entries[0].resource.op
    everything = list(range(len(resource.get_attr("field_names"))))
    if any(e.resource.op is not resource for e in entries) or (trained and [e.field for e in entries] != everything):
        return "the training has them fused with others"
    return ""
