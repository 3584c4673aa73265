"""The terms of a loss that are the same on all ranks: they count once, as in one process.

A mean over ranks counts them once by itself. A sum over ranks would count them once a rank, so their gradients are taken out
of what is summed and added after.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

import tensorflow as tf

from tf_booster.parallel.raw_gradients import unmarked
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sources import Sources

_LINEAR = ("Identity", "Add", "AddV2", "AddN", "Sub", "Neg")


def regularisers(view: GraphView, loss: tf.Tensor) -> List[tf.Tensor]:
    """The terms of `loss` that no data and no random number is before, but Variables are: as l2_loss of weights.

    Terms are what is added up; a sum that is multiplied by a factor which no data is before is looked into, too.
    """
    index, sources = view.index(), Sources(view.graph)

    def before(tensor: tf.Tensor) -> List[tf.Operation]:
        return [index.ops[number] for number in index.upstream([tensor.op])]

    def is_free(tensor: tf.Tensor) -> bool:
        return not any(sources.is_source(op) for op in before(tensor))

    terms: List[tf.Tensor] = []
    seen = set()
    work = [loss]
    while work:
        tensor = work.pop()
        if tensor.ref() in seen:
            continue
        seen.add(tensor.ref())
        op = tensor.op
        if is_free(tensor):
            if any(o.type in ("VarHandleOp", "VariableV2") for o in before(tensor)):
                terms.append(tensor)
        elif op.type in _LINEAR:
            work.extend(op.inputs)
        elif op.type in ("Mul", "RealDiv") and is_free(op.inputs[1]):
            work.append(op.inputs[0])
        elif op.type == "Mul" and is_free(op.inputs[0]):
            work.append(op.inputs[1])
    return terms


def value_of(terms: Sequence[tf.Tensor], loss: tf.Tensor) -> Optional[tf.Tensor]:
    """What `terms` add to `loss`; None for nothing."""
    with unmarked():
        factors = tf.gradients([loss], list(terms)) if terms else []
    parts = [tf.reduce_sum(term * factor) for term, factor in zip(terms, factors) if factor is not None]
    return tf.add_n(parts) if parts else None


def gradients_of(
    terms: Sequence[tf.Tensor], loss: tf.Tensor, variables: Sequence[tf.Tensor]
) -> List[Optional[tf.Tensor]]:
    """What `terms` add to the gradient of `loss` by each of `variables` (handles, or references); None for nothing."""
    with unmarked():
        factors = tf.gradients([loss], list(terms))
        known = [(term, factor) for term, factor in zip(terms, factors) if factor is not None]
        if not known:
            return [None] * len(variables)
        found = tf.gradients([term for term, _ in known], list(variables), grad_ys=[factor for _, factor in known])
    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in found]
