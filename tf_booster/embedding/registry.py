"""What a graph knows of its hash tables, between the user's code that makes them and the rewrite that replaces them.

The entries live in collections of the graph itself, so they go when it goes. Their keys are tuples: TensorFlow writes
only collections with string keys into a MetaGraph, and would warn of entries that it cannot serialize.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import tensorflow as tf

from tf_booster.embedding.table_spec import EvictionSpec, TableSpec

_TABLES = ("tf_booster", "tables")
_COLUMNS = ("tf_booster", "columns")
_REWRITTEN = ("tf_booster", "rewritten_tables")


class ColumnSettings(NamedTuple):
    """What a categorical_column_with_hash_table says of the tables that are made from it."""

    op_name: str  # Of the StandInIds op through which the column's ids went.
    key: str  # Of the feature.
    seed: Optional[int]
    min_frequency: int
    eviction: EvictionSpec
    max_rows: Optional[int]


class RewrittenTable(NamedTuple):
    """A table of a rewritten graph."""

    name: str
    handle: tf.Tensor  # The table alone: output of a TfBoosterHashTable op, or of a TfBoosterTableField on a fused one.
    slot_names: tuple  # Of the optimizer, in row order; empty where nothing updates the table.
    slot_initial_values: tuple
    optimizer: str  # As the attr `optimizer` of the op; '' for none.
    spec: TableSpec  # Its seed is set.
    num_probes: int  # Lookups of other ids.
    stats: tf.Tensor  # Output of its TableStats op.
    resource: tf.Tensor  # Output of the TfBoosterHashTable op: `handle`, or the fused table that it is a field of.
    field: int = 0
    num_groups: int = 0  # Probes of `resource`; their groups are 0 to num_groups - 1.
    kind: str = "cpu"  # Or "gpu": where the table lives.
    exported: Any = None  # What TableSaveable takes: the table's part of one TableExport of all of `resource`.


def add_table(graph: tf.Graph, table: Any) -> None:
    """Notes a table that get_hash_table made."""
    graph.add_to_collection(_TABLES, table)


def tables(graph: tf.Graph) -> Dict[str, Any]:
    """The tables that get_hash_table made in this graph: name -> HashTable, in the order in which they were made."""
    return {table.name: table for table in graph.get_collection(_TABLES)}


def has_tables(graph: tf.Graph) -> bool:
    """Whether there are tables in this graph, those that feature columns make among them; true after the rewrite, too."""
    return bool(graph.get_collection(_TABLES) or graph.get_collection(_COLUMNS))


def add_column(graph: tf.Graph, settings: ColumnSettings) -> None:
    """Notes the settings of a column whose ids just went through the StandInIds op `settings.op_name`."""
    graph.add_to_collection(_COLUMNS, settings)


def columns(graph: tf.Graph) -> Dict[str, ColumnSettings]:
    """Settings of hash-table columns, by the name of the StandInIds op."""
    return {settings.op_name: settings for settings in graph.get_collection(_COLUMNS)}


def add_rewritten(graph: tf.Graph, table: RewrittenTable) -> None:
    """Notes, for t.size() and the like, that a table now has its real resource; an entry of the same name goes."""
    entries = graph.get_collection_ref(_REWRITTEN)
    entries[:] = [*(entry for entry in entries if entry.name != table.name), table]


def rewritten(graph: tf.Graph) -> Dict[str, RewrittenTable]:
    """The tables of a graph that was rewritten, by name; empty before."""
    return {table.name: table for table in graph.get_collection(_REWRITTEN)}
