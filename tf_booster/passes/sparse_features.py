"""The pass that makes one op of what makes dense features sparse: NotEqual, Where and GatherNd of each.

Feature columns take a dense feature of ids as a sparse one whose -1 or '' are not there. Pass sparse_lookups takes these ops along where a Variable
is looked up; in front of hash tables, vocabularies and crosses they stay, three for each feature.
"""

from __future__ import annotations

from typing import List, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.sparse_source import stands_for_none
from tf_booster.passes.swallowed import swallowed

_MADE = "TfBoosterSparseFromDense"
_DTYPES = (tf.int32, tf.int64, tf.string)


class SparseFeatures(Pass):
    """Merges the ops that pick what is there of dense features."""

    name = "sparse_features"
    seeks = "dense features that are made sparse one by one"

    def requires(self, view: GraphView) -> bool:
        """Whether at least two are."""
        return len([op for op in view.ops("GatherNd") if op.outputs[0].consumers()]) > 1

    def run(self, view: GraphView) -> PassResult:
        """Leaves those on a GPU, inside of control flow or compiled by XLA, and those that have nobody to merge with."""
        result = PassResult(self.name)
        live = executed_ops(view)  # Without what sparse_lookups has left over.
        found = (_unit(view, op) for op in view.ops("GatherNd") if op in live)
        units = [unit for unit in found if unit is not None]
        groups, refused = merge_groups(view, units)
        result.skipped += [(unit.ops[-1].name, reason) for unit, reason in refused]
        merged = [group for group in groups if len(group) > 1]
        for group in merged:
            _merge(view, group)
        if merged:
            count = sum(len(group) for group in merged)
            result.changes.append(f"{count} dense features made sparse by {len(merged)} op{'s' * (len(merged) > 1)}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _unit(view: GraphView, gather: tf.Operation) -> Optional[Unit]:
    """The three ops, of which `gather` is the last; None for any other GatherNd."""
    where = gather.inputs[1].op
    if where.type != "Where" or not gather.outputs[0].consumers():
        return None
    differs, dense = where.inputs[0].op, gather.inputs[0]
    if differs.type != "NotEqual" or dense.dtype not in _DTYPES or dense is not differs.inputs[0]:
        return None
    ops = (differs, where, gather)
    if (
        not stands_for_none(dense, differs.inputs[1])
        or dense.shape.rank == 0
        or not all(map(view.is_plain_on_cpu, ops))
    ):
        return None
    return Unit(ops, (dense.dtype, gather.device))


def _merge(view: GraphView, group: List[Unit]) -> None:
    dense = [unit.ops[-1].inputs[0] for unit in group]
    gone = swallowed([unit.ops[-1] for unit in group], [*dense, *(unit.ops[0].inputs[1] for unit in group)])
    with view.inserting(group[0].ops[-1].device, gone.control_inputs):
        indices, values = _native.ops().tf_booster_sparse_from_dense(dense=dense, name="tf_booster/sparse_features")
    moves = []
    for unit, places, picked in zip(group, indices, values):
        _, where, gather = unit.ops
        moves += [(where.outputs[0], places), (gather.outputs[0], picked)]
    view.redirect_all(moves)
    old = [op for unit in group for op in unit.ops]
    view.stand_in(values[0].op, old)
