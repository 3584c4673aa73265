"""The pass that has small layers write to where they are joined, and their gradients read from where they would be split.

Behind small_matmuls and columns, the results of many layers are copied beside each other, and the gradient of the whole is copied apart again: a
fourteenth of a step's processor time each, and two turns of all threads. A layer can write its columns of the joined tensor, and the gradient of a bias can read
columns where they lie.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.swallowed import swallowed

_LAYERS, _JOIN = "TfBoosterMultiMatMul", "TfBoosterConcatColumns"
_BIASES, _SPLIT = "TfBoosterMultiBiasGrad", "TfBoosterSplitColumns"
_MADE = "TfBoosterJoinedMultiMatMul"


class _Columns(NamedTuple):
    """Columns of a wide tensor, from `first` on."""

    wide: tf.Tensor
    first: int


# Tensor.ref() -> where its values lie, too.
_Places = Dict[object, _Columns]


class JoinedLayers(Pass):
    """Leaves out the copies between small layers and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_layers"

    def requires(self, view: GraphView) -> bool:
        """Whether there are small layers, and joins or splits."""
        return any(op.outputs[0].consumers() for op in view.ops(_LAYERS, _BIASES)) and bool(view.ops(_JOIN, _SPLIT))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what a step reads in another way as well, and parts of which not all columns are known."""
        result = PassResult(self.name)
        splits, live = _splits(view)
        upstream: _Places = {}
        for op in splits:
            upstream.update(_places(op.outputs, op.inputs[0]))
        joins = _joins(view, live)
        relus: _Places = {}
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


def _splits(view: GraphView) -> Tuple[List[tf.Operation], Set[int]]:
    """The splits that only gradients of biases read; the numbers of the ops that a step runs when these are gone."""
    index = view.index()
    live = set(executed(view, fetches_of(view).names))
    splits = []
    for op in view.ops(_SPLIT):
        readers = {reader for output in op.outputs for reader in _readers(output) if index.number[reader] in live}
        known = op.inputs[0].shape.rank == 2 and None not in _widths(op.outputs)
        if (
            readers
            and known
            and all(reader.type == _BIASES and _reads_only(reader, 0, op.outputs) for reader in readers)
        ):
            splits.append(op)
    # What only tells such a split its sizes is not run either: it may read the shapes of the layers.
    before = list(index.before)
    for op in splits:
        before[index.number[op]] = (index.number[op.inputs[0].op],)
    read = {other for number in live for other in index.before[number]}
    return splits, reached(live - read, before)


def _readers(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    """The ops that read `tensor`, Identities looked through."""
    for op in dict.fromkeys(tensor.consumers()):
        if op.type == "Identity":
            yield from _readers(op.outputs[0])
        else:
            yield op


def _joins(view: GraphView, live: Set[int]) -> List[Tuple[tf.Operation, tf.Operation]]:
    """Pairs of layers and the join that has all of them, which may be one op."""
    number = view.index().number
    units = []
    for join in view.ops(_JOIN):
        parts = list(join.inputs)
        if number[join] not in live or join.outputs[0].shape.rank != 2 or None in _widths(parts):
            continue
        by_op: Dict[tf.Operation, int] = {}
        for part in parts:
            if part.op.type == _LAYERS:
                by_op[part.op] = by_op.get(part.op, 0) + 1
        layers = max(by_op, key=by_op.__getitem__, default=None)
        if layers is not None and _are_all_joined(view, layers, join, live):
            units.append(Unit((layers, join), ("joined", join.name)))
    return [group[0].ops for group in merge_groups(view, units)[0]]  # type: ignore[misc]


def _are_all_joined(view: GraphView, layers: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
    """Whether each result of `layers` is a part of `join` once, and nothing else reads it but gradients, which come after the join."""
    index = view.index()
    if layers.device != join.device:
        return False
    parts = [part.ref() for part in join.inputs]
    gradients: Set[tf.Operation] = set()
    for output in layers.outputs:
        if parts.count(output.ref()) != 1:
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


def _write_joined(view: GraphView, layers: tf.Operation, join: tf.Operation) -> _Places:
    """Makes one op of both; returns where the results of the layers lie in its result."""
    count, biases = layers.get_attr("N"), layers.get_attr("num_biases")
    place = {output.ref(): i for i, output in enumerate(layers.outputs)}
    others = [part for part in join.inputs if part.ref() not in place]
    next_other = iter(range(count, count + len(others)))
    waits = [op for op in dict.fromkeys([*layers.control_inputs, *join.control_inputs]) if op is not layers]
    with view.inserting(join.device, waits):
        joined = _native.ops().tf_booster_joined_multi_mat_mul(
            a=layers.inputs[:count],
            b=layers.inputs[count : 2 * count],
            bias=layers.inputs[2 * count : 2 * count + biases],
            others=others,
            order=[place[part.ref()] if part.ref() in place else next(next_other) for part in join.inputs],
            transpose_a=layers.get_attr("transpose_a"),
            transpose_b=layers.get_attr("transpose_b"),
            relu=layers.get_attr("relu"),
            name="tf_booster/joined_layers",
        )
    lies_at = _places(join.inputs, joined)
    view.redirect_all([(join.outputs[0], joined)])
    view.redirect_control([layers, join], joined.op)
    view.note_originals(joined.op, [layers, join])
    return {ref: columns for ref, columns in lies_at.items() if ref in place}


def _read_columns(view: GraphView, op: tf.Operation, upstream: _Places, relus: _Places) -> None:
    """Makes the gradients of biases `op` read columns of wide tensors, those that have a place there."""
    count = op.get_attr("N")
    read = [upstream.get(skip_identity(tensor).ref(), _Columns(tensor, 0)) for tensor in op.inputs[:count]]
    passed = [relus.get(tensor.ref(), _Columns(tensor, 0)) for tensor in op.inputs[count:]]
    wide = [columns.wide for columns in (*read, *passed)]
    if all(tensor is own for tensor, own in zip(wide, op.inputs)):
        return
    splits = [skip_identity(tensor).op for tensor in op.inputs[:count] if skip_identity(tensor).ref() in upstream]
    gone = swallowed([op], [*wide, *op.inputs[count:], *(split.inputs[1] for split in splits)])
    with view.inserting(op.device, gone.control_inputs):
        biases, made = _native.ops().tf_booster_multi_bias_grad(
            upstream=wide[:count],
            relu=wide[count:],
            columns=_widths(op.outputs[:count]),
            upstream_column=[columns.first for columns in read],
            relu_column=[columns.first for columns in passed],
            name="tf_booster/bias_gradients",
        )
    new = [*biases, *made]
    view.redirect_all(list(zip(op.outputs, new)))
    view.redirect_control([op], biases[0].op)
    view.note_originals(biases[0].op, [op])


def _places(parts: Sequence[tf.Tensor], wide: tf.Tensor) -> _Places:
    """Where each part begins in the tensor that has them beside each other."""
    found, first = {}, 0
    for part in parts:
        found[part.ref()] = _Columns(wide, first)
        first += part.shape[-1]
    return found


def _widths(tensors: Sequence[tf.Tensor]) -> List[Optional[int]]:
    return [tensor.shape[-1] if tensor.shape.rank else None for tensor in tensors]
