"""What of a region is worth to be made anew for fewer rows, and who reads what then."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Iterable, List, Set, Tuple

import tensorflow as tf

from tf_booster.passes.repeated_region import Region
from tf_booster.passes.row_kinds import Moved


@dataclasses.dataclass
class Plan:
    """copied: the members that are made anew. kept: members that go on running for all rows, too, because somebody reads what cannot
    be expanded, or may fetch it. expanded: what is expanded -> who reads it. moved: what copied members give of other features
    -> who reads it.
    """

    copied: List[tf.Operation]
    kept: Set[tf.Operation]
    expanded: Dict[Any, List[tf.Operation]]
    moved: Dict[Any, List[tf.Operation]]

    def superseded(self, region: Region) -> List[tf.Operation]:
        """The members that nothing runs any more, but for somebody who holds their results."""
        return [op for op in region.members if op not in self.kept]


def plan(region: Region, fetched: Iterable[tf.Operation]) -> Plan:
    """`fetched`: ops whose results a program fetches by name; they go on giving them."""
    return _Planner(region, set(fetched)).plan()


class _Planner:
    """Follows from what reads a tensor to what has to be made; a list in place of recursion, because towers may be deep."""

    def __init__(self, region: Region, fetched: Set[tf.Operation]):
        self._region = region
        self._fetched = fetched
        self._copied: Set[tf.Operation] = set()
        self._kept: Set[tf.Operation] = set()
        self._expanded: Dict[Any, Dict[tf.Operation, None]] = {}
        self._moved: Dict[Any, Dict[tf.Operation, None]] = {}
        self._passed_on: Set[Any] = set()  # What copies read of other features.
        self._work: List[Tuple[Callable[[tf.Operation], None], tf.Operation]] = []

    def plan(self) -> Plan:
        region = self._region
        self._work += [(self._read_all_rows, op) for op in region.order if op not in region.members]
        self._work += [(self._keep, op) for op in region.order if op in region.members and op in self._fetched]
        while self._work or self._keep_what_nothing_moves():
            follow, op = self._work.pop()
            follow(op)
        moved = {ref: readers for ref, readers in self._moved.items() if ref.deref().op in self._copied}
        order = [op for op in region.order if op in self._copied]
        return Plan(order, self._kept, self._in_order(self._expanded), self._in_order(moved))

    def _in_order(self, readers_of: Dict[Any, Dict[tf.Operation, None]]) -> Dict[Any, List[tf.Operation]]:
        place = {op: i for i, op in enumerate(self._region.order)}
        tensors = sorted(readers_of, key=lambda ref: (place[ref.deref().op], ref.deref().value_index))
        return {ref: sorted(readers_of[ref], key=place.__getitem__) for ref in tensors}

    def _keep_what_nothing_moves(self) -> bool:
        """Members of several lookups that are not made anew go on giving their results to the rest."""
        read = {ref.deref().op: None for ref in (*self._moved, *self._passed_on)}
        self._work += [(self._keep, op) for op in read if op not in self._copied and op not in self._kept]
        return bool(self._work)

    def _keep(self, op: tf.Operation) -> None:
        if op not in self._kept:
            self._kept.add(op)
            self._read_all_rows(op)

    def _read_all_rows(self, op: tf.Operation) -> None:
        region = self._region
        for tensor in op.inputs:
            kind = region.kinds.get(tensor.ref())
            if region.is_expandable(tensor):
                self._expanded.setdefault(tensor.ref(), {})[op] = None
                self._work.append((self._copy, tensor.op))
            elif isinstance(kind, Moved):
                self._moved.setdefault(tensor.ref(), {})[op] = None
            elif tensor.op in region.members:
                self._work.append((self._keep, tensor.op))
        self._work += [(self._keep, other) for other in op.control_inputs if other in region.members]

    def _copy(self, op: tf.Operation) -> None:
        region = self._region
        if op in self._copied or op not in region.members:
            return
        self._copied.add(op)
        for place, tensor in enumerate(op.inputs):
            if isinstance(region.kinds.get(tensor.ref()), Moved):
                self._passed_on.add(tensor.ref())
            elif tensor.op in region.members:
                follow = self._keep if place in region.outside.get(op, ()) else self._copy
                self._work.append((follow, tensor.op))
        self._work += [(self._keep, other) for other in op.control_inputs if other in region.members]
