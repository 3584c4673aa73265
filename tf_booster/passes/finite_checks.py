"""The pass that makes one op of what asks whether all gradients are finite, as dynamic loss scales do in each step: IsFinite and All of each."""

from __future__ import annotations

import collections
import dataclasses
from typing import Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import swallowed

_MADE = "TfBoosterAllFinite"


@dataclasses.dataclass(frozen=True)
class _Check:
    """all_of_all: the op that is true if all is finite. numbers: by dtype and device what is looked at; others: what else must be true."""

    all_of_all: tf.Operation
    numbers: Dict[Tuple[tf.DType, str], List[tf.Tensor]]
    others: List[tf.Tensor]


class FiniteChecks(Pass):
    """Merges the questions whether tensors are finite, where one answer is made of them; the same answer."""

    name = "finite_checks"
    seeks = "questions whether all of several tensors are finite (dynamic loss scales)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything asks that of a tensor."""
        return any(op.outputs[0].consumers() for op in view.ops("IsFinite"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves tensors of unknown rank, control flow, and what is compiled by XLA."""
        result = PassResult(self.name)
        live = executed_ops(view)
        for op in view.ops("All"):
            check = _check_of(view, op) if op in live and op.outputs[0].consumers() else None
            if check is not None:
                _merge(view, check)
                count = sum(map(len, check.numbers.values()))
                made = len(check.numbers)
                result.changes.append(
                    f"{count} tensors are asked for numbers that are not finite by {made} op{'s' * (made > 1)}"
                )
                result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _check_of(view: GraphView, op: tf.Operation) -> Optional[_Check]:
    pack = skip_identity(op.inputs[0]).op
    if pack.type != "Pack" or pack.outputs[0].shape.rank != 1 or not _is_of_all(op) or not view.is_plain(op):
        return None
    numbers: Dict[Tuple[tf.DType, str], List[tf.Tensor]] = collections.defaultdict(list)
    others = []
    for answer in pack.inputs:
        finite = _finite_of(view, skip_identity(answer).op)
        if finite is None:
            others.append(answer)
        else:
            numbers[finite.inputs[0].dtype, finite.device].append(finite.inputs[0])
    return _Check(op, numbers, others) if any(len(of) > 1 for of in numbers.values()) else None


def _finite_of(view: GraphView, op: tf.Operation) -> Optional[tf.Operation]:
    """The IsFinite of which `op` is true if all is."""
    if op.type != "All" or not _is_of_all(op):
        return None
    finite = skip_identity(op.inputs[0]).op
    if finite.type != "IsFinite" or not all(map(view.is_plain, (op, finite))):
        return None
    return finite if view.can_stand_for(finite, _MADE, T=finite.inputs[0].dtype) else None


def _is_of_all(op: tf.Operation) -> bool:
    """Whether an All goes over all dimensions."""
    rank, axes = op.inputs[0].shape.rank, static_integers(op.inputs[1])
    return rank is not None and axes is not None and sorted(axis % max(rank, 1) for axis in axes) == list(range(rank))


def _merge(view: GraphView, check: _Check) -> None:
    old = check.all_of_all
    seen = [tensor for of in check.numbers.values() for tensor in of]
    gone = swallowed([old], [*seen, *check.others])
    answers = list(check.others)
    for (_, device), tensors in check.numbers.items():
        with view.inserting(device, gone.control_inputs):
            answers.append(_native.ops().tf_booster_all_finite(numbers=tensors, name="tf_booster/all_finite"))
    made = answers[0]
    if len(answers) > 1:
        with view.inserting(old.device):
            made = tf.reduce_all(tf.stack(answers))
    view.redirect(old.outputs[0], made)
    view.stand_in(made.op, [old])
