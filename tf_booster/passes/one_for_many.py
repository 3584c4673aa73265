"""Passes that make one op of many of one type: an output of the new op for each of theirs."""

from __future__ import annotations

import abc
from typing import Any, Hashable, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Unit, merge_groups


class OneForMany(Pass):
    """Derived classes say which ops, and what stands for them."""

    op_type: str  # TensorFlow's.
    fused_type: str
    does: str  # For the report: what is done, with {} for how many features.

    @abc.abstractmethod
    def key_of(self, view: GraphView, op: tf.Operation) -> Optional[Hashable]:
        """Ops of one key may become one; None: this one stays."""

    def whole(self, op: tf.Operation) -> Tuple[tf.Operation, ...]:
        """The op, and those behind it that the new one stands for as well; it is the first output of the last that is replaced."""
        return (op,)

    @abc.abstractmethod
    def make(self, wholes: Sequence[Tuple[tf.Operation, ...]]) -> Sequence[tf.Tensor]:
        """The outputs of one op that does what all these do; what whole() gave for each."""

    def requires(self, view: GraphView) -> bool:
        """Whether there is such an op."""
        return any(op.outputs[0].consumers() for op in view.ops(self.op_type))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what nothing that runs reads, control flow, and ops without a key."""
        result = PassResult(self.name)
        live = executed_ops(view)
        keys = {op: self.key_of(view, op) for op in view.ops(self.op_type) if op in live and op.outputs[0].consumers()}
        groups, refused = merge_groups(view, [Unit(self.whole(op), key) for op, key in keys.items() if key is not None])
        result.skipped += [(unit.ops[0].name, reason) for unit, reason in refused]
        for group in groups:
            self._merge(view, group)
        if groups:
            count = sum(map(len, groups))
            features = self.does.format(f"{count} feature{'s' * (count > 1)}")
            result.changes.append(f"{features} by {len(groups)} op{'s' * (len(groups) > 1)}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, self.fused_type)

    def _merge(self, view: GraphView, units: Sequence[Unit]) -> None:
        old = [op for unit in units for op in unit.ops]
        controls: List[Any] = list(dict.fromkeys(other for op in old for other in op.control_inputs))
        with view.inserting(units[0].ops[0].device, controls):
            made = self.make([unit.ops for unit in units])
        view.replace_all([(unit.ops[-1].outputs[0], new) for unit, new in zip(units, made)])
        view.stand_in(made[0].op, old)
