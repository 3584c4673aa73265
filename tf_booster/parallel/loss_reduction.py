"""Whether a loss is a mean over the rows of a batch or their sum: then ranks' gradients are averaged or summed."""

from __future__ import annotations

import functools
from typing import Any, List, NamedTuple

import tensorflow as tf

AVERAGE, SUM = "average", "sum"
AVERAGE_OF_RANKS = "average_of_ranks"  # However many rows each has: what a program's own Horovod makes.

_COLLECTION = ("tf_booster", "head_reductions")

# The values of tf.compat.v1.losses.Reduction and of tf.losses.Reduction; the others divide by a weight that differs between ranks.
_KNOWN = {"weighted_sum": SUM, "sum": SUM, "weighted_sum_over_batch_size": AVERAGE, "sum_over_batch_size": AVERAGE}


class LossReduction(NamedTuple):
    """kind: AVERAGE or SUM. said_by: where it is known from. inexact: why N ranks are not one process; "" if they are."""

    kind: str
    said_by: str
    inexact: str = ""


def note_head(original: Any) -> Any:
    """Wraps create_estimator_spec of heads: notes how the head of a graph reduces its loss."""

    @functools.wraps(original)
    def create_estimator_spec(self: Any, features: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
        if mode != tf.estimator.ModeKeys.PREDICT:
            for reduction in _reductions(self):
                tf.compat.v1.get_default_graph().add_to_collection(_COLLECTION, reduction)
        return original(self, features, mode, *args, **kwargs)

    return create_estimator_spec


def loss_reduction(graph: tf.Graph, option: str) -> LossReduction:
    """How the loss of `graph` is reduced: by its canned heads, else as the option gradient_reduction says."""
    noted = list(dict.fromkeys(graph.get_collection(_COLLECTION)))
    kinds = list(dict.fromkeys(_KNOWN.get(reduction, AVERAGE) for reduction in noted))
    if not kinds:
        return LossReduction(option, f"gradient_reduction='{option}'")
    if len(kinds) > 1:
        return LossReduction(
            option, f"gradient_reduction='{option}'", f"its heads reduce their losses by {' and by '.join(noted)}"
        )
    unknown = [reduction for reduction in noted if reduction not in _KNOWN]
    inexact = f"its head reduces the loss by {unknown[0]}, whose divisor each rank has its own of" if unknown else ""
    return LossReduction(kinds[0], f"its head reduces the loss by {noted[0]}", inexact)


def _reductions(head: Any) -> List[str]:
    inner = getattr(head, "_heads", None)
    if inner is not None:
        return [reduction for each in inner for reduction in _reductions(each)]
    reduction = getattr(head, "_loss_reduction", None)
    return [reduction] if isinstance(reduction, str) else []
