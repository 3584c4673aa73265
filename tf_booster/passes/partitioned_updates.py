"""Finds the whole gradient of a table that several Variables hold, of which tf.gradients gives each the part that is its own.

TensorFlow gathers the gradient of each part, sums up its duplicates and steps it: for eight parts of 26 tables a thousand ops. The fused op finds a
row's part itself, as the lookup does.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.matching import skip_identity
from tf_booster.passes.partitions import Partition, are_places, partition_of
from tf_booster.passes.shape_tricks import source_of
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import is_barrier, waits_of
from tf_booster.passes.variable_update_matching import Part, VariableUpdate

Partitions = Dict[tf.Operation, Optional[Partition]]


def with_whole_gradient(update: VariableUpdate, known: Partitions) -> VariableUpdate:
    """`update` with its table's gradient if its Variable is part of one; else as it is.

    known: the divisions of ids that were looked at, which all parts of a table have in common; they are added to it.

    Sums have the same bits: a row's gradients come in the same order in the whole as in the part.
    """
    tensors = dict(update.tensors)
    if "indices" not in tensors:
        return update
    passed: List[tf.Operation] = []
    ids, grads = _pieces(tensors["indices"], passed), _pieces(tensors["grad"], passed)
    if ids is None or grads is None or len(ids) != len(grads):
        return update
    wholes = [_whole(i, g, update.var, known, passed) for i, g in zip(ids, grads)]
    if any(whole is None for whole in wholes):
        return update
    part, partition, _ = wholes[0]
    if any(other != part or not _same_table(others, partition) for other, others, _ in wholes[1:]):
        return update
    found = Part(
        part,
        len(partition.gathers),
        partition.rows,
        partition.mod,
        tuple(whole.ids for _, whole, _ in wholes),
        tuple(grad for _, _, grad in wholes),
    )
    waits = dict.fromkeys([*update.waits, *(before for op in passed for before in waits_of(op))])
    return dataclasses.replace(update, part=found, waits=tuple(waits))


def _pieces(tensor: tf.Tensor, passed: List[tf.Operation]) -> Optional[List[tf.Tensor]]:
    """What tf.gradients joins of a table that is looked up more than once; `tensor` alone otherwise. None if something waits there.

    passed: the ops on the way, which go, are added to it.
    """
    end = _source(tensor, passed)
    if end is None or end.op.type != "ConcatV2":
        return None if end is None else [end]
    if end.op.control_inputs or static_integers(end.op.inputs[-1]) != [0]:
        return None
    found = [_source(piece, passed) for piece in end.op.inputs[:-1]]
    return None if any(piece is None for piece in found) else found


def _whole(
    ids: tf.Tensor, grad: tf.Tensor, handle: tf.Tensor, known: Partitions, passed: List[tf.Operation]
) -> Optional[Tuple[int, Partition, tf.Tensor]]:
    """(which part `handle` is, the division of the ids, their gradient), given the ids and gradient of this part."""
    gather = grad.op
    if gather.type != "GatherV2" or gather.get_attr("batch_dims") != 0 or static_integers(gather.inputs[2]) != [0]:
        return None
    places = skip_identity(gather.inputs[1])
    if ids.op not in known:
        known[ids.op] = partition_of(ids.op)
    partition = known[ids.op]
    if partition is None or not are_places(places.op, partition) or places.value_index != ids.value_index:
        return None
    if partition.handles[ids.value_index] is not handle or not _waits_for_barriers(gather):
        return None
    passed.append(gather)
    return ids.value_index, partition, gather.inputs[0]


def _same_table(a: Partition, b: Partition) -> bool:
    """Whether both look up in the same Variables, in the same order and by the same strategy."""
    return a.mod == b.mod and [handle.ref() for handle in a.handles] == [handle.ref() for handle in b.handles]


def _source(tensor: tf.Tensor, passed: List[tf.Operation]) -> Optional[tf.Tensor]:
    """Where what Identities and reshapes that change nothing hand on comes from; None if one of them waits for something else than barriers."""
    end = source_of(tensor)
    while tensor is not end:
        if not _waits_for_barriers(tensor.op):
            return None
        passed.append(tensor.op)
        tensor = tensor.op.inputs[0]
    return end


def _waits_for_barriers(op: tf.Operation) -> bool:
    return all(map(is_barrier, op.control_inputs))
