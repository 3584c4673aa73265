"""Numbers a graph's ops once, with what each waits for, and keeps up with edits; so passes need no walk per op."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, Sequence, Set, Tuple

import tensorflow as tf


class GraphIndex:
    """Ops by number (the order in which they were made), by type, and the numbers of what each reads or waits on.

    Building takes a few microseconds an op, the same walk over TensorFlow's own objects ten times as much.

    Attributes:
      ops: all ops; an op's number is its place here.
      number: op -> number.
      before: for each op the distinct numbers of the ops that it reads from or waits on.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._version = -1
        self._dirty: Set[tf.Operation] = set()
        self._by_type: Dict[str, List[tf.Operation]] = {}
        self.ops: List[tf.Operation] = []
        self.number: Dict[tf.Operation, int] = {}
        self.before: List[Tuple[int, ...]] = []

    def edited(self, op: tf.Operation) -> None:
        """Notes that an input or a control input of `op` has changed."""
        self._dirty.add(op)

    def refresh(self) -> GraphIndex:
        """Takes in the ops that were made, and the edits that were noted, since the last time."""
        if self._graph.version != self._version:
            self._version = self._graph.version
            new = self._graph.get_operations()[len(self.ops) :]
            for op in new:
                self.number[op] = len(self.ops)
                self.ops.append(op)
                self._by_type.setdefault(op.type, []).append(op)
            # A second round, because a while loop's Merge reads an op that is made after it.
            self.before.extend(self._read(op) for op in new)
        while self._dirty:
            op = self._dirty.pop()
            self.before[self.number[op]] = self._read(op)
        return self

    def of_types(self, types: Sequence[str]) -> List[tf.Operation]:
        """All ops of the given types, in the order in which they were made."""
        found = [self._by_type.get(op_type, ()) for op_type in dict.fromkeys(types)]
        if len(found) == 1:
            return list(found[0])
        return sorted((op for ops in found for op in ops), key=self.number.__getitem__)

    def types(self) -> Iterable[str]:
        """The op types that occur."""
        return self._by_type.keys()

    def after(self) -> List[List[int]]:
        """For each op the numbers of the ops that read from it or wait on it; made anew at each call."""
        return turned_round(self.before)

    def upstream(self, ops: Iterable[tf.Operation]) -> Set[int]:
        """The numbers of `ops` and of all that runs before them."""
        return reached((self.number[op] for op in ops), self.before)

    def _read(self, op: tf.Operation) -> Tuple[int, ...]:
        number = self.number
        before = [number[tensor.op] for tensor in op.inputs]
        before += [number[other] for other in op.control_inputs]
        return tuple(dict.fromkeys(before)) if len(before) > 1 else tuple(before)


def turned_round(before: Sequence[Sequence[int]]) -> List[List[int]]:
    """For each number those that have it among theirs."""
    after: List[List[int]] = [[] for _ in before]
    for number, others in enumerate(before):
        for other in others:
            after[other].append(number)
    return after


def reached(starts: Iterable[int], edges: Sequence[Sequence[int]], stop: AbstractSet[int] = frozenset()) -> Set[int]:
    """`starts` and all numbers that lead on from them; edges: for each number those that follow. Nothing leads on from those of `stop`."""
    seen: Set[int] = set()
    stack = list(starts)
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            if number not in stop:
                stack.extend(edges[number])
    return seen
