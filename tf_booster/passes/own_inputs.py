"""What updates of trained Variables read of a rank's own input besides their gradients; changes nothing."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import collectives
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.passes.fetches import UPDATE, executed_ops, updating_calls
from tf_booster.passes.gradient_plan import USERS_REDUCTIONS
from tf_booster.passes.graph_index import reached, turned_round
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.sources import Sources, called_functions


class OwnInput(NamedTuple):
    """tensor: a number or a condition that ranks have each their own of. readers: what makes updates of it and of gradients."""

    tensor: tf.Tensor
    readers: Set[tf.Operation]
    in_control_flow: bool


class OwnInputs:
    """Follows data: from marked gradients to updates, and from what a rank reads or draws itself to what they meet on the way.

    A Variable that is not trained may be moved by a rank's own input, as averages of the loss are: then what reads it is the rank's own, too.
    """

    def __init__(self, view: GraphView):
        self._view, self._index = view, view.index()
        marks = raw_gradients(view.graph)
        self.found: List[OwnInput] = []
        if not marks:
            return
        number = self._index.number
        self._marks = {number[mark.values.op] for mark in marks}
        self._marks |= {number[m.gradient.indices.op] for m in marks if isinstance(m.gradient, tf.IndexedSlices)}
        executed = executed_ops(view)
        self._before: List[List[int]] = [[] for _ in self._index.ops]
        for op in executed:
            self._before[number[op]] = [number[tensor.op] for tensor in op.inputs]
        self._behind = reached(self._marks, turned_round(self._before))  # Of gradients.
        self._follow_variables(executed)
        self._leading = reached(self._marks, self._before)  # To gradients.
        self._stops = self._marks | {number[op] for op in executed if collectives.gives_the_same(op)}
        sources = Sources(view.graph)
        self._sources = {
            number[op] for op in executed if sources.is_source(op) and not UPDATE.fullmatch(op.type)
        } - self._stops
        self._own = reached(self._sources, turned_round(self._before), self._stops) - self._stops
        self._find(executed)

    def readers_of(self, loss: tf.Tensor) -> Set[tf.Operation]:
        """The ops that lead from `loss` to something in `found`, and to no gradient."""
        if not self.found:
            return set()
        number = self._index.number
        leading = reached((number[own.tensor.op] for own in self.found), self._before, self._stops)
        readers = {op for op in loss.consumers() if number[op] in leading and number[op] not in self._leading}
        return readers.union(*(own.readers for own in self.found if own.tensor is loss))

    def sources_of(self, tensor: tf.Tensor) -> List[tf.Operation]:
        """What of a rank's own `tensor` is made of."""
        found = reached([self._index.number[tensor.op]], self._before, self._stops)
        return [self._index.ops[i] for i in sorted(found & self._sources)]

    def _follow_variables(self, executed: Any) -> None:
        """Has what reads a Variable that no gradient moves lead back to what moves it."""
        number = self._index.number
        for op in executed:
            if UPDATE.fullmatch(op.type) and number[op] not in self._behind:
                for reader in op.inputs[0].consumers():
                    if reader in executed and not UPDATE.fullmatch(reader.type):
                        self._before[number[reader]].append(number[op])

    def _find(self, executed: Any) -> None:
        number, ops = self._index.number, self._index.ops
        calls = set(updating_calls(self._view))
        updates = [number[op] for op in executed if UPDATE.fullmatch(op.type) or op in calls]
        way = reached(self._behind.intersection(updates), self._before, self._marks) & self._behind
        by_user = self._view.functions_with(*USERS_REDUCTIONS)
        if any(
            collectives.is_users_collective(ops[i]) or not by_user.keys().isdisjoint(called_functions(ops[i]))
            for i in way
        ):
            return  # The program sums gradients itself, and looks after its ranks.
        readers: Dict[Any, Set[tf.Operation]] = {}
        for op in (ops[i] for i in sorted(way - self._marks)):
            for tensor in op.inputs:
                source = number[tensor.op]
                if source in self._own and source not in self._behind and self._counts(op, tensor, op in calls):
                    readers.setdefault(tensor.ref(), set()).add(op)
        conditions: Dict[Any, Set[tf.Operation]] = {}
        others: Dict[Any, Set[tf.Operation]] = {}
        for ref, reading in readers.items():
            tensor = ref.deref()
            # What a v1 tf.cond is given, it is given through such ops.
            while _compat.in_control_flow(tensor.op) and tensor.op.type in ("Identity", "Switch"):
                tensor, reading = tensor.op.inputs[0], {tensor.op}
            if tensor.dtype == tf.bool:  # All that asks for it: a v1 tf.cond has several such ops.
                root = skip_identity(tensor)
                conditions[root.ref()] = {op for op in root.consumers() if number[op] not in self._leading}
            elif number[tensor.op] in self._own:
                others.setdefault(tensor.ref(), set()).update(reading)
        for ref, reading in (*conditions.items(), *others.items()):
            tensor = ref.deref()
            self.found.append(OwnInput(tensor, reading, _compat.in_control_flow(tensor.op)))

    @staticmethod
    def _counts(op: tf.Operation, tensor: tf.Tensor, calls: bool) -> bool:
        """Whether `op` may update by `tensor`; of what a function is given, of which some may be for metrics, single numbers and conditions."""
        return tensor.dtype == tf.bool or (tensor.dtype.is_floating and (not calls or tensor.shape.rank == 0))
