"""The loss that an Estimator logs, summarizes, checks for NaN and returns is that of the joined batch.

What it holds is an Identity of the model's loss, put in before its hooks are made, so that the pass that sums gradients can give it another
input: a tensor that a hook holds cannot be exchanged.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

import tensorflow as tf

_COLLECTION = ("tf_booster", "told_loss")


def with_told_loss(original: Any) -> Any:
    """Wraps Estimator._train_with_estimator_spec."""

    @functools.wraps(original)
    def _train_with_estimator_spec(self: Any, estimator_spec: Any, *args: Any, **kwargs: Any) -> Any:
        told = tf.identity(estimator_spec.loss, name="tf_booster_loss")
        told.graph.add_to_collection(_COLLECTION, told)
        return original(self, estimator_spec._replace(loss=told), *args, **kwargs)

    return _train_with_estimator_spec


def told_loss(graph: tf.Graph) -> Optional[tf.Tensor]:
    """The Identity through which an Estimator reads the loss in `graph`; None where no Estimator trains."""
    entries = graph.get_collection(_COLLECTION)
    return entries[-1] if entries else None
