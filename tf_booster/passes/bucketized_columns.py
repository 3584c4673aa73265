"""The pass that makes one op of all Bucketizes (bucketized columns), which TensorFlow has for each feature by itself."""

from __future__ import annotations

from typing import Hashable, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.one_for_many import OneForMany


class BucketizedColumns(OneForMany):
    """Merges what puts numbers into buckets; the same buckets."""

    name = "bucketized_columns"
    seeks = "numbers that are put into buckets (bucketized columns)"
    op_type, fused_type = "Bucketize", "TfBoosterMultiBucketize"
    does = "buckets of {}"

    def key_of(self, view: GraphView, op: tf.Operation) -> Optional[Hashable]:
        """Leaves boundaries that are not in order, integers on a GPU, control flow, and what is compiled by XLA."""
        dtype, boundaries = op.inputs[0].dtype, op.get_attr("boundaries")
        if not view.is_plain(op) or not view.can_stand_for(op, self.fused_type, T=dtype):
            return None
        # TensorFlow refuses those that fall when the step runs. Beside a NaN every search has an answer of its own.
        if np.isnan(boundaries).any() or np.any(np.diff(boundaries) < 0):
            return None
        return dtype, op.device

    def make(self, wholes: Sequence[Tuple[tf.Operation, ...]]) -> Sequence[tf.Tensor]:
        """The buckets of all."""
        ops = [op for (op,) in wholes]
        return _native.ops().tf_booster_multi_bucketize(
            numbers=[op.inputs[0] for op in ops],
            boundaries=[boundary for op in ops for boundary in op.get_attr("boundaries")],
            num_boundaries=[len(op.get_attr("boundaries")) for op in ops],
            name="tf_booster/multi_bucketize",
        )
