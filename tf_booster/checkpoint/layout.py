"""The names of a table's tensors in a checkpoint, and what a table's resource op says of the table.

    <table>/keys            int64 [n]          <table>/pending_keys    int64 [p]
    <table>/values          float [n, dim]     <table>/pending_counts  int64 [p]
    <table>/slots/<slot>    float [n, dim]     <table>/step            int64 []
    <table>/frequencies     int64 [n]          <table>/seed            int64 []
    <table>/last_use_steps  int64 [n]          <table>/optimizer       string []

n rows in no promised order; p keys that were seen and not admitted yet.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Iterable, List, NamedTuple, Optional, Tuple

import tensorflow as tf

_FIELDS = (
    "keys",
    "values",
    "frequencies",
    "last_use_steps",
    "pending_keys",
    "pending_counts",
    "step",
    "seed",
    "optimizer",
)


class Exported(NamedTuple):
    """One table's outputs of a TableExport op, by the names of _FIELDS."""

    keys: tf.Tensor
    values: tf.Tensor
    slots: List[tf.Tensor]
    frequencies: tf.Tensor
    last_use_steps: tf.Tensor
    pending_keys: tf.Tensor
    pending_counts: tf.Tensor
    step: tf.Tensor
    seed: tf.Tensor
    optimizer: tf.Tensor


def tables_of(exported: Any) -> List[Exported]:
    """The outputs of one TableExport op, table by table."""
    tables, slots = len(exported.keys), len(exported.slots) // len(exported.keys)
    lists = [name for name in Exported._fields if name not in ("slots", "optimizer")]
    return [
        Exported(
            slots=list(exported.slots[i * slots : (i + 1) * slots]),
            optimizer=exported.optimizer,
            **{name: getattr(exported, name)[i] for name in lists},
        )
        for i in range(tables)
    ]


def named_tensors(checkpoint_name: str, handle: tf.Tensor, exported: Exported) -> List[Tuple[str, tf.Tensor]]:
    """Pairs of name in the checkpoint and tensor, for what TableExport gives of the table `handle`."""
    pairs = [(f"{checkpoint_name}/{field}", getattr(exported, field)) for field in _FIELDS]
    slots = zip(slot_names(handle), exported.slots)
    return pairs + [(f"{checkpoint_name}/slots/{slot}", tensor) for slot, tensor in slots]


def table_that_reserves(name: str, tables: AbstractSet[str]) -> Optional[str]:
    """The one of `tables` that writes a tensor by this name; None if none does. Takes no longer for many tables."""
    table, _, field = name.rpartition("/")
    if field in _FIELDS and table in tables:
        return table
    places = (slot.start() for slot in re.finditer("/slots/", name))
    return next((name[:place] for place in places if name[:place] in tables), None)


def tables_among(names: Iterable[str]) -> List[str]:
    """The tables in a checkpoint that has tensors of these names."""
    names = set(names)
    return sorted(name[: -len("/keys")] for name in names if name.endswith("/keys") and f"{name[:-5]}/values" in names)


def seed_name(checkpoint_name: str) -> str:
    """The smallest tensor that every saved table has."""
    return f"{checkpoint_name}/seed"


def table_name(handle: tf.Tensor) -> str:
    """The name of the table that `handle`, the output of a TfBoosterHashTable or TfBoosterTableField op, gives."""
    if handle.op.type == "TfBoosterTableField":
        return tf.compat.as_str(_resource_op(handle).get_attr("field_names")[handle.op.get_attr("field")])
    return tf.compat.as_str(handle.op.get_attr("table_name"))


def dim(handle: tf.Tensor) -> int:
    """Columns of the table's embeddings."""
    return _resource_op(handle).get_attr("dim")


def slot_names(handle: tf.Tensor) -> List[str]:
    """The optimizer slots of the table's rows, in row order."""
    return [tf.compat.as_str(name) for name in _resource_op(handle).get_attr("slot_names")]


def _resource_op(handle: tf.Tensor) -> tf.Operation:
    return handle.op.inputs[0].op if handle.op.type == "TfBoosterTableField" else handle.op
