"""The pass that has lookups write to where their results are joined, and their gradients read from where they would be split.

Behind sparse_lookups and columns the embeddings of an example are summed up, copied beside each other, and the gradient of the whole is copied apart again:
two turns of all threads over what is the largest tensor of many models, an eighth of a step of WDL.
"""

from __future__ import annotations

import collections
from typing import List, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.wide_tensors import JOIN, SPLIT, Columns, Places, joins_of, order_of, places, splits_read_by

_LOOKUPS, _GRADIENTS = "TfBoosterPoolLookups", "TfBoosterPoolLookupsGrad"
_MADE = "TfBoosterJoinedPoolLookups"


class JoinedLookups(Pass):
    """Leaves out the copies between lookups and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_lookups"

    def requires(self, view: GraphView) -> bool:
        """Whether there are lookups, and joins or splits."""
        return any(op.outputs[0].consumers() for op in view.ops(_LOOKUPS, _GRADIENTS)) and bool(view.ops(JOIN, SPLIT))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what a step reads in another way as well, and parts of which not all columns are known."""
        result = PassResult(self.name)
        splits, live = splits_read_by(view, _reads_gradients)
        upstream: Places = {}
        for op in splits:
            upstream.update(places(op.outputs, op.inputs[0]))
        joins = joins_of(view, live, _LOOKUPS, lambda lookups, join: _is_joined(view, lookups, join, live))
        for lookups, join in joins:
            _write_joined(view, lookups, join)
        for op in view.ops(_GRADIENTS):
            if view.index().number[op] in live:
                _read_columns(view, op, upstream)
        for ops, kind in ((joins, "joins, to which lookups write"), (splits, "splits, which are read where they lie")):
            if ops:
                result.changes.append(f"{len(ops)} {kind}")
        result.modified = bool(joins or splits)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _reads_gradients(reader: tf.Operation, split: tf.Operation) -> bool:
    """Whether `reader` reads parts of `split` as gradients of lookups alone, as whole tensors so far."""
    if reader.type != _GRADIENTS or reader.get_attr("grad_columns") or reader.device != split.device:
        return False
    parts = {part.ref() for part in split.outputs}
    return not any(skip_identity(tensor).ref() in parts for tensor in reader.inputs[reader.get_attr("N") :])


def _is_joined(view: GraphView, lookups: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
    """Whether each result of `lookups` that is a part of `join` is one once, and nothing else reads it."""
    number = view.index().number
    times = collections.Counter(part.ref() for part in join.inputs)
    for output in lookups.outputs:
        others = any(reader is not join and number[reader] in live for reader in output.consumers())
        if times[output.ref()] > 1 or (times[output.ref()] == 1 and others):
            return False
    return True


def _write_joined(view: GraphView, lookups: tf.Operation, join: tf.Operation) -> None:
    """Makes one op of both."""
    order, others = order_of(join, lookups.outputs)
    apart = [output for i, output in enumerate(lookups.outputs) if i not in set(order)]
    given = _lists_of(lookups)
    waits = [op for op in dict.fromkeys([*lookups.control_inputs, *join.control_inputs]) if op is not lookups]
    with view.inserting(join.device, waits):
        made = _native.ops().tf_booster_joined_pool_lookups(
            rows=given[0],
            idx=given[1],
            row_splits=given[2],
            zero_rows=given[3],
            weights=given[4],
            others=others,
            num_apart=len(apart),
            combiners=lookups.get_attr("combiners"),
            order=order,
            name="tf_booster/joined_lookups",
        )
    view.redirect_all([(join.outputs[0], made.joined), *zip(apart, made.apart)])
    view.redirect_control([lookups, join], made.joined.op)
    view.note_originals(made.joined.op, [lookups, join])


def _read_columns(view: GraphView, op: tf.Operation, upstream: Places) -> None:
    """Makes the gradients `op` read columns of wide tensors, those that have a place there."""
    count = op.get_attr("N")
    grads = op.inputs[:count]
    read = [upstream.get(skip_identity(tensor).ref(), Columns(tensor, 0)) for tensor in grads]
    wide = [columns.wide for columns in read]
    if all(tensor is own for tensor, own in zip(wide, grads)):
        return
    given = _lists_of(op, count)
    splits = [skip_identity(tensor).op for tensor in grads if skip_identity(tensor).ref() in upstream]
    gone = swallowed([op], [*wide, *op.inputs[count:], *(split.inputs[1] for split in splits)])
    with view.inserting(op.device, gone.control_inputs):
        made = _native.ops().tf_booster_pool_lookups_grad(
            grads=wide,
            rows=given[0],
            idx=given[1],
            row_splits=given[2],
            zero_rows=given[3],
            weights=given[4],
            combiners=op.get_attr("combiners"),
            grad_columns=[columns.first for columns in read],
            name="tf_booster/pool_lookups_grad",
        )
    view.redirect_all(list(zip(op.outputs, made)))
    view.redirect_control([op], made[0].op)
    view.note_originals(made[0].op, [op])


def _lists_of(op: tf.Operation, first: int = 0) -> List[List[tf.Tensor]]:
    """rows, idx, row_splits, zero_rows and weights of an op that has them from input `first` on."""
    inputs, lists = list(op.inputs), []
    for count in (*[op.get_attr("N")] * 3, op.get_attr("num_zeroed"), op.get_attr("num_weights")):
        lists.append(inputs[first : first + count])
        first += count
    return lists
