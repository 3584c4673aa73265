"""The pass that makes one op of a batch normalization, and one of its gradient.

TensorFlow fuses batch normalization of images alone. Of [batch, units], as the towers of ranking models have it, it is 13 ops forward and 28 backward, about
ten of which each way go over the whole batch. The new ops go over it three times forward and twice backward. Sums over the batch come in another order
than TensorFlow's, so last bits differ.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Sequence, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.batch_norm_gradients import Gradient, Search
from tf_booster.passes.batch_norm_layers import MADE, Layer, inverse_deviations, layer_of
from tf_booster.passes.fetches import fetches_of, roots_of
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.swallowed import swallowed, waits_of


@dataclasses.dataclass
class _Plan:
    layer: Layer
    gradients: List[Gradient]


class BatchNormalization(Pass):
    """Replaces batch normalization by the moments of the batch, and its gradient."""

    name = "batch_normalization"
    seeks = "batch normalization that trains"

    def requires(self, view: GraphView) -> bool:
        """Whether there is a square root's inverse of something that a constant was added to."""
        return any(op.inputs[0].op.type in ("AddV2", "Add") for op in view.ops("Rsqrt"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves other dtypes than float32, and layers of which somebody reads more than the output, the moments and their gradients."""
        result = PassResult(self.name)
        plans = _plans(view, result)
        sums: Dict[tf.Operation, Dict[object, tf.Tensor]] = {}
        for plan in plans:
            made = _replace_forward(view, plan)
            for gradient in plan.gradients:
                dx = _replace_gradient(view, plan.layer, gradient, made)
                if gradient.total is not None:
                    parts = [part.ref() for part in gradient.parts.values()]
                    sums.setdefault(gradient.total, {}).update({**dict.fromkeys(parts), parts[0]: dx})
            count = len(plan.gradients)
            behind = {0: "", 1: ", its gradient by another"}.get(count, f", its gradients by {count} others")
            result.changes.append(
                f"'{plan.layer.y.op.name}': batch normalization of {plan.layer.kind.shape[-1]} units by one op{behind}"
            )
        for total, instead in sums.items():
            _replace_sum(view, total, instead)
        result.modified = result.other_bits = bool(plans)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *MADE)


def _needed(view: GraphView) -> Set[tf.Operation]:
    """The ops that a step runs, without those that are only waited for because tf.gradients makes gradients wait for each other."""
    work = roots_of(view, fetches_of(view).names)
    found = set(work)
    while work:
        op = work.pop()
        for before in (*(tensor.op for tensor in op.inputs), *waits_of(op)):
            if before not in found:
                found.add(before)
                work.append(before)
    return found


def _plans(view: GraphView, result: PassResult) -> List[_Plan]:
    needed = _needed(view)
    units = []
    for rsqrt in inverse_deviations(view, needed):
        layer, reason = layer_of(view, rsqrt, needed)
        gradients: List[Gradient] = []
        if layer is not None:
            gradients, reason = Search(view, layer, needed).gradients()
        if reason:
            result.skipped.append((rsqrt.name, reason))
        elif layer is not None:
            plan = _Plan(layer, gradients)
            parts = [tuple(layer.ops), *(tuple(gradient.ops) for gradient in gradients)]
            units += [Unit(ops, (rsqrt.name, i), plan) for i, ops in enumerate(parts)]
    groups, refused = merge_groups(view, units)
    left = {id(unit.payload): (unit.payload.layer.y.op.name, reason) for unit, reason in refused}
    result.skipped += left.values()
    plans = {id(unit.payload): unit.payload for group in groups for unit in group}
    return [plan for key, plan in plans.items() if key not in left]


def _replace_forward(view: GraphView, plan: _Plan) -> Sequence[tf.Tensor]:
    layer = plan.layer
    gone = swallowed([layer.y.op], layer.given)
    with view.inserting(layer.y.op.device, gone.control_inputs):
        made = _native.ops().tf_booster_batch_norm(
            x=view.current(layer.x),
            gamma=_as_list(view, layer.gamma),
            beta=_as_list(view, layer.beta),
            epsilon=layer.kind.epsilon,
            name="tf_booster/batch_norm",
        )
    inside = layer.ops.union(*(gradient.ops for gradient in plan.gradients))
    for tensors, moment in ((layer.mean, made.mean), (layer.variance, made.variance)):
        for old in tensors:
            if any(op not in inside for op in old.consumers()):
                view.redirect(old, _in_shape_of(view, old, moment), lambda op: op not in inside)
    view.redirect(layer.y, made.y)
    _stand_in(view, made.y.op, layer.ops, [layer.y.op, *(t.op for t in (*layer.mean, *layer.variance))])
    return made


def _in_shape_of(view: GraphView, old: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    """A moment of the batch as tf.nn.moments gives it, which may keep the dimensions that it is over."""
    if old.shape.rank == 1:
        return vector
    with view.inserting(old.op.device):
        return tf.reshape(vector, old.shape.as_list(), name="tf_booster/batch_norm/shape")


def _replace_gradient(view: GraphView, layer: Layer, gradient: Gradient, made: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the gradient of x."""
    ends = [tensor.op for tensor in gradient.ends]
    gone = swallowed(ends, [gradient.dy, *layer.given, *(t for op in layer.ops for t in op.outputs)])
    waits = [op for op in gone.control_inputs if op not in layer.ops and op not in gradient.ops]
    with view.inserting(ends[0].device, waits):
        found = _native.ops().tf_booster_batch_norm_grad(
            dy=view.current(gradient.dy),
            x=view.current(layer.x),
            mean=made.mean,
            variance=made.variance,
            gamma=_as_list(view, layer.gamma),
            epsilon=layer.kind.epsilon,
            name="tf_booster/batch_norm_grad",
        )
    outputs = {"gamma": found.dgamma, "beta": found.dbeta}
    for name, tensors in gradient.vectors.items():
        for old in (copy for tensor in tensors for copy in _copies(tensor, gradient)):
            view.redirect(old, outputs[name], lambda op: op not in gradient.ops)
    _stand_in(view, found.dx.op, [*gradient.ops, *gradient.unwanted], ends)
    return found.dx


def _copies(tensor: tf.Tensor, gradient: Gradient) -> List[tf.Tensor]:
    """`tensor`, and what Identities of the gradient pass it on as."""
    found = [tensor]
    for copy in found:
        found += [op.outputs[0] for op in copy.consumers() if op.type == "Identity" and op in gradient.ops]
    return found


def _replace_sum(view: GraphView, total: tf.Operation, instead: Dict[object, tf.Tensor]) -> None:
    """instead: by each part the gradient that it is part of, or None for all but one part of each."""
    terms = []
    for term in total.inputs:
        part = skip_identity(term).ref()
        if part not in instead:
            terms.append(view.current(term))
        elif instead[part] is not None:
            terms.append(instead[part])
    new = terms[0]
    if len(terms) > 1:
        with view.inserting(total.device, waits_of(total)):
            new = tf.add_n(terms, name="tf_booster/batch_norm_grad/sum")
    view.redirect(total.outputs[0], new)
    view.stand_in(new.op, [total])


def _as_list(view: GraphView, tensor: tf.Tensor) -> List[tf.Tensor]:
    return [] if tensor is None else [view.current(tensor)]


def _stand_in(view: GraphView, new: tf.Operation, ops: Sequence[tf.Operation], ends: Sequence[tf.Operation]) -> None:
    """What waits on any of `ops` waits on `new`, or they would run beside it."""
    view.redirect_control(list(ops), new)
    ends = list(dict.fromkeys(ends))
    view.note_originals(new, ends)
    view.supersede(ends)
