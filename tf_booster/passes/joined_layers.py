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
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.wide_tensors import (
    JOIN,
    SPLIT,
    Columns,
    Places,
    joins_of,
    order_of,
    places,
    splits_read_by,
    widths,
)

_LAYERS, _BIASES = "TfBoosterMultiMatMul", "TfBoosterMultiBiasGrad"
_MADE = "TfBoosterJoinedMultiMatMul"


class JoinedLayers(Pass):
    """Leaves out the copies between small layers and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_layers"

    def requires(self, view: GraphView) -> bool:
        """Whether there are small layers, and joins or splits."""
        return any(op.outputs[0].consumers() for op in view.ops(_LAYERS, _BIASES)) and bool(view.ops(JOIN, SPLIT))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what a step reads in another way as well, and parts of which not all columns are known."""
        result = PassResult(self.name)
        splits, live = splits_read_by(view, _reads_upstream)
        upstream: Places = {}
        for op in splits:
            upstream.update(places(op.outputs, op.inputs[0]))
        joins = joins_of(view, live, _LAYERS, lambda layers, join: _are_all_joined(view, layers, join, live))
        relus: Places = {}
        for layers, join in joins:
            relus.update(_write_joined(view, layers, join))
        for op in view.ops(_BIASES):
            if view.index().number[op] in live:
                _read_columns(view, op, upstream, relus)
        for ops, kind in ((joins, "joins, to which layers write"), (splits, "splits, which are read where they lie")):
            if ops:
                result.changes.append(f"{len(ops)} {kind}")
        result.modified = bool(joins or splits)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _reads_upstream(reader: tf.Operation, split: tf.Operation) -> bool:
    return reader.type == _BIASES and _reads_only(reader, 0, split.outputs)


def _are_all_joined(view: GraphView, layers: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
    """Whether each result of `layers` is a part of `join` once, and nothing else reads it but gradients, which come after the join."""
    index = view.index()
    times = collections.Counter(part.ref() for part in join.inputs)
    gradients: Set[tf.Operation] = set()
    for output in layers.outputs:
        if times[output.ref()] != 1:
            return False
        for reader in output.consumers():
            if reader is join or index.number[reader] not in live:
                continue
            if reader.type != _BIASES or not _reads_only(reader, 1, [output]):
                return False
            gradients.add(reader)
    return all(index.number[join] in index.upstream([op]) for op in gradients)


def _reads_only(gradient: tf.Operation, which: int, tensors: Sequence[tf.Tensor]) -> bool:
    """Whether `gradient` reads all columns, and `tensors` in one of its two lists alone: 0 upstream, 1 results of Relus."""
    if gradient.get_attr("columns"):
        return False
    count = gradient.get_attr("N")
    wanted = {tensor.ref() for tensor in tensors}
    other = gradient.inputs[count:] if which == 0 else gradient.inputs[:count]
    return not any(skip_identity(tensor).ref() in wanted for tensor in other)


def _write_joined(view: GraphView, layers: tf.Operation, join: tf.Operation) -> Places:
    """Makes one op of both; returns where the results of the layers lie in its result."""
    count, biases = layers.get_attr("N"), layers.get_attr("num_biases")
    order, others = order_of(join, layers.outputs)
    waits = [op for op in dict.fromkeys([*layers.control_inputs, *join.control_inputs]) if op is not layers]
    with view.inserting(join.device, waits):
        joined = _native.ops().tf_booster_joined_multi_mat_mul(
            a=layers.inputs[:count],
            b=layers.inputs[count : 2 * count],
            bias=layers.inputs[2 * count : 2 * count + biases],
            others=others,
            order=order,
            transpose_a=layers.get_attr("transpose_a"),
            transpose_b=layers.get_attr("transpose_b"),
            relu=layers.get_attr("relu"),
            name="tf_booster/joined_layers",
        )
    lies_at = places(join.inputs, joined)
    view.redirect_all([(join.outputs[0], joined)])
    view.redirect_control([layers, join], joined.op)
    view.note_originals(joined.op, [layers, join])
    return {output.ref(): lies_at[output.ref()] for output in layers.outputs}


def _read_columns(view: GraphView, op: tf.Operation, upstream: Places, relus: Places) -> None:
    """Makes the gradients of biases `op` read columns of wide tensors, those that have a place there."""
    count = op.get_attr("N")
    read = [upstream.get(skip_identity(tensor).ref(), Columns(tensor, 0)) for tensor in op.inputs[:count]]
    passed = [relus.get(tensor.ref(), Columns(tensor, 0)) for tensor in op.inputs[count:]]
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
