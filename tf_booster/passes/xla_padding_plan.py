"""What is compiled for padded batches: which clusters, what is padded in front of each and who reads what behind it."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Hashable, List, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.components import components
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sources import Sources
from tf_booster.passes.xla_clusters import clusters
from tf_booster.passes.xla_ops import FREE
from tf_booster.passes.xla_rows import RowOps, row_items

# Measured on Zen 4 (docs/design/xla_padding.md): what it costs to run a cluster compiled, in ns; what a number costs more that an op of
# TensorFlow's reads and writes, in place of a loop that several ops share; what a sum costs more, whose numbers XLA adds one by one;
# what it costs to write a number once more, where it is padded.
_LAUNCH_NS = 150_000.0
_SAVED_NS = 0.25
_SUM_NS = 1.0
_PADDING_NS = 0.7
_SUMS = frozenset(["All", "Any", "Max", "Mean", "Min", "Prod", "Sum"])
# A cluster that pays only for larger batches than this is left.
MOST_ROWS = 4096
_LEAST_ROWS = 16


@dataclasses.dataclass
class Cluster:
    """ops: those that are compiled. entries: what they read by row of others. exits: what others read of them -> the ops that do.
    fewest: rows of a batch from which on it pays."""

    ops: List[tf.Operation] = dataclasses.field(default_factory=list)
    entries: List[tf.Tensor] = dataclasses.field(default_factory=list)
    exits: Dict[Any, List[tf.Operation]] = dataclasses.field(default_factory=dict)
    fewest: int = 0


@dataclasses.dataclass
class Plan:
    """clusters: each behind those that it reads. superseded: ops that nothing runs any more but who fetches them. left: ops of
    clusters that are not worth it."""

    clusters: List[Cluster]
    superseded: List[tf.Operation]
    left: int


def plan(
    view: GraphView, order: Sequence[tf.Operation], fetched: Sequence[tf.Operation], rows: RowOps, fed_together: bool
) -> Plan:
    """For the live ops `order`. fed_together: whether each run has all sources; else ops are compiled together if they need the same."""
    groups = [set(group) for group in _groups(view, rows, fed_together)]
    left = 0
    while True:
        member_of = {op: number for number, group in enumerate(groups) for op in group}
        planner = _Planner(rows, member_of, order, fetched)
        found = planner.clusters(len(groups))
        for cluster in found:
            cluster.fewest = _fewest_rows(rows, cluster)
        good = [number for number, cluster in enumerate(found) if 0 < cluster.fewest <= MOST_ROWS]
        if len(good) == len(groups):
            break
        left += sum(len(cluster.ops) for number, cluster in enumerate(found) if number not in set(good))
        groups = [groups[number] for number in good]
    superseded = [op for op in order if op not in planner.running]
    return Plan([found[number] for number in planner.in_order(len(groups))], superseded, left)


def _groups(view: GraphView, rows: RowOps, fed_together: bool) -> List[List[tf.Operation]]:
    index = view.index()
    before: List[Sequence[int]] = list(index.before)
    for op in rows.candidates:
        if rows.reads_size(op, 1):
            before[index.number[op]] = tuple({index.number[op.inputs[0].op]})
    if fed_together:
        return clusters(index, rows.candidates, before=before)
    sources = _sources(view)
    return clusters(index, rows.candidates, lambda op: (op.device, sources[index.number[op]]), before)


def _sources(view: GraphView) -> List[Hashable]:
    """For each op the sources that it needs, as bits of an integer."""
    index, known = view.index(), Sources(view.graph)
    bits: List[int] = [0] * len(index.ops)
    count = 0
    for component in components(index.before):
        needed = 0
        for node in component:
            if known.is_source(index.ops[node]):
                needed |= 1 << count
                count += 1
            for other in index.before[node]:
                needed |= bits[other]
        for node in component:
            bits[node] = needed
    return list(bits)


def _fewest_rows(rows: RowOps, cluster: Cluster) -> int:
    """From how many rows on the compiled ops take less time than TensorFlow's; 0 for never."""
    saved = -_PADDING_NS * sum(row_items(tensor) * rows.rows(tensor).times for tensor in cluster.entries)
    for op in cluster.ops:
        if op.type not in FREE:
            saved += rows.items(op) * (_SAVED_NS - _SUM_NS * (op.type in _SUMS))
    return max(_LEAST_ROWS, int(_LAUNCH_NS / saved)) if saved > 0 else 0


class _Planner:
    """Follows from what is fetched to what has to run; a list in place of recursion, because towers may be deep."""

    def __init__(
        self,
        rows: RowOps,
        member_of: Dict[tf.Operation, int],
        order: Sequence[tf.Operation],
        fetched: Sequence[tf.Operation],
    ):
        self._rows = rows
        self._member_of = member_of
        self._place = {op: place for place, op in enumerate(order)}
        self._compiled: Set[tf.Operation] = set()
        self._entries: Dict[int, Dict[Any, None]] = {}
        self._exits: Dict[int, Dict[Any, Dict[tf.Operation, None]]] = {}
        self.running: Set[tf.Operation] = set()  # As they are, on all rows.
        self._work: List[Tuple[Any, tf.Operation]] = [(self._run, op) for op in fetched]
        while self._work:
            follow, op = self._work.pop()
            follow(op)

    def clusters(self, count: int) -> List[Cluster]:
        """The clusters by number."""
        found = [Cluster() for _ in range(count)]
        for op in sorted(self._compiled, key=self._place.__getitem__):
            found[self._member_of[op]].ops.append(op)
        for number, cluster in enumerate(found):
            cluster.entries = [ref.deref() for ref in self._entries.get(number, ())]
            cluster.exits = {ref: list(readers) for ref, readers in self._exits.get(number, {}).items()}
        return found

    def in_order(self, count: int) -> List[int]:
        """Numbers of clusters, each behind those whose exits it reads."""
        reads = [
            [
                self._member_of[ref.deref().op]
                for ref in self._entries.get(number, ())
                if ref.deref().op in self._member_of
            ]
            for number in range(count)
        ]
        return [number for component in components(reads) for number in component]

    def _run(self, op: tf.Operation) -> None:
        if op in self.running:
            return
        self.running.add(op)
        for tensor in op.inputs:
            readers = self._needs(tensor)
            if readers is not None:
                readers[op] = None
        self._work += [(self._run, other) for other in op.control_inputs]

    def _needs(self, tensor: tf.Tensor) -> Any:
        """All rows of `tensor` are needed. Returns who reads it behind its cluster; None if it is of none."""
        number = self._member_of.get(tensor.op)
        self._work.append((self._run if number is None else self._compile, tensor.op))
        return None if number is None else self._exits.setdefault(number, {}).setdefault(tensor.ref(), {})

    def _compile(self, op: tf.Operation) -> None:
        if op in self._compiled:
            return
        self._compiled.add(op)
        number = self._member_of[op]
        for place, tensor in enumerate(op.inputs):
            if self._rows.reads_size(op, place):
                continue
            if self._member_of.get(tensor.op) == number:
                self._work.append((self._compile, tensor.op))
                continue
            self._needs(tensor)
            if self._rows.rows(tensor) is not None:
                self._entries.setdefault(number, {})[tensor.ref()] = None
