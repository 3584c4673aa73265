"""The pass that counts where tf.compat.v1.metrics.auc, and what else has many thresholds, compares all predictions with all of them.

TensorFlow tiles labels and predictions to [thresholds, predictions], compares, and adds up ones and zeros of each kind: a dozen passes over 200 times the batch. The
counts are whole numbers, so they are the same in any order. With weights, other than ones, their sums are not, and stay.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, is_rows_of, skip_identity, uniform_value
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import swallowed

_MADE = "TfBoosterConfusionMatrix"
# (labelled true, above the threshold) -> which output of the op.
_OUTPUTS = {(True, True): 0, (True, False): 1, (False, False): 2, (False, True): 3}


@dataclasses.dataclass(frozen=True)
class _Count:
    """A sum that counts predictions above or below thresholds.

    labels, predictions: of any shape. output: of the op. beside: what the shapes of weights are made of, which are all one.
    """

    labels: tf.Tensor
    predictions: tf.Tensor
    thresholds: Tuple[float, ...]
    output: int
    beside: Tuple[tf.Tensor, ...] = ()


class ConfusionMatrices(Pass):
    """Merges what counts true and false positives and negatives at many thresholds; the same counts."""

    name = "confusion_matrices"
    seeks = "counts of predictions at many thresholds without weights (tf.compat.v1.metrics.auc)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything both labelled and compared is counted."""
        return any(op.outputs[0].consumers() for op in view.ops("LogicalAnd"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what has weights, GPUs, control flow, and what is compiled by XLA."""
        result = PassResult(self.name)
        found: Dict[tuple, List[Tuple[tf.Operation, _Count]]] = {}
        for op in view.ops("Sum"):
            count = _count_of(op) if op.outputs[0].consumers() else None
            if count is not None and view.is_plain_on_cpu(op):
                key = (count.labels.name, count.predictions.name, count.thresholds, op.device)
                found.setdefault(key, []).append((op, count))
        units = [Unit(tuple(op for op, _ in counts), key, counts) for key, counts in found.items()]
        groups, refused = merge_groups(view, units)
        result.skipped += [(unit.ops[0].name, reason) for unit, reason in refused]
        for (unit,) in groups:
            _merge(view, unit)
        if groups:
            matrices = f"{len(groups)} confusion matri{'x' if len(groups) == 1 else 'ces'}"
            result.changes.append(f"{matrices} at many thresholds counted in one pass each")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _count_of(total: tf.Operation) -> Optional[_Count]:
    if integer_value(total.inputs[1]) != 1 or total.get_attr("keep_dims"):
        return None
    counted, beside = _without_ones(skip_identity(total.inputs[0]))
    ones = counted.op
    if ones.type != "Cast" or ones.outputs[0].dtype != tf.float32 or ones.inputs[0].dtype != tf.bool:
        return None
    both = skip_identity(ones.inputs[0]).op
    if both.type != "LogicalAnd":
        return None
    (label, is_true), (compared, is_above) = map(_without_not, both.inputs)
    found = _compared(compared)
    if found is None:
        return None
    predictions, thresholds = found
    labels = _flat(_tiled(label, len(thresholds)), [1, -1])
    if labels is None or labels.dtype != tf.bool:
        return None
    return _Count(labels, predictions, thresholds, _OUTPUTS[is_true, is_above], tuple(beside))


def _without_ones(tensor: tf.Tensor) -> Tuple[tf.Tensor, List[tf.Tensor]]:
    """What `tensor` is times weights that are all one, as an Estimator's head has them, and what their shapes are made of; or itself."""
    if tensor.op.type == "Mul":
        for counted, weights in (tensor.op.inputs, reversed(tensor.op.inputs)):
            if uniform_value(weights) == 1.0:
                return skip_identity(counted), _shapes_of(weights)
    return tensor, []


def _shapes_of(uniform: tf.Tensor) -> List[tf.Tensor]:
    """What else stands before a tensor of one value but what the value follows from."""
    op = uniform.op
    if op.type in ("Fill", "OnesLike", "ZerosLike"):
        return [op.inputs[0]]
    sides = op.inputs if op.type in ("Mul", "Add", "AddV2") else op.inputs[:1]
    return [*(tensor for side in sides for tensor in _shapes_of(side)), *op.inputs[len(sides) :]]


def _without_not(tensor: tf.Tensor) -> Tuple[tf.Tensor, bool]:
    """What `tensor` is the opposite of, and False; or itself, and True."""
    tensor = skip_identity(tensor)
    return (skip_identity(tensor.op.inputs[0]), False) if tensor.op.type == "LogicalNot" else (tensor, True)


def _compared(above: tf.Tensor) -> Optional[Tuple[tf.Tensor, Tuple[float, ...]]]:
    """The predictions and thresholds of Greater(tile of predictions [thresholds, n], tile of thresholds)."""
    if above.op.type != "Greater" or above.op.inputs[0].dtype != tf.float32:
        return None
    ours, theirs = (skip_identity(tensor).op for tensor in above.op.inputs)
    column = skip_identity(theirs.inputs[0]).op if theirs.type == "Tile" else None
    if column is None or column.type != "ExpandDims" or integer_value(column.inputs[1]) != 1:
        return None
    thresholds = tf.get_static_value(column.inputs[0])
    if thresholds is None or thresholds.ndim != 1 or np.isnan(thresholds).any():
        return None
    turned = _tiled(ours.outputs[0], len(thresholds))
    if turned is None or turned.op.type != "Transpose" or static_integers(turned.op.inputs[1]) != [1, 0]:
        return None
    rows = skip_identity(turned.op.inputs[0])
    predictions = _flat(rows, [-1, 1])
    if predictions is None or not _is_one_each(theirs.inputs[1], rows):
        return None
    return predictions, tuple(map(float, thresholds))


def _is_one_each(multiples: tf.Tensor, rows: tf.Tensor) -> bool:
    """Whether thresholds are repeated for each of `rows`."""
    known = static_integers(multiples)
    if known is not None:
        return known == [1, rows.shape.as_list()[0]]
    pack = skip_identity(multiples).op
    return pack.type == "Pack" and integer_value(pack.inputs[0]) == 1 and is_rows_of(pack.inputs[1], rows)


def _tiled(tensor: tf.Tensor, times: int) -> Optional[tf.Tensor]:
    """What is repeated so often along the first of two dimensions."""
    tile = skip_identity(tensor).op
    known = tile.type == "Tile" and static_integers(tile.inputs[1]) == [times, 1]
    return skip_identity(tile.inputs[0]) if known else None


def _flat(tensor: Optional[tf.Tensor], shape: List[int]) -> Optional[tf.Tensor]:
    """What `tensor` is a reshape of, if it is one to this shape."""
    reshape = None if tensor is None else tensor.op
    known = reshape is not None and reshape.type == "Reshape" and static_integers(reshape.inputs[1]) == shape
    return reshape.inputs[0] if known else None


def _merge(view: GraphView, unit: Unit) -> None:
    first: _Count = unit.payload[0][1]
    beside = (tensor for _, count in unit.payload for tensor in count.beside)
    gone = swallowed(unit.ops, [first.labels, first.predictions, *beside])
    with view.inserting(unit.ops[0].device, gone.control_inputs):
        made = _native.ops().tf_booster_confusion_matrix(
            labels=first.labels,
            predictions=first.predictions,
            thresholds=first.thresholds,
            name="tf_booster/confusion_matrix",
        )
    view.redirect_all([(op.outputs[0], made[count.output]) for op, count in unit.payload])
    view.stand_in(made[0].op, unit.ops)
