"""The pass that has lookups write to where their results are joined, and their gradients read from where they would be split.

Behind sparse_lookups and columns the embeddings of an example are summed up, copied beside each other, and the gradient of the whole is copied apart again:
two turns of all threads over what is the largest tensor of many models, an eighth of a step of WDL.
"""

from __future__ import annotations

import collections
from typing import List, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.wide_tensors import Columns, CopiesLeftOut, Places, order_of

_LOOKUPS, _GRADIENTS = "TfBoosterPoolLookups", "TfBoosterPoolLookupsGrad"


class JoinedLookups(CopiesLeftOut):
    """Leaves out the copies between lookups and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_lookups"
    seeks = "merged lookups that are joined or split"
    who, makers, readers, made = "lookups", _LOOKUPS, _GRADIENTS, "TfBoosterJoinedPoolLookups"

    def reads_parts(self, reader: tf.Operation, split: tf.Operation) -> bool:
        """Whether `reader` reads parts of `split` as gradients of lookups alone, as whole tensors so far."""
        if reader.type != _GRADIENTS or reader.get_attr("grad_columns") or reader.device != split.device:
            return False
        parts = {part.ref() for part in split.outputs}
        return not any(skip_identity(tensor).ref() in parts for tensor in reader.inputs[reader.get_attr("N") :])

    def may_join(self, view: GraphView, maker: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
        """Whether each result of `maker` that is a part of `join` is one once, and nothing else reads it."""
        if not view.can_stand_for(maker, self.made, T=maker.outputs[0].dtype):
            return False
        number = view.index().number
        times = collections.Counter(part.ref() for part in join.inputs)
        for output in maker.outputs:
            others = any(reader is not join and number[reader] in live for reader in output.consumers())
            if times[output.ref()] > 1 or (times[output.ref()] == 1 and others):
                return False
        return True

    def write_joined(self, view: GraphView, maker: tf.Operation, join: tf.Operation) -> Places:
        """Makes one op of both; nobody reads the results that are joined."""
        order, others = order_of(join.inputs, maker.outputs)
        beside = set(order)
        apart = [output for i, output in enumerate(maker.outputs) if i not in beside]
        given = lists_of(maker)
        waits = [op for op in dict.fromkeys([*maker.control_inputs, *join.control_inputs]) if op is not maker]
        with view.inserting(join.device, waits):
            made = _native.ops().tf_booster_joined_pool_lookups(
                rows=given[0],
                idx=given[1],
                row_splits=given[2],
                zero_rows=given[3],
                weights=given[4],
                others=others,
                num_apart=len(apart),
                combiners=maker.get_attr("combiners"),
                order=order,
                name="tf_booster/joined_lookups",
            )
        view.redirect_all([(join.outputs[0], made.joined), *zip(apart, made.apart)])
        view.redirect_control([maker, join], made.joined.op)
        view.note_originals(made.joined.op, [maker, join])
        return {}

    def read_columns(self, view: GraphView, op: tf.Operation, upstream: Places, joined: Places) -> None:
        """Makes the gradients `op` read columns of wide tensors, those that have a place there."""
        count = op.get_attr("N")
        grads = op.inputs[:count]
        read = [upstream.get(skip_identity(tensor).ref(), Columns(tensor, 0)) for tensor in grads]
        wide = [columns.wide for columns in read]
        if all(tensor is own for tensor, own in zip(wide, grads)):
            return
        given = lists_of(op, count)
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


def lists_of(op: tf.Operation, first: int = 0) -> List[List[tf.Tensor]]:
    """rows, idx, row_splits, zero_rows and weights of an op that has them from input `first` on."""
    inputs, lists = list(op.inputs), []
    for count in (*[op.get_attr("N")] * 3, op.get_attr("num_zeroed"), op.get_attr("num_weights")):
        lists.append(inputs[first : first + count])
        first += count
    return lists
