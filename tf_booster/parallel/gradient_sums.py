"""The gradient that one process would have, of the gradients that ranks have of their parts of its batch.

Where the input says how many rows of a rank's batch count (row_weights.py), a mean is weighted by them:

    average: Σ rows·g / Σ rows        sum: Σ live·g, live = 1 if rows > 0

otherwise all ranks count alike.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.parallel import collectives
from tf_booster.parallel.loss_reduction import AVERAGE
from tf_booster.parallel.row_weights import RowWeights


class Reduction(NamedTuple):
    """How gradients are reduced: kind is AVERAGE or SUM; weights are those of this rank's batch, if its input says them."""

    kind: str
    size: int
    weights: Optional[RowWeights]

    def own_share(self, gradient: tf.Tensor) -> tf.Tensor:
        """A rank's gradient as it goes into the sum. Of a batch that does not count it is 0, even if it is no number."""
        if self.weights is None:
            return gradient * tf.constant(1.0 / self.size, gradient.dtype) if self.kind == AVERAGE else gradient
        rows = self.weights.rows
        scale = rows if self.kind == AVERAGE else tf.cast(rows > 0, tf.float32)
        return tf.math.multiply_no_nan(gradient, tf.cast(scale, gradient.dtype))

    def own_rows(self, rows: tf.Tensor) -> tf.Tensor:
        """Those of a sparse gradient's rows that a rank sends: none of a batch that does not count. With a gradient of 0 they
        would still be moved, by momentum, by decay and by regularisation in the optimizer."""
        if self.weights is None:
            return rows
        return rows[: tf.where(self.weights.rows > 0, tf.shape(rows)[0], 0)]

    def total_scale(self, dtype: tf.DType, sums: Optional[RowWeights]) -> Optional[tf.Tensor]:
        """By what the sum is multiplied; None for 1. `sums` are the weights' sums over ranks."""
        if self.weights is None or self.kind != AVERAGE:
            return None
        return tf.cast(1.0 / sums.rows, dtype)


def reduce_dense(
    gradients: Sequence[tf.Tensor], reduction: Reduction, name: str = "all_reduce"
) -> Tuple[List[tf.Tensor], Optional[RowWeights]]:
    """The gradients of all ranks together, and the sums of the row weights, by one all-reduce for each dtype.

    Args:
      gradients: floating, of shapes that are the same on all ranks; float32 at least once if there are weights.
    """
    reduced: List[tf.Tensor] = [None] * len(gradients)
    sums = None
    for place, (dtype, members) in enumerate(collectives.by_dtype(gradients).items()):
        vector, unpack = collectives.pack_vector([gradients[i] for i in members], "dense")
        vector = reduction.own_share(vector)
        called = f"{name}_{dtype.name}" if place else name
        if place == 0 and reduction.weights is not None:
            # In float32, where a number of rows is exact, even if no gradient is of it.
            if dtype != tf.float32:
                sums = sum_row_weights(reduction.weights)
                total = collectives.all_reduce_vector(vector, "dense", called)
            else:
                joined = tf.concat([vector, tf.stack(list(reduction.weights))], 0)
                joined = collectives.all_reduce_vector(joined, "dense", called)
                total, sums = joined[:-2], RowWeights(joined[-2], joined[-1])
        else:
            total = collectives.all_reduce_vector(vector, "dense", called)
        for i, part in zip(members, unpack(_scaled(total, reduction.total_scale(dtype, sums)))):
            reduced[i] = part
    return reduced, sums


def sum_row_weights(weights: RowWeights) -> RowWeights:
    """The sums over ranks by an all-reduce of their own, where no gradient takes them along."""
    total = collectives.all_reduce_vector(tf.stack(list(weights)), "other", "row_weights")
    return RowWeights(total[0], total[1])


def gather_slices(
    slices: Sequence[Tuple[tf.Tensor, tf.Tensor, bool]], reduction: Reduction, sums: Optional[RowWeights]
) -> List[Tuple[tf.Tensor, tf.Tensor]]:
    """The slices (values, indices) of all ranks together, one rank's after another, by one all-gather.

    Args:
      slices: (values, indices, distinct): values [n, …] of rows that are the same on all ranks but for n; indices [n]. Where a lookup has made
        the indices of a rank distinct, one process would have made those of all ranks so: their values are then summed.
      sums: of the row weights over ranks, if there are any.
    """
    sent: List[tf.Tensor] = []
    for values, indices, _ in slices:
        sent += [reduction.own_share(reduction.own_rows(values)), reduction.own_rows(indices)]
    received = collectives.all_gather_packed(sent, "sparse")
    gathered = []
    for i, (_, _, distinct) in enumerate(slices):
        values, indices = received[2 * i], received[2 * i + 1]
        values = _scaled(values, reduction.total_scale(values.dtype, sums))
        if distinct:
            indices, places = tf.unique(indices)
            values = tf.math.unsorted_segment_sum(values, places, tf.size(indices))
        gathered.append((values, indices))
    return gathered


def _scaled(tensor: tf.Tensor, scale: Optional[tf.Tensor]) -> tf.Tensor:
    return tensor if scale is None else tensor * scale
