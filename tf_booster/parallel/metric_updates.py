"""How the Variables of streaming metrics are updated, and so how what ranks have of them becomes one value."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView

_READ = ("tf_booster", "read_by_metrics")  # A graph's collection.
SUM, MAX, MIN = "sum", "max", "min"

_READS = ("ReadVariableOp", "Identity", "VariableShape", "VarIsInitializedOp", "IsVariableInitialized", "DisableCopyOnRead", "ResourceGather",
          "ResourceGatherNd", "Save", "SaveSlices", "SaveV2")  # fmt: skip
_INTO_A_COND = ("Switch", "RefSwitch")  # Of v1 control flow.
_WRITES = {
    **dict.fromkeys(("AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"), SUM),
    **{f"{prefix}Scatter{nd}{how}": SUM for prefix in ("", "Resource") for nd in ("", "Nd") for how in ("Add", "Sub")},
    **{f"{prefix}Scatter{nd}Max": MAX for prefix in ("", "Resource") for nd in ("", "Nd")},
    **{f"{prefix}Scatter{nd}Min": MIN for prefix in ("", "Resource") for nd in ("", "Nd")},
}
_ASSIGNS = ("Assign", "AssignVariableOp")
_RESTORES = ("Restore", "RestoreSlice", "RestoreV2")
# What is assigned is the old value with this; for which inputs it may be.
_TOGETHER = {"Add": (SUM, (0, 1)), "AddV2": (SUM, (0, 1)), "Sub": (SUM, (0,)), "Maximum": (MAX, (0, 1)), "Minimum": (MIN, (0, 1)),
             "LogicalOr": (MAX, (0, 1)), "LogicalAnd": (MIN, (0, 1))}  # fmt: skip
# The number of the first input that is an argument of their functions.
_CALLS = {"PartitionedCall": 0, "StatefulPartitionedCall": 0, "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}


def note_read(graph: tf.Graph, metrics: Mapping[str, Any]) -> None:
    """Notes what evaluations that ranks make together must merge: of `metrics`, name -> (value, update), the Variables that the updates write
    and the values are computed from. The collection METRIC_VARIABLES does not have those that a program made for itself."""
    index = GraphView(graph).index()
    values, updates = ([getattr(each, "op", each) for each in part] for part in zip(*metrics.values()))
    read, written = index.upstream(values), index.upstream(updates)

    def is_written(variable: Any) -> bool:
        writers = [op for op in _writers(_handle(variable)) if op is not variable.initializer]
        return any(index.number[op] in written for op in writers)

    for variable in dict.fromkeys(v.ref() for v in [*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables()]):
        if index.number[variable.deref().op] in read and is_written(variable.deref()):
            graph.add_to_collection(_READ, variable.deref())


def _writers(handle: tf.Tensor) -> List[tf.Operation]:
    """The ops that write the Variable, calls of functions that do among them. A model's Variable may be read in such ones, too."""

    def writes_inside(call: tf.Operation) -> bool:
        places = [i - _CALLS[call.type] for i, tensor in enumerate(call.inputs) if tensor is handle]
        return any(_writers(body.inputs[i]) for body in _compat.called_graphs(call) for i in places)

    return [
        op
        for op in _consumers(handle)
        if op.type in _WRITES or op.type in _ASSIGNS or (op.type in _CALLS and writes_inside(op))
    ]


def variables_of_metrics(graph: tf.Graph) -> List[Any]:
    """Those that note_read has noted, and those of the collection; some more than once."""
    return [*graph.get_collection(tf.compat.v1.GraphKeys.METRIC_VARIABLES), *graph.get_collection(_READ)]


def how_merged(variables: Mapping[str, Any]) -> Dict[str, str]:
    """For each of the Variables of a graph, by names: SUM of what ranks added, or MAX or MIN of what they have.

    Raises:
      ValueError: one is updated otherwise, so that the value of the whole set does not follow from those of its parts.
    """
    found = _updates({name: _handle(variable) for name, variable in variables.items()}, _initializers(variables))
    for name, updates in found.items():
        if None in updates or len(set(updates)) > 1:
            raise ValueError(
                f"tf_booster: the metric's Variable '{name}' is not only added to, nor the maximum or minimum of what it was and something "
                f"new, so the ranks' values cannot be merged. Update it by assign_add of what does not depend on it, or by "
                "assign(tf.maximum(variable, …)); or evaluate in one process, as the evaluator of train_and_evaluate does."
            )
    return {name: updates[0] if updates else SUM for name, updates in found.items()}


def _handle(variable: Any) -> tf.Tensor:
    handle = getattr(variable, "handle", None)
    return variable.op.outputs[0] if handle is None else handle


def _initializers(variables: Mapping[str, Any]) -> Set[tf.Operation]:
    """What gives them their first values: initializers, and Savers, of those that checkpoints have."""
    found = {variable.initializer for variable in variables.values()}
    for variable in variables.values():
        assigns = (op for op in _consumers(_handle(variable)) if op.type in _ASSIGNS)
        found.update(op for op in assigns if _behind_identities(op.inputs[1]).op.type in _RESTORES)
    return found


def _updates(handles: Dict[str, tf.Tensor], left_out: Set[tf.Operation]) -> Dict[str, List[Optional[str]]]:
    """For each handle the kinds of its updates; None for one that is not understood."""
    found: Dict[str, List[Optional[str]]] = {name: [] for name in handles}
    depends = _downstream(handles, left_out)
    calls: Dict[tf.Operation, None] = {}
    for name, handle in handles.items():
        for op in _consumers(handle):
            if op in left_out or op.type in _READS:
                continue
            if op.type in _CALLS:
                calls[op] = None
            elif op.type in _WRITES:
                found[name].append(_WRITES[op.type] if depends.isdisjoint(t.op for t in op.inputs[1:]) else None)
            else:
                found[name].append(_of_assign(op, handle, depends) if op.type in _ASSIGNS else None)
    for call in calls:
        for name, updates in _inside(call, handles, depends).items():
            found[name] += updates
    return found


def _of_assign(op: tf.Operation, handle: tf.Tensor, depends: Set[tf.Operation]) -> Optional[str]:
    value = _behind_identities(op.inputs[1])
    kind, places = _TOGETHER.get(value.op.type, (None, ()))
    for place in places:
        others = [tensor for i, tensor in enumerate(value.op.inputs) if i != place]
        if _is_value_of(value.op.inputs[place], handle) and depends.isdisjoint(tensor.op for tensor in others):
            return kind
    return None


def _consumers(handle: tf.Tensor) -> List[tf.Operation]:
    direct = handle.consumers()
    inside = [op for op in direct if op.type in _INTO_A_COND and op.inputs[0] is handle]
    return [op for op in direct if op not in inside] + [
        r for op in inside for out in op.outputs for r in _consumers(out)
    ]


def _is_value_of(tensor: tf.Tensor, handle: tf.Tensor) -> bool:
    source = _behind_identities(tensor)
    return source is handle or (
        source.op.type == "ReadVariableOp" and _behind_identities(source.op.inputs[0]) is handle
    )


def _behind_identities(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in ("Identity", *_INTO_A_COND):
        tensor = tensor.op.inputs[0]
    return tensor


def _downstream(handles: Dict[str, tf.Tensor], left_out: Set[tf.Operation]) -> Set[tf.Operation]:
    """The ops that are computed from values of the Variables."""
    seen: Set[tf.Operation] = set()
    waiting = [op for handle in handles.values() for op in handle.consumers() if op not in left_out]
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [reader for output in op.outputs for reader in output.consumers()]
    return seen


def _inside(
    call: tf.Operation, handles: Dict[str, tf.Tensor], depends: Set[tf.Operation]
) -> Dict[str, List[Optional[str]]]:
    first = _CALLS[call.type]
    by_handle = {id(handle): name for name, handle in handles.items()}
    names = {i - first: by_handle[id(t)] for i, t in enumerate(call.inputs) if id(t) in by_handle}
    found: Dict[str, List[Optional[str]]] = {name: [] for name in names.values()}
    given = [t.op for i, t in enumerate(call.inputs) if i - first not in names]
    for body in _compat.called_graphs(call):
        inner = _updates({name: body.inputs[i] for i, name in names.items()}, set())
        for name, updates in inner.items():
            found[name] += updates if depends.isdisjoint(given) else [None] * len(updates)
    return found
