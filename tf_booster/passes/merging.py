"""Which ops may become one op: the rule that all passes share. docs/design/graph_rewriting.md has the proof.

One op in the place of several waits for all that any of them waited for. Two things could go wrong, and are ruled out here:

* A cycle. Each unit counts as one node; its rank is one more than the largest rank before it. Units of one rank cannot be
  before each other, and any path between two groups goes up in rank, so no path comes back.
* A fetch that needs more than it did: a feed, the next element of an iterator, a random number, a write. Units merge only
  if the same such sources are before each of them; or, where all that is ever fetched is known, as of an Estimator that predicts, if
  the same fetches need each of them. An export whose features are fed one by one has other sources before each lookup.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, Hashable, List, Mapping, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import conditions
from tf_booster.passes.components import components
from tf_booster.passes.graph_index import GraphIndex
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.named_features import all_fetches
from tf_booster.passes.sources import Sources


@dataclasses.dataclass(frozen=True)
class Unit:
    """What one replacement swallows.

    ops: one op, or a whole matched chain. What other ops compute from its first ops must not lead into its last ones.
    key: units may merge only if their keys are equal: op type, dtype, device, hyperparameters, for writes also who waits.
    payload: the pass's own match.
    together: whether every run that needs one of the units with this key needs all of them; then it does not matter which
      sources are before each.
    """

    ops: Tuple[tf.Operation, ...]
    key: Hashable
    payload: Any = None
    together: bool = False


Refusal = Tuple[Unit, str]


def merge_groups(view: GraphView, units: Sequence[Unit]) -> Tuple[List[List[Unit]], List[Refusal]]:
    """Groups that may each become one op, and the units that may not, with the reason.

    Every unit is in one group, which may hold it alone, or among the refused. Groups come in the order of their first units,
    units within a group in the given order. Takes time linear in the graph.
    """
    if not units:
        return [], []
    index = view.index()
    kept, refused = _separate(view, units)
    first = len(index.ops)
    before = _contract(index, kept)
    order = components(before, range(first, len(before)))
    on_cycles = {node for component in order if len(component) > 1 for node in component}
    good = []
    for node, unit in enumerate(kept, first):
        if node in on_cycles:
            refused.append((unit, _LEADS_BACK if len(unit.ops) > 1 else _IN_CONTROL_FLOW.format(unit.ops[0].name)))
        else:
            good.append(unit)
    if len(good) < len(kept):
        before = _contract(index, good)
        order = components(before, range(first, len(before)))
    nodes = _judge(view, before, order, good)
    groups: Dict[Hashable, List[Unit]] = {}
    for node, unit in enumerate(good, first):
        if not nodes.may_merge[node - first]:
            refused.append((unit, _IN_CONTROL_FLOW.format(unit.ops[0].name)))
        else:
            sources = None if unit.together else nodes.sources[node]
            groups.setdefault(((unit.key, conditions.of(unit.ops)), nodes.rank[node], sources), []).append(unit)
    place = {id(unit): i for i, unit in enumerate(units)}
    joined = _joined(groups, _needed_by(view, good)).values()
    return [sorted(group, key=lambda unit: place[id(unit)]) for group in joined], sorted(
        refused, key=lambda entry: place[id(entry[0])]
    )


def _joined(groups: Dict[Any, List[Unit]], needed: Mapping[int, FrozenSet[str]]) -> Dict[Any, List[Unit]]:
    """Makes one group of those that differ in their sources alone, if the same fetches need all of their units."""
    found: Dict[Any, List[Unit]] = {}
    for (key, rank, sources), units in groups.items():
        runs = {needed.get(id(unit)) for unit in units}
        by = runs.pop() if len(runs) == 1 else None
        found.setdefault((key, rank, ("before", sources) if by is None else by), []).extend(units)
    return found


def _needed_by(view: GraphView, units: Sequence[Unit]) -> Dict[int, FrozenSet[str]]:
    """By the id of a unit, which fetches need it; none where that is not known, or fetches need some of its ops and others not."""
    fetched = all_fetches(view)
    if not fetched:
        return {}
    index = view.index()
    upstream = {name: index.upstream([view.graph.get_operation_by_name(name)]) for name in sorted(fetched)}
    found: Dict[int, FrozenSet[str]] = {}
    for unit in units:
        by_op = {
            frozenset(name for name, numbers in upstream.items() if index.number[op] in numbers) for op in unit.ops
        }
        if len(by_op) == 1 and by_op != {frozenset()}:
            found[id(unit)] = by_op.pop()
    return found


_IN_CONTROL_FLOW = "op '{}' is inside a tf.cond or a tf.while_loop"
_LEADS_BACK = "what it is made of cannot run as one op: what another op reads from it leads back into it"


def _separate(view: GraphView, units: Sequence[Unit]) -> Tuple[List[Unit], List[Refusal]]:
    """Those that nothing near by speaks against, and the others."""
    index = view.index()
    initial = view.upstream_of_initializers()
    kept: List[Unit] = []
    refused: List[Refusal] = []
    taken: Set[tf.Operation] = set()
    for unit in units:
        inside = next((op for op in unit.ops if _compat.in_control_flow(op)), None)
        initializing = next((op for op in unit.ops if index.number[op] in initial), None)
        shared = next((op for op in unit.ops if op in taken), None)
        superseded = next((op for op in unit.ops if view.is_superseded(op)), None)
        if superseded is not None:
            refused.append((unit, f"op '{superseded.name}' runs only for those who fetch it by name"))
        elif inside is not None:
            refused.append((unit, _IN_CONTROL_FLOW.format(inside.name)))
        elif initializing is not None:
            refused.append((unit, f"op '{initializing.name}' runs when Variables are initialized"))
        elif shared is not None:
            refused.append((unit, f"op '{shared.name}' belongs to another match"))
        else:
            taken.update(unit.ops)
            kept.append(unit)
    return kept, refused


def _contract(index: GraphIndex, units: Sequence[Unit]) -> List[Sequence[int]]:
    """What is before each node when each unit is one node, numbered after the ops; its ops keep numbers without edges."""
    before: List[Sequence[int]] = list(index.before)
    _join_loops(index, before)
    node_of: Dict[int, int] = {}
    for node, unit in enumerate(units, len(index.ops)):
        node_of.update((index.number[op], node) for op in unit.ops)
    inside = node_of.keys()
    for number, others in enumerate(before):
        if not inside.isdisjoint(others):
            before[number] = [node_of.get(other, other) for other in others]
    for node, unit in enumerate(units, len(index.ops)):
        inner = [index.number[op] for op in unit.ops]
        others = dict.fromkeys(other for number in inner for other in before[number])
        others.pop(node, None)
        before.append(list(others))
        for number in inner:
            before[number] = ()
    return before


def _join_loops(index: GraphIndex, before: List[Sequence[int]]) -> None:
    """Adds edges to `before` that make one cycle of all variables of a v1 while loop, which need not read each other."""
    frame_of: Dict[tf.Operation, bytes] = {}
    first_merge: Dict[bytes, int] = {}
    for op in index.of_types(["Merge", "RefMerge"]):
        for tensor in op.inputs:
            if tensor.op.type in ("Enter", "RefEnter"):
                frame = frame_of[op] = tensor.op.get_attr("frame_name")
                number = index.number[op]
                before[number] = [*before[number], first_merge.setdefault(frame, number)]
    if not frame_of:
        return
    for op in index.of_types(["Switch", "RefSwitch"]):
        frame = frame_of.get(op.inputs[0].op)
        if frame is not None:
            before[first_merge[frame]] = [*before[first_merge[frame]], index.number[op]]


@dataclasses.dataclass
class _Nodes:
    """For each node: its rank, a bit for each source before it. may_merge: of each unit, whether it is in no branch and no loop, or in one
    branch that `conditions` knows."""

    rank: List[int]
    sources: List[int]
    may_merge: List[bool]


def _judge(view: GraphView, before: List[Sequence[int]], order: List[List[int]], units: Sequence[Unit]) -> _Nodes:
    """Goes through the nodes in an order in which all that is before a node has its turn first.

    The ops of a v1 while loop are one component and share everything, so that what leaves it counts as after all of it.
    """
    index = view.index()
    deeper = {index.number[op]: by for op_type, by in _DEEPER.items() for op in index.of_types([op_type])}
    is_source = _sources(view)
    size, first = len(before), len(index.ops)
    found = _Nodes([0] * size, [0] * size, [False] * len(units))
    ranks, sources, depths = found.rank, found.sources, [0] * size
    next_bit = 1
    for component in order:
        rank = bits = depth = 0
        for node in component:
            for other in before[node]:
                if ranks[other] > rank:
                    rank = ranks[other]
                if depths[other] > depth:
                    depth = depths[other]
                bits |= sources[other]
        if len(component) > 1:
            depth += _LOOP
        elif component[0] in deeper:
            depth += deeper[component[0]]
        for node in component:
            if node in is_source:
                bits |= next_bit
                next_bit <<= 1
        for node in component:
            if node >= first:
                found.may_merge[node - first] = depth == 0 or (
                    depth == 1 and len(conditions.of(units[node - first].ops)) == 1
                )
            ranks[node] = rank + 1 if node >= first and found.may_merge[node - first] else rank
            sources[node], depths[node] = bits, depth
    return found


def _sources(view: GraphView) -> Set[int]:
    """Numbers of the ops that are sources."""
    index, sources = view.index(), Sources(view.graph)
    found: Set[int] = set()
    for op_type in index.types():
        told = sources.told_by_type(op_type)
        if told is not False:
            found.update(index.number[op] for op in index.of_types([op_type]) if told or sources.is_source(op))
    return found


# Between a Switch and its Merge, an Enter and its Exit, ops may run never or often. Nothing within a loop goes as deep as _LOOP.
_LOOP = 10**6
_DEEPER = {"Switch": 1, "RefSwitch": 1, "_SwitchN": 1, "Merge": -1, "RefMerge": -1, "Enter": 1, "RefEnter": 1,
           "Exit": -_LOOP - 1, "RefExit": -_LOOP - 1}  # fmt: skip
