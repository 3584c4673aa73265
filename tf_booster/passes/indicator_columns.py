"""The pass that makes one op of what indicator columns, and bucketized columns without an embedding, make of their ids.

TensorFlow has for each feature SparseToDense, OneHot and Sum, or OneHot and Reshape: tensors of a column for each id that might be, two or three of them. A dense
feature of ids is made sparse before that, and dense again at once, which is left out.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, skip_identity, skip_widening, uniform_value
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.shape_tricks import copies_of, waits
from tf_booster.passes.sparse_source import picked_from
from tf_booster.passes.swallowed import swallowed

_MADE = "TfBoosterMultiHot"


@dataclasses.dataclass(frozen=True)
class _Feature:
    """one_hot: the op; old: its result added up or of another shape, in whose place comes the new op's; ids: int32 or int64 [rows, ids of a row]."""

    one_hot: tf.Operation
    ids: tf.Tensor
    depth: int
    apart: bool
    old: tf.Tensor


class IndicatorColumns(Pass):
    """Merges the ops that make ones and zeros of ids; the same bits."""

    name = "indicator_columns"
    seeks = "ids that become ones among zeros (indicator and bucketized columns)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is made one-hot."""
        return any(op.outputs[0].consumers() for op in view.ops("OneHot"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves other dtypes than float32, ids of unknown rank, control flow, and what is compiled by XLA."""
        result = PassResult(self.name)
        live = executed_ops(view)
        found = (_unit(view, op) for op in view.ops("OneHot") if op in live)
        groups, refused = merge_groups(view, [unit for unit in found if unit is not None])
        result.skipped += [(unit.ops[-1].name, reason) for unit, reason in refused]
        for group in groups:
            _merge(view, group)
        if groups:
            count = sum(map(len, groups))
            plural = "s" * (len(groups) > 1)
            result.changes.append(f"{count} features' ids become ones among zeros by {len(groups)} op{plural}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _unit(view: GraphView, one_hot: tf.Operation) -> Optional[Unit]:
    ids, depth, on, off = one_hot.inputs
    columns = integer_value(depth)
    if one_hot.outputs[0].dtype != tf.float32 or ids.dtype not in (tf.int32, tf.int64) or not columns or columns < 1:
        return None
    if ids.shape.rank != 2 or one_hot.get_attr("axis") not in (-1, 2):
        return None
    if uniform_value(on) != 1.0 or uniform_value(off) != 0.0:
        return None
    feature = _summed(one_hot, ids, columns) or _beside_each_other(one_hot, ids, columns)
    if feature is None:
        return None
    if not all(view.is_plain(op, _MADE) for op in (one_hot, feature.old.op)):
        return None
    return Unit((feature.old.op,), one_hot.device, feature)


def _summed(one_hot: tf.Operation, ids: tf.Tensor, columns: int) -> Optional[_Feature]:
    """An indicator column: OneHot, of which all ids of a row are added up."""
    readers = one_hot.outputs[0].consumers()
    if len(readers) != 1 or readers[0].type != "Sum" or readers[0].get_attr("keep_dims"):
        return None
    if integer_value(readers[0].inputs[1]) not in (1, -2):
        return None
    return _Feature(one_hot, _dense_source(ids), columns, False, readers[0].outputs[0])


def _beside_each_other(one_hot: tf.Operation, ids: tf.Tensor, columns: int) -> Optional[_Feature]:
    """A bucketized column: OneHot, whose ids of a row come to lie beside each other."""
    of_row = ids.shape.as_list()[1]
    readers = [op for op in one_hot.outputs[0].consumers() if op.type != "Shape"]  # Of which the Reshape has its own.
    if not of_row or len(readers) != 1 or readers[0].type != "Reshape":
        return None
    out = readers[0].outputs[0]
    if out.shape.rank != 2 or out.shape.as_list()[1] != of_row * columns or waits(readers[0].inputs[1]):
        return None
    return _Feature(one_hot, ids, columns, True, out)


def _dense_source(ids: tf.Tensor) -> tf.Tensor:
    """The dense feature that `ids` were before its −1 were left out and put back, if they were; else `ids`."""
    op = skip_identity(ids).op
    if op.type != "SparseToDense" or op.inputs[0].dtype != tf.int64 or uniform_value(op.inputs[3]) != -1.0:
        return ids
    dense = picked_from(skip_widening(skip_identity(op.inputs[2])), op.inputs[0], op.inputs[1])
    known = dense is not None and dense.dtype in (tf.int32, tf.int64) and dense.shape.rank == 2
    return dense if known else ids


def _merge(view: GraphView, group: List[Unit]) -> None:
    features: List[_Feature] = [unit.payload for unit in group]
    ends = [feature.old.op for feature in features]
    # What a shape is made of, which waits for nothing, may be of any part of the graph.
    shapes = [feature.old.op.inputs[1] for feature in features if feature.apart]
    gone = swallowed(ends, [*(feature.ids for feature in features), *shapes])
    with view.inserting(ends[0].device, gone.control_inputs):
        ids = [tf.cast(feature.ids, tf.int64) for feature in features]
        made = _native.ops().tf_booster_multi_hot(
            ids=ids,
            depths=[feature.depth for feature in features],
            apart=[feature.apart for feature in features],
            name="tf_booster/multi_hot",
        )
    view.redirect_all([(copy, new) for feature, new in zip(features, made) for copy in copies_of(feature.old)])
    old = [op for feature in features for op in (feature.one_hot, feature.old.op)]
    view.stand_in(made[0].op, old)
