"""Values that the pass repeated_features expands to all rows of a batch, for passes that can do with the few rows."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, skip_identity

EXPANSION, ON_CARD = "TfBoosterTakeRows", "GatherV2"


class Expanded(NamedTuple):
    """Row i is row rows[i] of `few`."""

    few: tf.Tensor
    rows: tf.Tensor


def expanded(tensor: tf.Tensor) -> Optional[Expanded]:
    """What `tensor` is expanded from; None for any other tensor."""
    tensor = skip_identity(tensor)
    op = tensor.op
    if op.type == EXPANSION and _are_rows_of(op.inputs[-1]):
        return Expanded(op.inputs[tensor.value_index], op.inputs[-1])
    if op.type == ON_CARD and _are_rows_of(op.inputs[1]):
        return Expanded(op.inputs[0], op.inputs[1])
    return None


def _are_rows_of(rows: tf.Tensor) -> bool:
    """Whether `rows` tells for each row of the batch which distinct one it is."""
    return rows.op.type == "TfBoosterRepeatedRows" and rows.value_index == 1


def all_rows(view: GraphView, values: Sequence[tf.Tensor], rows: tf.Tensor, name: str) -> List[tf.Tensor]:
    """Expands values, those on a card there, by TensorFlow's gather; all others by one op."""
    found: Dict[int, tf.Tensor] = {}
    here = [i for i, value in enumerate(values) if not _compat.is_in_gpu_memory(value)]
    if here:
        with view.inserting(None):
            made = _native.ops().tf_booster_take_rows(values=[values[i] for i in here], rows=rows, name=name)
        found.update(zip(here, made))
    for i, value in enumerate(values):
        if i not in found:
            with view.inserting(value.op.device):
                found[i] = tf.gather(value, rows, name=name)
    return [found[i] for i in range(len(values))]


def drop_what_nothing_reads(view: GraphView) -> None:
    """Makes ops that expand several values anew, without those that nothing but superseded ops reads."""
    for op in view.ops(EXPANSION):
        read: List[int] = [
            i for i, output in enumerate(op.outputs) if not all(map(view.is_superseded, readers(output)))
        ]
        if not read or len(read) == len(op.outputs):
            continue
        with view.inserting(op.device):
            made = _native.ops().tf_booster_take_rows(
                values=[op.inputs[i] for i in read], rows=op.inputs[-1], name=op.name
            )
        for i, tensor in zip(read, made):
            tensor.set_shape(op.outputs[i].shape)
        view.redirect_all([(op.outputs[i], tensor) for i, tensor in zip(read, made)])
        view.redirect_control([op], made[0].op)
        view.note_originals(made[0].op, [op])
