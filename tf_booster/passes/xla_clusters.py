"""Groups ops that may be compiled into clusters that can each run as one op."""

from __future__ import annotations

from typing import Callable, Dict, Hashable, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.components import components
from tf_booster.passes.graph_index import GraphIndex


def device_of(op: tf.Operation) -> Hashable:
    """What is on different devices cannot be one op."""
    return op.device


def clusters(
    index: GraphIndex,
    candidates: Set[tf.Operation],
    key: Callable[[tf.Operation], Hashable] = device_of,
    before: Optional[Sequence[Sequence[int]]] = None,
) -> List[List[tf.Operation]]:
    """Connected groups of candidates of one key, in the order of their first ops; linear in the graph.

    before: what is before each op, where that is less than index.before has.

    No path leaves a group and comes back to it, nor do paths lead from one group to another and back. An op's level counts how often the
    paths to it go from a candidate to another op, or to a candidate of another key; a group is of one level, and a path out of it would have
    gone up. So each group can be compiled as one, and TensorFlow, which looks for cycles itself, has no reason to split it.
    """
    before = index.before if before is None else before
    inside = [op in candidates for op in index.ops]
    keys = [key(op) if inside[node] else None for node, op in enumerate(index.ops)]
    level = [0] * len(index.ops)
    for component in components(before):
        highest = max(
            (
                level[other] + (inside[other] and not (inside[node] and keys[node] == keys[other]))
                for node in component
                for other in before[node]
            ),
            default=0,
        )
        for node in component:
            level[node] = highest
            # A loop's ops run many times; none of them is compiled.
            inside[node] = inside[node] and len(component) == 1
    return _connected(index, before, inside, [(keys[node], level[node]) for node in range(len(index.ops))])


def _connected(
    index: GraphIndex, before: Sequence[Sequence[int]], inside: List[bool], group: List[Hashable]
) -> List[List[tf.Operation]]:
    leader = list(range(len(index.ops)))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node, op in enumerate(index.ops):
        if not inside[node]:
            continue
        for tensor in op.inputs:
            other = index.number[tensor.op]
            if inside[other] and group[other] == group[node] and other in before[node]:
                a, b = sorted((find(node), find(other)))
                leader[b] = a
    groups: Dict[int, List[tf.Operation]] = {}
    for node, op in enumerate(index.ops):
        if inside[node]:
            groups.setdefault(find(node), []).append(op)
    return list(groups.values())


def private_constants(cluster: List[tf.Operation]) -> List[tf.Operation]:
    """The Consts that only ops of the cluster read: compiled in, they are no inputs."""
    members = set(cluster)
    seen: Dict[tf.Operation, bool] = {}
    for op in cluster:
        for tensor in op.inputs:
            constant = tensor.op
            if constant.type == "Const" and constant not in seen and not constant.control_inputs:
                seen[constant] = all(consumer in members for consumer in tensor.consumers())
    return [constant for constant, private in seen.items() if private]


def describe(cluster: List[tf.Operation], most: int = 4) -> Tuple[int, str]:
    """(number of ops, the most frequent types of them, for people)."""
    counts: Dict[str, int] = {}
    for op in cluster:
        counts[op.type] = counts.get(op.type, 0) + 1
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return len(cluster), ", ".join(f"{counts[kind]} {kind}" for kind in ranked[:most])
