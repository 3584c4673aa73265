"""How the Variables of streaming metrics are updated, and so how what ranks have of them becomes one value."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView

_READ = ("tf_booster", "read_by_metrics")  # A graph's collection.
SUM, MAX, MIN = "sum", "max", "min"

_ASK_NO_VALUE = ("VariableShape", "VarIsInitializedOp", "IsVariableInitialized", "DisableCopyOnRead")
_READS = (*_ASK_NO_VALUE, "ReadVariableOp", "Identity", "ResourceGather", "ResourceGatherNd",
          "Save", "SaveSlices", "SaveV2")  # fmt: skip
_PASS_ON = ("Switch", "RefSwitch", "Enter", "RefEnter")  # Into a cond or loop of v1 control flow.
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
_LOOPS = ("While", "StatelessWhile")
# The number of the first input that is an argument of their functions.
_CALLS = {"PartitionedCall": 0, "StatefulPartitionedCall": 0, "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1,
          **dict.fromkeys(_LOOPS, 0)}  # fmt: skip


def note_read(graph: tf.Graph, metrics: Mapping[str, Any]) -> None:
    """Notes what evaluations that ranks make together must merge: of `metrics`, name -> (value, update), the Variables that the updates write
    and the values are computed from, or these Variables' updates. The collection METRIC_VARIABLES does not have those that a program made for itself."""
    index = GraphView(graph).index()
    values, updates = (
        [getattr(each, "op", each) for each in tf.nest.flatten(part)] for part in map(list, zip(*metrics.values()))
    )
    read, written = index.upstream(values), index.upstream(updates)
    uses = _Uses()
    left = {}
    for variable in [*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables()]:
        writers = [op for op in uses.writers(_handle(variable)) if op is not variable.initializer]
        writers = [op for op in writers if index.number[op] in written]
        if writers:
            left[variable.ref()] = writers
    noted = [ref for ref in left if index.number[ref.deref().op] in read]
    while noted:
        for ref in noted:
            graph.add_to_collection(_READ, ref.deref())
        before = index.upstream(op for ref in noted for op in left.pop(ref))
        noted = [ref for ref in left if any(index.number[op] in before for op in uses.readers(_handle(ref.deref())))]


class _Uses:
    """Which ops write and read Variables, calls of functions that do among them."""

    def __init__(self) -> None:
        self._bodies: Dict[tf.Operation, List[tf.Graph]] = {}

    def writers(self, handle: tf.Tensor) -> List[tf.Operation]:
        """The ops that write it."""
        return [op for op in _consumers(handle) if self._inside(op, handle, self.writers, _writes(op, handle))]

    def readers(self, handle: tf.Tensor) -> List[tf.Operation]:
        """The ops that take its value; of reference Variables also those that give what they have written."""
        return [op for op in _consumers(handle) if self._inside(op, handle, self.readers, _reads(op, handle))]

    def _inside(
        self, op: tf.Operation, handle: tf.Tensor, uses: Callable[[tf.Tensor], Sequence[Any]], by_itself: bool
    ) -> bool:
        if op.type not in _CALLS:
            return by_itself
        if op not in self._bodies:
            self._bodies[op] = _compat.called_graphs(op)
        places = [i - _CALLS[op.type] for i, tensor in enumerate(op.inputs) if tensor is handle]
        return any(uses(body.inputs[i]) for body in self._bodies[op] for i in places)


def _writes(op: tf.Operation, handle: tf.Tensor) -> bool:
    if op.type in _WRITES or op.type in _ASSIGNS:
        return True
    if handle.dtype == tf.resource:
        return op.type.startswith("Resource") and op.type not in _READS
    return any(arg.is_ref for arg in op.op_def.input_arg) and not op.type.startswith("Ref") and op.type not in _READS


def _reads(op: tf.Operation, handle: tf.Tensor) -> bool:
    if _writes(op, handle):
        return any(output.consumers() for output in op.outputs)
    return op.type not in _ASK_NO_VALUE


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
                f"new, so the ranks' values cannot be merged. Update it by assign_add of what depends on no metric's Variable, or by "
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


def _updates(
    handles: Dict[str, tf.Tensor], left_out: Set[tf.Operation], carried: Sequence[tf.Tensor] = ()
) -> Dict[str, List[Optional[str]]]:
    """For each handle the kinds of its updates; None for one that is not understood. carried: what depends on them, too."""
    found: Dict[str, List[Optional[str]]] = {name: [] for name in handles}
    depends = _downstream([*handles.values(), *carried], left_out).union(tensor.op for tensor in carried)
    calls: Dict[tf.Operation, None] = {}
    for name, handle in handles.items():
        for op in _consumers(handle):
            if op in left_out or op.type in _READS:
                continue
            if op.type in _CALLS:
                calls[op] = None
            elif op.type in _WRITES:
                found[name].append(_WRITES[op.type] if depends.isdisjoint(_given(op, op.inputs[1:])) else None)
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
        if _is_value_of(value.op.inputs[place], handle) and depends.isdisjoint(_given(op, others)):
            return kind
    return None


def _given(op: tf.Operation, inputs: Sequence[tf.Tensor]) -> List[tf.Operation]:
    """What gives these inputs, and decides whether the op runs."""
    return [tensor.op for tensor in (*inputs, *_compat.v1_predicates(op))]


def _consumers(handle: tf.Tensor) -> List[tf.Operation]:
    direct = handle.consumers()
    inside = [op for op in direct if op.type in _PASS_ON and op.inputs[0] is handle]
    return [op for op in direct if op not in inside] + [
        r for op in inside for out in op.outputs for r in _consumers(out)
    ]


def _is_value_of(tensor: tf.Tensor, handle: tf.Tensor) -> bool:
    source = _behind_identities(tensor)
    return source is handle or (
        source.op.type == "ReadVariableOp" and _behind_identities(source.op.inputs[0]) is handle
    )


def _behind_identities(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in ("Identity", *_PASS_ON):
        tensor = tensor.op.inputs[0]
    return tensor


def _downstream(sources: Iterable[tf.Tensor], left_out: Set[tf.Operation]) -> Set[tf.Operation]:
    """The ops that are computed from these."""
    seen: Set[tf.Operation] = set()
    waiting = [op for source in sources for op in source.consumers() if op not in left_out]
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
    given = _given(call, [tensor for i, tensor in enumerate(call.inputs) if i - first not in names])
    bodies = _compat.called_graphs(call)
    carried = _carried(bodies, list(names)) if call.type in _LOOPS else []
    known = depends.isdisjoint(given) and carried is not None
    for body in bodies:
        inside = {name: body.inputs[i] for i, name in names.items()}
        inner = _updates(inside, set(), [body.inputs[i] for i in carried or []])
        for name, updates in inner.items():
            found[name] += updates if known else [None] * len(updates)
    return found


def _carried(bodies: Sequence[tf.Graph], handles: Sequence[int]) -> Optional[List[int]]:
    """Which arguments of a loop's functions depend on its arguments `handles`, from the second time on; None if how often it runs does."""

    def depend(function: tf.Graph) -> List[int]:
        """The outputs that do."""
        inputs = [function.inputs[i] for i in (*handles, *found)]
        ops = _downstream(inputs, set()).union(tensor.op for tensor in inputs)
        return [i for i, output in enumerate(function.outputs) if output.op in ops]

    body, condition = bodies  # By the names of their attributes.
    found: List[int] = []
    more = [-1]
    while more:
        more = [i for i in depend(body) if i not in (*handles, *found)]
        found += more
    return None if depend(condition) else found
