"""Values that the pass repeated_features expands to all rows of a batch, for passes that can do with the few rows."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, skip_identity

EXPANSION = "TfBoosterTakeRows"


class Expanded(NamedTuple):
    """Row i is row rows[i] of `few`."""

    few: tf.Tensor
    rows: tf.Tensor


def expanded(tensor: tf.Tensor) -> Optional[Expanded]:
    """What `tensor` is expanded from; None for any other tensor."""
    tensor = skip_identity(tensor)
    op = tensor.op
    if op.type != EXPANSION or "Placeholder" in op.inputs[tensor.value_index].op.type:
        return None  # The features' distinct rows are taken by such an op, too.
    return Expanded(op.inputs[tensor.value_index], op.inputs[-1])


def expand(view: GraphView, value: Expanded, device: Optional[str], name: str) -> tf.Tensor:
    """All rows of `value`."""
    with view.inserting(device):
        return _native.ops().tf_booster_take_rows(values=[value.few], rows=value.rows, name=name)[0]


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
