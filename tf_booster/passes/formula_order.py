"""What runs before and behind the assigns of Variables, and what may run beside them in a step."""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.fetches import UPDATE, executed_ops, fetches_are_estimators, in_order, restores
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")


def reads(op: tf.Operation) -> bool:
    """Whether `op` reads a Variable by its handle, and writes nothing."""
    return op.type in _READS or (op.type.startswith("TfBooster") and not UPDATE.fullmatch(op.type))


class Order:
    """What comes before some assigns, and which reads behind. Takes time linear in the graph."""

    def __init__(self, view: GraphView, assigns: Sequence[tf.Operation]):
        index = view.index()
        self._index = index
        self._bit = {op: 1 << i for i, op in enumerate(assigns)}
        self._leads_to: Dict[int, int] = collections.defaultdict(int)  # By number: the bits of assigns behind the op.
        for op, bit in self._bit.items():
            self._leads_to[index.number[op]] = bit
        for number in reversed(in_order([index.number[op] for op in assigns], index.before)):
            for other in index.before[number]:
                self._leads_to[other] |= self._leads_to[number]
        self._upstream: Dict[Tuple[tf.Operation, ...], Set[int]] = {}

    def is_before(self, op: tf.Operation, assign: tf.Operation) -> bool:
        """Whether `assign` needs `op`."""
        return bool(self._leads_to[self._index.number[op]] & self._bit[assign])

    def is_behind(self, op: tf.Operation, assign: tf.Operation) -> bool:
        """Whether `op` waits for `assign`, or for what does."""
        # Many reads wait for the same ops.
        after = tuple(op.control_inputs) if op.type in _READS[:1] else (op,)
        if after not in self._upstream:
            self._upstream[after] = set(self._index.upstream(after))
        return self._index.number[assign] in self._upstream[after]

    def is_at_once(self, read: tf.Operation, assign: tf.Operation) -> bool:
        """Whether `read` comes before `assign` or right behind it, not by way of other ops, which may have written as well."""
        return assign in read.control_inputs or not self.is_behind(read, assign)


class Running:
    """Tells which ops may run in a step, and which ones do."""

    def __init__(self, view: GraphView, left_over: AbstractSet[str]):
        self._view, self._left_over = view, left_over
        self._initial = view.upstream_of_initializers()
        self._executed = executed_ops(view) if fetches_are_estimators(view.graph) else None

    def may(self, op: tf.Operation) -> bool:
        """Whether `op` may run in a step."""
        if op.name in self._left_over or self._view.is_superseded(op) or restores(op):
            return False
        return self._view.index().number[op] not in self._initial

    def may_read(self, read: tf.Operation) -> bool:
        """Whether somebody may read a Variable by `read` in a step, but for a Saver."""
        if self._executed is not None:
            return read in self._executed
        users = [op for output in read.outputs for op in readers(output) if op.type != "SaveV2"]
        return bool(users) and self.may(read)
