"""The pass that makes one op of all Bucketizes (bucketized columns), which TensorFlow has for each feature by itself."""

from __future__ import annotations

from typing import List, Optional

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Unit, merge_groups

_MADE = "TfBoosterMultiBucketize"


class BucketizedColumns(Pass):
    """Merges what puts numbers into buckets; the same buckets."""

    name = "bucketized_columns"
    seeks = "numbers that are put into buckets (bucketized columns)"

    def requires(self, view: GraphView) -> bool:
        """Whether any are."""
        return any(op.outputs[0].consumers() for op in view.ops("Bucketize"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves boundaries that are not in order, integers on a GPU, control flow, and what is compiled by XLA."""
        result = PassResult(self.name)
        live = executed_ops(view)
        units = [unit for op in view.ops("Bucketize") if op in live for unit in [_unit(view, op)] if unit is not None]
        groups, refused = merge_groups(view, units)
        result.skipped += [(unit.ops[0].name, reason) for unit, reason in refused]
        for group in groups:
            _merge(view, [unit.ops[0] for unit in group])
        if groups:
            count = sum(map(len, groups))
            features = f"{count} feature{'s' * (count > 1)}"
            result.changes.append(f"buckets of {features} by {len(groups)} op{'s' * (len(groups) > 1)}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _unit(view: GraphView, op: tf.Operation) -> Optional[Unit]:
    numbers, boundaries = op.inputs[0], op.get_attr("boundaries")
    if not op.outputs[0].consumers() or not view.is_plain(op) or not view.can_stand_for(op, _MADE, T=numbers.dtype):
        return None
    # TensorFlow refuses those that fall when the step runs. Beside a NaN every search has an answer of its own.
    if np.isnan(boundaries).any() or np.any(np.diff(boundaries) < 0):
        return None
    return Unit((op,), (numbers.dtype, op.device))


def _merge(view: GraphView, ops: List[tf.Operation]) -> None:
    controls = list(dict.fromkeys(other for op in ops for other in op.control_inputs))
    with view.inserting(ops[0].device, controls):
        made = _native.ops().tf_booster_multi_bucketize(
            numbers=[op.inputs[0] for op in ops],
            boundaries=[boundary for op in ops for boundary in op.get_attr("boundaries")],
            num_boundaries=[len(op.get_attr("boundaries")) for op in ops],
            name="tf_booster/multi_bucketize",
        )
    view.redirect_all([(op.outputs[0], new) for op, new in zip(ops, made)])
    view.redirect_control(ops, made[0].op)
    view.note_originals(made[0].op, ops)
    view.supersede(ops)
