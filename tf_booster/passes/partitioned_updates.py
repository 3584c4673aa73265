"""Finds the whole gradient of a table that several Variables hold, of which tf.gradients gives each the part that is its own.

TensorFlow gathers the gradient of each part, sums up its duplicates and steps it: for eight parts of 26 tables a thousand ops. The fused op finds a
row's part itself, as the lookup does.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.matching import skip_identity
from tf_booster.passes.partitions import Partition, are_places, partition_of
from tf_booster.passes.shape_tricks import source_of
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import is_pure_barrier
from tf_booster.passes.variable_update_matching import Part, VariableUpdate


def with_whole_gradient(update: VariableUpdate) -> VariableUpdate:
    """`update` with its table's gradient if its Variable is part of one; else as it is.

    Sums have the same bits: a row's gradients come in the same order in the whole as in the part.
    """
    tensors = dict(update.tensors)
    if "indices" not in tensors:
        return update
    ids, grads = _pieces(tensors["indices"]), _pieces(tensors["grad"])
    if ids is None or grads is None or len(ids) != len(grads):
        return update
    wholes = [_whole(i, g, update.var) for i, g in zip(ids, grads)]
    if any(whole is None or whole[:2] != wholes[0][:2] for whole in wholes):
        return update
    partition, part = wholes[0][2], wholes[0][1]
    found = Part(
        part,
        len(partition.gathers),
        partition.rows,
        partition.mod,
        tuple(whole[2].ids for whole in wholes),
        tuple(whole[3] for whole in wholes),
    )
    return dataclasses.replace(update, part=found)


def _pieces(tensor: tf.Tensor) -> Optional[List[tf.Tensor]]:
    """What tf.gradients joins of a table that is looked up more than once; `tensor` alone otherwise. None if something waits there."""
    end = _source(tensor)
    if end is None or end.op.type != "ConcatV2":
        return None if end is None else [end]
    if end.op.control_inputs or static_integers(end.op.inputs[-1]) != [0]:
        return None
    found = [_source(piece) for piece in end.op.inputs[:-1]]
    return None if any(piece is None for piece in found) else found


def _whole(ids: tf.Tensor, grad: tf.Tensor, handle: tf.Tensor) -> Optional[Tuple[Tuple, int, Partition, tf.Tensor]]:
    """(the table, which part of it `handle` is, the division of the ids, their gradient), given the ids and gradient of this part."""
    gather = grad.op
    if gather.type != "GatherV2" or gather.get_attr("batch_dims") != 0 or static_integers(gather.inputs[2]) != [0]:
        return None
    places = skip_identity(gather.inputs[1])
    partition = partition_of(ids.op)
    if partition is None or not are_places(places.op, partition) or places.value_index != ids.value_index:
        return None
    if partition.handles[ids.value_index] is not handle or not _waits_for_nothing(gather):
        return None
    # Of two lookups in one list of Variables: the same Variables, in the same order and by the same strategy.
    table = (tuple(part.ref() for part in partition.handles), partition.mod)
    return table, ids.value_index, partition, gather.inputs[0]


def _source(tensor: tf.Tensor) -> Optional[tf.Tensor]:
    """Where what Identities and reshapes that change nothing hand on comes from; None if one of them waits for something."""
    end = source_of(tensor)
    while tensor is not end:
        if not _waits_for_nothing(tensor.op):
            return None
        tensor = tensor.op.inputs[0]
    return end


def _waits_for_nothing(op: tf.Operation) -> bool:
    return all(is_pure_barrier(before) for before in op.control_inputs)
