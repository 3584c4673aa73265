"""How a Saver saves tables: each by an op that writes it piece by piece, as a checkpoint of its own beside the one of the Saver's SaveV2.

The SaveV2 has all tables as tensors among its inputs, so it would want memory for as much as there is on disk, where a table may take
most of it. It is fed tensors without rows in their place; publishing makes one checkpoint of all.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import listed_tables

_EXPORT = "TfBoosterTableExport"


@dataclasses.dataclass(frozen=True)
class TableSaves:
    """The tables of one Saver.

    ops: each writes those of one device, to the Saver's prefix and one of `suffixes`.
    feeds: what the Saver's own SaveV2 is to be fed meanwhile, by the tensors' names.
    inputs: what `ops` are to be fed, likewise.
    """

    ops: Tuple[tf.Operation, ...]
    suffixes: Tuple[str, ...]
    feeds: Dict[str, Any] = dataclasses.field(default_factory=dict)
    inputs: Dict[str, Any] = dataclasses.field(default_factory=dict)

    def shards(self, prefix: str) -> List[str]:
        """What `ops` write where the Saver's prefix is `prefix`: checkpoints by themselves."""
        return [prefix + suffix for suffix in self.suffixes]


def make(saver: Any, graph: tf.Graph) -> Optional[TableSaves]:
    """Adds the ops to the graph of a built Saver; None where it saves no tables."""
    by_device: Dict[str, List[listed_tables.ListedTable]] = {}
    feeds: Dict[str, Any] = {}
    for op in save_ops(saver, graph):
        for name, tensor in zip(tf.get_static_value(op.inputs[1]), list(op.inputs)[3:]):
            if tensor.op.type == _EXPORT:
                feeds[tensor.name] = _without_rows(tensor)
                if tensor.value_index < tensor.op.get_attr("N"):  # One of `keys`, of which each table has one.
                    _add(tensor, tf.compat.as_str(name)[: -len("/keys")], by_device)
    if not by_device:
        return None
    prefix = graph.get_tensor_by_name(saver.saver_def.filename_tensor_name)
    suffixes = tuple(f"-tables-{i}" for i in range(len(by_device)))
    with graph.as_default(), tf.control_dependencies(None):
        ops = tuple(_save_op(listed, prefix, suffix) for listed, suffix in zip(by_device.values(), suffixes))
    return TableSaves(ops, suffixes, feeds)


def _add(keys: tf.Tensor, name: str, by_device: Dict[str, List[listed_tables.ListedTable]]) -> None:
    """Lists the table whose keys are saved."""
    handle, fields = keys.op.inputs[0], keys.op.get_attr("fields")
    is_field = handle.op.type == "TfBoosterTableField"
    resource = handle.op.inputs[0] if is_field else handle
    field = fields[keys.value_index] if fields else handle.op.get_attr("field") if is_field else 0
    listed_tables.add(
        by_device.setdefault(handle.device, []), resource, field, name, with_slots=keys.op.get_attr("S") > 0
    )


def _save_op(listed: List[listed_tables.ListedTable], prefix: tf.Tensor, suffix: str) -> tf.Operation:
    shard = shard_prefix(prefix, suffix)
    with tf.device(None), tf.device(listed[0].resource.device):
        return _native.ops().tf_booster_table_save(
            listed_tables.resources(listed),
            shard,
            **listed_tables.attributes(listed),
            with_slots=[table.with_slots for table in listed],
            name=f"{prefix.op.name}{suffix}_save",
        )


def shard_prefix(prefix: tf.Tensor, suffix: str) -> tf.Tensor:
    """Where an op writes its tables, beside what a Saver writes to `prefix`."""
    with tf.device("/CPU:0"):
        return tf.strings.join([prefix, suffix], name=f"{prefix.op.name}{suffix}")


def _without_rows(tensor: tf.Tensor) -> Any:
    shape = [0 if size is None else size for size in tensor.shape.as_list()]
    return np.zeros(shape, tensor.dtype.as_numpy_dtype) if tensor.dtype != tf.string else b""


def save_ops(saver: Any, graph: tf.Graph) -> List[tf.Operation]:
    """The SaveV2 ops that the Saver runs."""
    todo = [graph.get_tensor_by_name(saver.saver_def.save_tensor_name).op]
    seen, found = set(todo), []
    while todo:
        op = todo.pop()
        if op.type == "SaveV2":
            found.append(op)
            continue
        for before in [*op.control_inputs, *(tensor.op for tensor in op.inputs)]:
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return found
