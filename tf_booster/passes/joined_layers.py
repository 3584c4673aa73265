"""The pass that has small layers write to where they are joined, and their gradients read from where they would be split.

Behind small_matmuls and columns, the results of many layers are copied beside each other, and the gradient of the whole is copied apart again: a
fourteenth of a step's processor time each, and two turns of all threads. A layer can write its columns of the joined tensor, and the gradient of a bias can read
columns where they lie.
"""

from __future__ import annotations

import collections
from typing import Sequence, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.wide_tensors import Columns, CopiesLeftOut, Places, order_of, places, widths

_LAYERS, _BIASES = "TfBoosterMultiMatMul", "TfBoosterMultiBiasGrad"


class JoinedLayers(CopiesLeftOut):
    """Leaves out the copies between small layers and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_layers"
    seeks = "merged layers that are joined or split"
    who, makers, readers, made = "layers", _LAYERS, _BIASES, "TfBoosterJoinedMultiMatMul"

    def reads_parts(self, reader: tf.Operation, split: tf.Operation) -> bool:
        """Whether `reader` reads them as upstream gradients of biases alone."""
        return reader.type == _BIASES and _reads_only(reader, 0, split.outputs)

    def may_join(self, view: GraphView, maker: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
        """Whether each result of `maker` is a part of `join` once, and nothing else reads it but gradients, which come after the join."""
        index = view.index()
        times = collections.Counter(part.ref() for part in join.inputs)
        gradients: Set[tf.Operation] = set()
        for output in maker.outputs:
            if times[output.ref()] != 1:
                return False
            for reader in output.consumers():
                if reader is join or index.number[reader] not in live:
                    continue
                if reader.type != _BIASES or not _reads_only(reader, 1, [output]):
                    return False
                gradients.add(reader)
        return all(index.number[join] in index.upstream([op]) for op in gradients)

    def write_joined(self, view: GraphView, maker: tf.Operation, join: tf.Operation) -> Places:
        """Makes one op of both; returns where the results of the layers lie in its result."""
        count, biases = maker.get_attr("N"), maker.get_attr("num_biases")
        order, others = order_of(join.inputs, maker.outputs)
        waits = [op for op in dict.fromkeys([*maker.control_inputs, *join.control_inputs]) if op is not maker]
        with view.inserting(join.device, waits):
            joined = _native.ops().tf_booster_joined_multi_mat_mul(
                a=maker.inputs[:count],
                b=maker.inputs[count : 2 * count],
                bias=maker.inputs[2 * count : 2 * count + biases],
                others=others,
                order=order,
                transpose_a=maker.get_attr("transpose_a"),
                transpose_b=maker.get_attr("transpose_b"),
                relu=maker.get_attr("relu"),
                name="tf_booster/joined_layers",
            )
        lies_at = places(join.inputs, joined)
        view.redirect_all([(join.outputs[0], joined)])
        view.redirect_control([maker, join], joined.op)
        view.note_originals(joined.op, [maker, join])
        return {output.ref(): lies_at[output.ref()] for output in maker.outputs}

    def read_columns(self, view: GraphView, op: tf.Operation, upstream: Places, joined: Places) -> None:
        """Makes the gradients of biases `op` read columns of wide tensors, those that have a place there."""
        count = op.get_attr("N")
        read = [upstream.get(skip_identity(tensor).ref(), Columns(tensor, 0)) for tensor in op.inputs[:count]]
        passed = [joined.get(tensor.ref(), Columns(tensor, 0)) for tensor in op.inputs[count:]]
        wide = [columns.wide for columns in (*read, *passed)]
        if all(tensor is own for tensor, own in zip(wide, op.inputs)):
            return
        splits = [skip_identity(tensor).op for tensor in op.inputs[:count] if skip_identity(tensor).ref() in upstream]
        gone = swallowed([op], [*wide, *op.inputs[count:], *(split.inputs[1] for split in splits)])
        with view.inserting(op.device, gone.control_inputs):
            biases, made = _native.ops().tf_booster_multi_bias_grad(
                upstream=wide[:count],
                relu=wide[count:],
                columns=widths(op.outputs[:count]),
                upstream_column=[columns.first for columns in read],
                relu_column=[columns.first for columns in passed],
                name="tf_booster/bias_gradients",
            )
        new = [*biases, *made]
        view.redirect_all(list(zip(op.outputs, new)))
        view.redirect_control([op], biases[0].op)
        view.note_originals(biases[0].op, [op])


def _reads_only(gradient: tf.Operation, which: int, tensors: Sequence[tf.Tensor]) -> bool:
    """Whether `gradient` reads all columns, and `tensors` in one of its two lists alone: 0 upstream, 1 results of Relus."""
    if gradient.get_attr("columns"):
        return False
    count = gradient.get_attr("N")
    wanted = {tensor.ref() for tensor in tensors}
    other = gradient.inputs[count:] if which == 0 else gradient.inputs[:count]
    return not any(skip_identity(tensor).ref() in wanted for tensor in other)
