"""The pass that makes one op of all crosses of features (crossed columns, tf.sparse.cross_hashed).

TensorFlow has a SparseCross for each, which hashes every text anew in each cross that it is a key of, and in front of it what makes dense features
sparse.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.crossed import CrossInput, cross_inputs, is_into_buckets
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity, skip_widening
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.shape_tricks import copies_of
from tf_booster.passes.sparse_source import picked_from
from tf_booster.passes.swallowed import swallowed

_MADE = "TfBoosterCrossColumns"


@dataclasses.dataclass(frozen=True)
class _Feature:
    """A feature as TfBoosterCrossColumns takes it: sparse with indices and shape, or dense, where skip_missing, −1 or '' for none."""

    values: tf.Tensor
    indices: Optional[tf.Tensor]
    shape: Optional[tf.Tensor]
    skip_missing: bool

    @property
    def tensors(self) -> List[tf.Tensor]:
        return [tensor for tensor in (self.indices, self.values, self.shape) if tensor is not None]


class CrossedColumns(Pass):
    """Merges crosses of features into buckets; the same numbers."""

    name = "crossed_columns"
    seeks = "crosses of features (crossed columns)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is crossed."""
        return any(_is_read(op) for op in view.ops("SparseCross"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves crosses that are strings, those inside of control flow, and those on other devices than a CPU."""
        result = PassResult(self.name)
        live = executed_ops(view)
        crosses = [op for op in view.ops("SparseCross") if op in live and _is_read(op)]
        units = [_unit(op) for op in crosses if is_into_buckets(op) and view.is_plain_on_cpu(op)]
        groups, refused = merge_groups(view, units)
        result.skipped += [(unit.ops[-1].name, reason) for unit, reason in refused]
        for group in groups:
            _merge(view, group)
        if groups:
            count = sum(map(len, groups))
            crossed = f"{count} cross{'es' * (count > 1)} of features"
            result.changes.append(f"{crossed} by {len(groups)} op{'s' * (len(groups) > 1)}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _is_read(cross: tf.Operation) -> bool:
    return any(output.consumers() for output in cross.outputs)


def _unit(cross: tf.Operation) -> Unit:
    return Unit((cross,), cross.device, [_feature(key) for key in cross_inputs(cross)])


def _feature(key: CrossInput) -> _Feature:
    values = skip_widening(skip_identity(key.values))
    if key.indices is None:
        return _Feature(values, None, None, False)
    dense = picked_from(values, key.indices, key.shape)
    if dense is not None and dense.shape.rank == 2 and dense.dtype in (tf.int32, tf.int64, tf.string):
        return _Feature(dense, None, None, dense.op.type != "Bucketize")
    return _Feature(values, key.indices, key.shape, False)


def _merge(view: GraphView, group: List[Unit]) -> None:
    crosses = [unit.ops[0] for unit in group]
    keys = [feature for unit in group for feature in unit.payload]
    gone = swallowed(crosses, [tensor for feature in keys for tensor in feature.tensors])
    # Sparse ones first, each of them once: many crosses share a feature.
    distinct = sorted(dict.fromkeys(map(_named, keys)), key=lambda name: name[1] is None)
    place: Dict[tuple, int] = {name: i for i, name in enumerate(distinct)}
    of_name = {_named(feature): feature for feature in keys}
    features = [of_name[name] for name in distinct]
    sparse = [feature for feature in features if feature.indices is not None]
    with view.inserting(crosses[0].device, gone.control_inputs):
        indices, values, shapes = _native.ops().tf_booster_cross_columns(
            indices=[feature.indices for feature in sparse],
            dense_shapes=[feature.shape for feature in sparse],
            features=[feature.values for feature in features],
            skip_missing=[feature.skip_missing for feature in features],
            N=len(crosses),
            keys=[place[_named(feature)] for feature in keys],
            num_keys=[len(unit.payload) for unit in group],
            num_buckets=[cross.get_attr("num_buckets") for cross in crosses],
            hash_keys=[cross.get_attr("hash_key") for cross in crosses],
            name="tf_booster/cross_columns",
        )
    made = zip(crosses, zip(indices, values, shapes))
    view.redirect_all(
        [(copy, new) for cross, results in made for old, new in zip(cross.outputs, results) for copy in copies_of(old)]
    )
    view.stand_in(values[0].op, crosses)


def _named(feature: _Feature) -> tuple:
    """What tells features apart: tensors have no equality of their own in graphs of TensorFlow 1."""
    parts = (feature.values, feature.indices, feature.shape)
    return (*(None if part is None else part.name for part in parts), feature.skip_missing)
