"""Plans which lookups of rows in other processes share a request and a reply, and which of them may be summed up over there.

A lookup is what a ResourceGather or an entry of a TfBoosterMultiGather reads by ids that come from elsewhere. It may be summed up
where its rows are if nothing but sparse_lookups' ops reads them, whose gradients are read there alone.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.servers import task_of
from tf_booster.passes.shape_tricks import copies_of

GATHERS = ("ResourceGather", "TfBoosterMultiGather")
POOLING, GRADIENT = "TfBoosterPoolLookups", "TfBoosterPoolLookupsGrad"
_DTYPES = (tf.float32, tf.float64)


@dataclasses.dataclass(frozen=True)
class Place:
    """One lookup among those of an op that sparse_lookups made: op, number and the op's lists_of."""

    op: tf.Operation
    number: int
    lists: Dict[str, List[tf.Tensor]]

    def input(self, name: str) -> Optional[tf.Tensor]:
        """Its tensor of the list input `name`; None where the op has none."""
        return self.lists[name][self.number] if self.lists[name] else None

    def segments(self) -> Tuple:
        """What tells which ids are in which row, to compare by."""
        tensors = [self.input(name) for name in ("idx", "row_splits", "zero_rows", "weights")]
        return (self.combiner, *(None if tensor is None else tensor.ref() for tensor in tensors))

    @property
    def combiner(self) -> str:
        return self.op.get_attr("combiners")[self.number].decode()


@dataclasses.dataclass
class Lookup:
    """One lookup in another process.

    ids, rows: of the gather. pooling, gradients: who would sum it up here, if that may be done there; unread: gradients that nothing
    reads. why_not: why it may not, where it is summed up at all.
    """

    gather: tf.Operation
    ids: tf.Tensor
    rows: tf.Tensor
    pooling: Optional[Place] = None
    gradients: List[Place] = dataclasses.field(default_factory=list)
    unread: List[Place] = dataclasses.field(default_factory=list)
    why_not: str = ""


@dataclasses.dataclass
class Plan:
    """groups: the lookups of each request. apart: gathers in other processes that are left, and why.

    sent_together: for each op of gradients a number; those of equal numbers may be sent as one tensor.
    """

    groups: List[List[Lookup]] = dataclasses.field(default_factory=list)
    sent_together: Dict[tf.Operation, int] = dataclasses.field(default_factory=dict)
    apart: List[Tuple[tf.Operation, str]] = dataclasses.field(default_factory=list)


def gathers_elsewhere(view: GraphView) -> List[tf.Operation]:
    """Gathers in a process that their device names, by ids that come from another one."""
    found = [op for op in view.ops(*GATHERS) if task_of(op) and any(output.consumers() for output in op.outputs)]
    return [op for op in found if any(task_of(ids.op) != task_of(op) for _, ids, _ in _entries(op))]


def plan_lookups(view: GraphView) -> Plan:
    """Changes nothing; linear in the graph."""
    plan = Plan()
    live = executed_ops(view)
    units = []
    lists: Dict[tf.Operation, Dict[str, List[tf.Tensor]]] = {}
    for gather in gathers_elsewhere(view):
        if gather not in live:
            continue
        lookups = [
            _lookup(gather, ids, rows, live, lists)
            for _, ids, rows in _entries(gather)
            if task_of(ids.op) != task_of(gather)
        ]
        reason = _obstacle(view, gather, lookups)
        if reason:
            plan.apart.append((gather, reason))
            continue
        first = lookups[0]
        key = (task_of(gather), gather.device, first.ids.op.device, first.rows.dtype, first.ids.dtype)
        units.append(Unit((gather,), key, lookups))
    gradients = dict.fromkeys(place.op for unit in units for lookup in unit.payload for place in lookup.gradients)
    units += [Unit((op,), (GRADIENT, op.device, op.outputs[0].dtype)) for op in gradients]
    groups, refused = merge_groups(view, units)
    plan.apart += [(unit.ops[0], reason) for unit, reason in refused if unit.payload]
    plan.sent_together = {op: number for number, op in enumerate(gradients)}
    for number, group in enumerate(groups, len(gradients)):
        if not group[0].payload:
            plan.sent_together.update((unit.ops[0], number) for unit in group)
            continue
        lookups = [lookup for unit in group for lookup in unit.payload]
        if len(lookups) > 1 or lookups[0].pooling is not None:
            plan.groups.append(lookups)
        else:
            plan.apart.append(
                (lookups[0].gather, lookups[0].why_not or "it is the only lookup there, and its rows are not summed up")
            )
    return plan


def behind(view: GraphView, lookups: Sequence[Lookup]) -> Set[tf.Operation]:
    """All that follows from the gathers of `lookups`, and these."""
    index = view.index()
    return {index.ops[n] for n in reached([index.number[lookup.gather] for lookup in lookups], index.after())}


def moves_along(op: tf.Operation, there: str, live: Set[tf.Operation]) -> bool:
    """Whether `op` joins what only the process `there` reads, as tf.gradients does with gradients of a table that is looked up twice."""
    if op.type != "ConcatV2" or op.control_inputs or task_of(op) == there:
        return False
    if op.colocation_groups() != [b"loc:@" + op.name.encode()]:
        return False  # It is to be where another op is.
    return all(task_of(reader) == there for reader in readers(op.outputs[0]) if reader in live)


def lists_of(op: tf.Operation) -> Dict[str, List[tf.Tensor]]:
    """The list inputs of a POOLING or GRADIENT op by name."""
    n, zeroed, weights = (op.get_attr(name) for name in ("N", "num_zeroed", "num_weights"))
    sizes = {"rows": n, "idx": n, "row_splits": n, "zero_rows": zeroed, "weights": weights}
    if op.type == GRADIENT:
        sizes = {"grads": n, **sizes}
    inputs, found, at = tuple(op.inputs), {}, 0
    for name, size in sizes.items():
        found[name] = list(inputs[at : at + size])
        at += size
    return found


def _entries(gather: tf.Operation) -> List[Tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """(handle, ids, rows) of each of its lookups."""
    inputs, n = tuple(gather.inputs), len(gather.outputs)
    return list(zip(inputs[:n], inputs[n:], gather.outputs))


def _obstacle(view: GraphView, gather: tf.Operation, lookups: Sequence[Lookup]) -> str:
    first = lookups[0]
    for op in (gather, first.ids.op):
        if view.elsewhere(op):
            return view.elsewhere(op)
        if not view.is_plain_on_cpu(op):
            return f"op '{op.name}' runs on a GPU, in control flow or under XLA"
    if gather.type == "ResourceGather" and gather.get_attr("batch_dims") != 0:
        return "its batch_dims are not 0"
    if first.rows.dtype not in _DTYPES:
        return f"its rows are {first.rows.dtype.name}; float32 and float64 have fused ops"
    if any(lookup.ids.op.device != first.ids.op.device for lookup in lookups):
        return "its ids come from several devices"
    for lookup in lookups:
        if lookup.ids.shape.rank != 1 or lookup.rows.shape.rank != 2 or not lookup.rows.shape.as_list()[1]:
            return f"its rows have shape {lookup.rows.shape}, not [ids, dim] with a known dim"
    return ""


def _lookup(gather: tf.Operation, ids: tf.Tensor, rows: tf.Tensor, live: Set[tf.Operation], lists: Dict) -> Lookup:
    lookup = Lookup(gather, ids, rows)
    copies = {copy.ref() for copy in copies_of(rows)}
    using = [op for op in readers(rows) if op in live]
    if not any(op.type == POOLING for op in using):
        return lookup
    for op in using:
        if op.type in (POOLING, GRADIENT) and op not in lists:
            lists[op] = lists_of(op)
    places = [place for op in using if op in lists for place in _places(op, copies, lists[op])]
    poolings = [place for place in places if place.op.type == POOLING]
    gradients = [place for place in places if place.op.type == GRADIENT]
    lookup.why_not = _why_not(lookup, using, poolings, gradients, live)
    if not lookup.why_not:
        lookup.pooling = poolings[0]
        for place in gradients:
            (lookup.gradients if _live_readers(place, live) else lookup.unread).append(place)
    return lookup


def _places(op: tf.Operation, copies: Set, lists: Dict[str, List[tf.Tensor]]) -> List[Place]:
    return [Place(op, number, lists) for number, tensor in enumerate(lists["rows"]) if tensor.ref() in copies]


def _why_not(
    lookup: Lookup,
    using: Sequence[tf.Operation],
    poolings: Sequence[Place],
    gradients: Sequence[Place],
    live: Set[tf.Operation],
) -> str:
    other = next((op for op in using if op.type not in (POOLING, GRADIENT)), None)
    if other is not None:
        return f"its rows are needed here, by op '{other.name}'"
    if len(poolings) != 1:
        return "its rows are summed up in several ways"
    segments, home = poolings[0].segments(), lookup.ids.op.device
    for place in (*poolings, *gradients):
        idx = place.input("idx")
        if idx.op is not lookup.ids.op or place.segments() != segments or place.op.device != home:
            return f"op '{place.op.name}' sums up by other ids than those that are looked up, or elsewhere"
        if GraphView.control_outputs(place.op) or (place.op.type == GRADIENT and place.op.get_attr("grad_columns")):
            return f"op '{place.op.name}' is waited for, or reads a part of a gradient"
    there = task_of(lookup.gather)
    for place in gradients:
        for op in _live_readers(place, live):
            if task_of(op) != there and not moves_along(op, there, live):
                return f"the gradient of its rows is needed here, by op '{op.name}'"
    return ""


def _live_readers(place: Place, live: Set[tf.Operation]) -> List[tf.Operation]:
    return [op for op in readers(place.op.outputs[place.number]) if op in live]
