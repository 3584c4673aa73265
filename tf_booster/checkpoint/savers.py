"""Savers that list what stands for a table: their ops save and restore the table in place of its stand-in.

A SaverDef holds names: of the placeholder for the checkpoint's name, of the tensor that gives it back after the save, and
of the op that waits for the whole restore. These three stay. Behind them, each SaveV2 and RestoreV2 that has a part of a
stand-in is replaced by one that has not, and the table's own ops stand beside it.

The rewrite does so with those that are built already, and rewrite_later_savers with others. Those of these that list
nothing need nothing: they take what the collections hold when they are built.
"""

from __future__ import annotations

from typing import AbstractSet, Any, ContextManager, Dict, Iterable, List, NamedTuple, Optional, Sequence

import tensorflow as tf

from tf_booster.checkpoint import layout
from tf_booster.checkpoint.saveable import TableSaveable, restore_op
from tf_booster.passes.graph_view import GraphView, variable_handle_op

# What a Saver of TensorFlow's does with the name of a checkpoint.
_PREFIX_MOVES = (
    "Identity",
    "Pack",
    "Select",
    "SelectV2",
    "ShardedFilename",
    "ShardedFilespec",
    "StaticRegexFullMatch",
    "StringJoin",
)
_PREFIX_ENDS = ("MergeV2Checkpoints", "Restore", "RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2")

_REPLACED = ("tf_booster", "replaced_variables")  # A collection of a rewritten graph.
_OBJECT_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"  # What tf.train.Checkpoint puts behind the name of a Variable.


class Replaced(NamedTuple):
    """A table and the VarHandleOps that stand for it.

    table: the rewritten table, with `handle`. Not looked at by check_built_savers.
    stand_ins: one, or the parts of a partitioned Variable.
    slots: of the stand-ins' optimizer slots.
    """

    name: str
    table: Any
    stand_ins: Sequence[tf.Operation]
    slots: Sequence[tf.Operation]


def own_writer(saver: Any, graph: tf.Graph) -> Optional[tf.Operation]:
    """An op of the program's to which a built Saver gives the name of its checkpoint: it may write, or read, files beside it. None where there is none."""
    todo, seen = [graph.get_tensor_by_name(saver.saver_def.filename_tensor_name)], set()
    while todo:
        for op in todo.pop().consumers():
            if op.type in _PREFIX_MOVES and op not in seen:
                todo += op.outputs
            elif op.type not in _PREFIX_MOVES + _PREFIX_ENDS and not op.type.startswith("TfBooster"):
                return op
            seen.add(op)
    return None


def check_built_savers(view: GraphView, replaced: Iterable[Replaced]) -> None:
    """Raises where rewrite_built_savers could not do its work; changes nothing.

    Raises:
      ValueError: a Saver writes the V1 format, or lists nothing but slots of tables; a Variable is named like one of a
        table's tensors, so that a checkpoint would have the name twice.
    """
    replaced = list(replaced)
    owners, tables = _Owners(replaced), {entry.name for entry in replaced}
    for variable in view.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES):
        if variable_handle_op(variable) not in owners:
            _check_name(variable.op.name, tables)
    for op in view.ops("Save", "SaveSlices"):
        for handle in map(_variable_read_by, op.inputs):
            if handle in owners:
                raise ValueError(
                    f"Saver op '{op.name}' ({op.type}) writes '{handle.name}', a hash table, in the V1 format; wanted V2: "
                    "leave `write_version` of tf.compat.v1.train.Saver at its default"
                )
    for op in view.ops("SaveV2"):
        save = SavedTensors(op)
        if any(handle in owners for handle in save.handles):
            save.check(owners)


def rewrite_built_savers(view: GraphView, replaced: Iterable[Replaced]) -> List[str]:
    """Replaces stand-ins and their slots in all Savers that the graph has ops of; returns the names of the ops it replaced.

    A Saver that lists a stand-in, under its own or another name, saves and restores the whole table under that name. A slot
    that is listed without its table is left out, with a warning: a slot's rows mean nothing without their keys.
    """
    owners = _Owners(replaced)
    saves = [op for op in view.ops("SaveV2") if _rewrite_save(view, op, owners)]
    restores = [op for op in view.ops("RestoreV2") if _rewrite_restore(view, op, owners)]
    return [op.name for op in saves + restores]


def note_replaced(view: GraphView, replaced: Iterable[Replaced]) -> None:
    """Notes what rewrite_built_savers was given, for Savers that are built later."""
    for entry in replaced:
        view.add_to_collection(_REPLACED, entry)


def rewrite_later_savers(graph: tf.Graph) -> None:
    """As rewrite_built_savers, of a graph that was rewritten before they were built. Raises as check_built_savers."""
    replaced = graph.get_collection(_REPLACED)
    if replaced:
        view = GraphView(graph)
        check_built_savers(view, replaced)
        rewrite_built_savers(view, replaced)


class _Owners:
    """Which table a Variable's handle belongs to."""

    def __init__(self, replaced: Iterable[Replaced]):
        self.of_stand_in: Dict[tf.Operation, Replaced] = {}
        self.of_slot: Dict[tf.Operation, Replaced] = {}
        for entry in replaced:
            self.of_stand_in.update((handle, entry) for handle in entry.stand_ins)
            self.of_slot.update((handle, entry) for handle in entry.slots)

    def __contains__(self, handle: Optional[tf.Operation]) -> bool:
        return handle in self.of_stand_in or handle in self.of_slot

    def listed(self, names: Sequence[str], handles: Sequence[Optional[tf.Operation]]) -> Dict[str, Replaced]:
        """The tables whose stand-ins are among `handles`: name in the checkpoint -> table."""
        tables = {}
        for name, handle in zip(names, handles):
            if handle in self.of_stand_in:
                entry = self.of_stand_in[handle]
                if name.endswith(_OBJECT_SUFFIX):
                    name = name[: -len(_OBJECT_SUFFIX)]
                is_own_name = name in (handle.name, handle.name.rsplit("/part_", 1)[0])
                tables[entry.name if is_own_name else name] = entry
        return tables


class SavedTensors:
    """The inputs of a SaveV2."""

    def __init__(self, op: tf.Operation):
        self.op = op
        self.names, self.slices = strings(op.inputs[1]), strings(op.inputs[2])
        self.tensors = list(op.inputs)[3:]
        self.handles = [_variable_read_by(tensor) for tensor in self.tensors]

    def check(self, owners: _Owners) -> None:
        """Raises ValueError where nothing would be left, or one name would be written twice."""
        tables = owners.listed(self.names, self.handles)
        kept = [name for name, handle in zip(self.names, self.handles) if handle not in owners]
        if not tables and not kept:
            raise ValueError(
                f"Saver op '{self.op.name}': var_list has only optimizer slots of hash tables ({', '.join(self.names)}); "
                "list the tables, their slots are saved with them"
            )
        for name in kept:
            _check_name(name, tables.keys())


def _check_name(variable: str, tables: AbstractSet[str]) -> None:
    table = layout.table_that_reserves(variable, tables)
    if table is not None:
        raise ValueError(
            f"Variable '{variable}' has the name that a tensor of hash table '{table}' has in checkpoints; rename one of the two"
        )


def _rewrite_save(view: GraphView, op: tf.Operation, owners: _Owners) -> bool:
    save = SavedTensors(op)
    if not any(handle in owners for handle in save.handles):
        return False
    tables = owners.listed(save.names, save.handles)
    _warn_of_lone_slots(save, tables, owners)
    entries = [e for e, h in zip(zip(save.names, save.slices, save.tensors), save.handles) if h not in owners]
    exported = _shared_exports(list(tables.values()))
    for name, entry in tables.items():
        saveable = TableSaveable(entry.table, name, exported.get(entry.name))
        entries.extend((spec.name, "", spec.tensor) for spec in saveable.specs)
    names, slices, tensors = zip(*entries)
    with _beside(view, op):
        new = tf.raw_ops.SaveV2(
            prefix=op.inputs[0],
            tensor_names=list(names),
            shape_and_slices=list(slices),
            tensors=list(tensors),
            name=f"{op.name}_of_tables",
        )
    view.redirect_control([op], new)
    return True


def _shared_exports(saved: Sequence[Replaced]) -> Dict[str, Any]:
    """Table -> its part of an export of all of a fused table, where all of it is saved."""
    parts: Dict[Any, List[Replaced]] = {}
    for entry in saved:
        if entry.table.exported is not None:
            parts.setdefault(entry.table.exported.optimizer.ref(), []).append(entry)
    found = {}
    for entries in parts.values():
        whole = entries[0].table.exported.optimizer.op.get_attr("N") == len({entry.name for entry in entries})
        found.update({entry.name: entry.table.exported for entry in entries if whole})
    return found


def _rewrite_restore(view: GraphView, op: tf.Operation, owners: _Owners) -> bool:
    names, slices = strings(op.inputs[1]), strings(op.inputs[2])
    assigns = [assigns_of(output) for output in op.outputs]
    handles = [next((a.inputs[0].op for a in ops if a.inputs[0].op in owners), None) for ops in assigns]
    if not any(handle is not None for handle in handles):
        return False
    restores = {}
    for name, entry in owners.listed(names, handles).items():
        with _beside(view, op):
            restores[entry.name] = restore_op(entry.table.handle, op.inputs[0], name, f"{op.name}_of_table")
    moves, left_out = [], []
    for ops, handle in zip(assigns, handles):
        if handle is not None:
            entry = owners.of_stand_in.get(handle) or owners.of_slot[handle]
            if entry.name in restores:
                moves.append((ops, restores[entry.name]))
            else:
                left_out.extend(ops)
    view.redirect_control_all(moves)
    view.cut_control(left_out)
    kept = [i for i, handle in enumerate(handles) if handle is None]
    if kept:
        # The tables first: their errors say more, and come before anything is assigned.
        with _beside(view, op, list(restores.values())):
            new = tf.raw_ops.RestoreV2(
                prefix=op.inputs[0],
                tensor_names=[names[i] for i in kept],
                shape_and_slices=[slices[i] for i in kept],
                dtypes=[op.outputs[i].dtype for i in kept],
                name=f"{op.name}_of_the_rest",
            )
        view.redirect_all([(op.outputs[i], output) for i, output in zip(kept, new)])
    return True


def _warn_of_lone_slots(save: SavedTensors, tables: Dict[str, Replaced], owners: _Owners) -> None:
    saved = {entry.name for entry in tables.values()}
    for name, handle in zip(save.names, save.handles):
        entry = owners.of_slot.get(handle)
        if entry is not None and entry.name not in saved:
            tf.compat.v1.logging.warning(
                "Saver op '%s' lists '%s', an optimizer slot of hash table '%s', without the table; it is left out. List the "
                "table: its slots are saved with it.",
                save.op.name,
                name,
                entry.name,
            )


def _beside(view: GraphView, op: tf.Operation, control_inputs: Sequence[tf.Operation] = ()) -> ContextManager:
    return view.inserting(op.device, [*op.control_inputs, *control_inputs])


def _variable_read_by(tensor: tf.Tensor) -> Optional[tf.Operation]:
    """The VarHandleOp whose value `tensor` is, as a Saver reads it."""
    op = tensor.op
    while op.type in ("Identity", "ReadVariableOp"):
        op = op.inputs[0].op
    return op if op.type == "VarHandleOp" else None


def assigns_of(restored: tf.Tensor) -> List[tf.Operation]:
    """The AssignVariableOps that take `restored`, as a Saver places them."""
    found, todo = [], list(restored.consumers())
    while todo:
        op = todo.pop()
        if op.type == "AssignVariableOp":
            found.append(op)
        elif op.type in ("Identity", "Reshape"):
            todo.extend(op.outputs[0].consumers())
    return found


def strings(tensor: tf.Tensor) -> List[str]:
    """Of a constant: the names or slices of a SaveV2 or RestoreV2."""
    return [tf.compat.as_str(value) for value in tf.get_static_value(tensor)]
