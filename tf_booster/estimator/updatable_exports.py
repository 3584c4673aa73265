"""Exports that take increments where they are served: a signature beside the model's own, which changes tables and Variables in place.

Its input is the path of an increment. First all Variables of the increment are read, then its part of the tables is checked and applied, and
last the Variables are assigned: an increment that is corrupt, or not next, is an error that has changed nothing.
"""

from __future__ import annotations

from typing import Any, List

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.checkpoint import listed_tables
from tf_booster.embedding import registry
from tf_booster.embedding.hash_table import HashTable
from tf_booster.passes import graph_view

SIGNATURE = "apply_increment"
PATH, ROWS, REMOVED = (f"tf_booster_increment/{name}:0" for name in ("path", "rows", "removed"))

_wanted = False


def set_wanted(wanted: bool) -> None:
    """The option updatable_exports."""
    global _wanted
    _wanted = wanted


def add(graph: tf.Graph, scaffold: Any) -> None:
    """Adds the ops to a rewritten graph that is about to be exported; does nothing without the option, or without tables."""
    if not _wanted or not registry.rewritten(graph):
        return
    stood_for_tables = set(graph_view.removed_variables(graph))
    saveables = _compat.saveables(
        scaffold,
        lambda entry: not isinstance(entry, HashTable) and getattr(entry, "op", entry).name not in stood_for_tables,
    )
    specs = [spec for saveable in saveables for spec in saveable.specs]
    with graph.as_default(), tf.control_dependencies(None), tf.device(None):
        with tf.device("/CPU:0"):
            path = tf.compat.v1.placeholder(tf.string, [], name=_op(PATH))
            values = tf.raw_ops.RestoreV2(
                prefix=path,
                tensor_names=[spec.name for spec in specs],
                shape_and_slices=[spec.slice_spec for spec in specs],
                dtypes=[spec.dtype for spec in specs],
            )
        with tf.control_dependencies(values):
            applied = [_apply(listed, path) for listed in listed_tables.all_by_device(graph).values()]
        with tf.control_dependencies([outputs.rows for outputs in applied]):
            left = iter(values)
            assigns = [saveable.restore([next(left) for _ in saveable.specs], None) for saveable in saveables]
        with tf.control_dependencies(assigns):
            tf.add_n([outputs.rows for outputs in applied], name=_op(ROWS))
            tf.add_n([outputs.removed for outputs in applied], name=_op(REMOVED))


def _apply(listed: List[listed_tables.ListedTable], path: tf.Tensor) -> Any:
    with tf.device(None), tf.device(listed[0].resource.device):
        return _native.ops().tf_booster_table_apply_increment(
            listed_tables.resources(listed), path, **listed_tables.attributes(listed)
        )


def add_signature(meta_graph: Any, graph: tf.Graph) -> None:
    """Tells of the ops, if `graph` has them, in the MetaGraph that was made of it."""
    if _op(ROWS) not in {op.name for op in graph.get_operations()}:
        return
    info = {
        name: tf.compat.v1.saved_model.build_tensor_info(graph.get_tensor_by_name(name))
        for name in (PATH, ROWS, REMOVED)
    }
    signature = tf.compat.v1.saved_model.build_signature_def(
        {"path": info[PATH]}, {"rows": info[ROWS], "removed": info[REMOVED]}, f"tf_booster/{SIGNATURE}"
    )
    meta_graph.signature_def[SIGNATURE].CopyFrom(signature)


def _op(tensor: str) -> str:
    return tensor.partition(":")[0]
