"""What a graph's step is made of, in numbers small enough to keep: ops by type, by part and by name scope, and their edges."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Dict, List, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.fetches import Fetches, executed
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.roles import roles

# A page stays quick and under a megabyte; deeper scopes are summed up.
_MOST_SCOPES = 1500


@dataclasses.dataclass(frozen=True)
class GraphSummary:
    """The ops that run in one step.

    num_ops, types: how many, and how many of each type.
    crossings: edges whose tensor travels between host and device; see crossings_note where that is not known better.
    scopes: [role, name scope, ops, depth, {type: ops}] for each group of ops.
    edges: [from, to, edges] between places in `scopes`.
    """

    num_ops: int
    types: Dict[str, int]
    crossings: int
    crossings_note: str
    scopes: List[List[Any]]
    edges: List[List[int]]


def summarize(view: GraphView, fetches: Fetches) -> GraphSummary:
    """Goes through the graph once; takes a few microseconds an op."""
    index = view.index()
    order = executed(view, fetches.names)
    forward = set(executed(view, fetches.forward)) if fetches.forward else set()
    ops = [index.ops[number] for number in order]
    depth: Dict[int, int] = {}
    for number in order:
        depth[number] = 1 + max((depth.get(other, 0) for other in index.before[number]), default=0)
    parts = roles(index, order, forward)
    paths = _scopes(parts, [op.name for op in ops])
    place: Dict[Tuple[str, str], int] = {}
    scope_of: Dict[int, int] = {}
    scopes: List[List[Any]] = []
    for number, op, key in zip(order, ops, zip(parts, paths)):
        if key not in place:
            place[key] = len(scopes)
            scopes.append([*key, 0, 0, collections.Counter()])
        scope = scopes[place[key]]
        scope[2] += 1
        scope[3] += depth[number]
        scope[4][op.type] += 1
        scope_of[number] = place[key]
    for scope in scopes:
        scope[3] = round(scope[3] / scope[2], 1)
        scope[4] = dict(scope[4].most_common(6))
    edges: Dict[Tuple[int, int], int] = collections.Counter()
    for number in order:
        for other in index.before[number]:
            if scope_of[other] != scope_of[number]:
                edges[scope_of[other], scope_of[number]] += 1
    crossings, note = _crossings(ops)
    return GraphSummary(
        num_ops=len(ops),
        types=dict(collections.Counter(op.type for op in ops).most_common()),
        crossings=crossings,
        crossings_note=note,
        scopes=scopes,
        edges=[[*edge, count] for edge, count in edges.items()],
    )


def _scopes(parts: Sequence[str], names: Sequence[str]) -> List[str]:
    """Names cut at the greatest depth that leaves no more than _MOST_SCOPES different ones."""
    levels: Dict[int, Set[Tuple[str, str]]] = collections.defaultdict(set)
    for part, name in zip(parts, names):
        levels[name.count("/")].add((part, name))
    deepest = max(levels, default=0)
    while deepest > 0 and sum(map(len, levels.values())) > _MOST_SCOPES:
        levels[deepest - 1].update((part, name.rpartition("/")[0]) for part, name in levels.pop(deepest))
        deepest -= 1
    if sum(map(len, levels.values())) > _MOST_SCOPES:
        return [name.split("/", 1)[0].rstrip("0123456789_") for name in names]
    return ["/".join(name.split("/", deepest + 1)[: deepest + 1]) for name in names]


def _crossings(ops: Sequence[tf.Operation]) -> Tuple[int, str]:
    if not tf.config.get_visible_devices("GPU"):
        return 0, "no GPU is visible to TensorFlow, so everything runs on the CPU"
    kinds = {op: _compat.device_kind(op) for op in ops}
    count = 0
    for op in ops:
        for place, tensor in enumerate(op.inputs):
            source = tensor.op
            if tensor.dtype != tf.resource and source in kinds:
                made_in = "GPU" if _compat.is_in_gpu_memory(tensor) else "CPU"
                read_in = kinds[op] if not _compat.input_in_host_memory(op, place) else "CPU"
                count += made_in != read_in
    return count, "as far as op devices and registered kernels tell before TensorFlow places the ops"
