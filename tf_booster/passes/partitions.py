"""Recognises how tf.nn.embedding_lookup divides ids among the Variables that hold one table: `partition_strategy` "mod" and "div"."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import tensorflow as tf

from tf_booster.passes.matching import same, skip_casts, skip_identity
from tf_booster.passes.static_integers import static_integers


@dataclasses.dataclass(frozen=True)
class Partition:
    """Ids of a lookup, divided by a DynamicPartition.

    Attributes:
      ids: [n], all of them.
      choice: [n], the part of each, as DynamicPartition takes it.
      gathers: of each part the ResourceGather of its ids.
      handles: the Variables that hold the parts.
      rows: of all parts together.
      mod: whether the strategy is "mod"; else it is "div".
    """

    ids: tf.Tensor
    choice: tf.Tensor
    gathers: Tuple[tf.Operation, ...]
    handles: Tuple[tf.Tensor, ...]
    rows: int
    mod: bool


def partition_of(divided: tf.Operation) -> Optional[Partition]:
    """What the DynamicPartition `divided` does, if it divides ids for gathers of the parts of one table; else None."""
    if divided.type != "DynamicPartition":
        return None
    rows_of_parts, choice = divided.inputs
    parts = divided.get_attr("num_partitions")
    found = _mod(rows_of_parts, choice, parts) or _div(rows_of_parts, choice, parts)
    gathers = [_gather_by(part) for part in divided.outputs]
    if found is None or any(gather is None for gather in gathers):
        return None
    ids, rows = found
    if ids.shape.rank != 1:
        return None
    handles = tuple(gather.inputs[0] for gather in gathers)
    sizes = [_num_rows(handle) for handle in handles]
    if None in sizes or rows not in (None, sum(sizes)):
        return None
    short, longer = divmod(sum(sizes), parts)
    if short == 0 or sizes != [short + (part < longer) for part in range(parts)]:
        return None
    return Partition(ids, choice, tuple(gathers), handles, sum(sizes), rows is None)


def are_places(divided: tf.Operation, partition: Partition) -> bool:
    """Whether the DynamicPartition `divided` divides 0, 1, … in the way in which `partition` divides its ids."""
    if divided.type != "DynamicPartition" or not same(divided.inputs[1], partition.choice):
        return False
    counted = skip_identity(divided.inputs[0]).op
    if counted.type != "Range" or [static_integers(counted.inputs[i]) for i in (0, 2)] != [[0], [1]]:
        return False
    size = skip_casts(counted.inputs[1])
    if size.op.type == "Size":
        return same(size.op.inputs[0], partition.ids)
    return partition.ids.shape.rank == 1 and static_integers(size) == partition.ids.shape.as_list()


def _mod(rows: tf.Tensor, choice: tf.Tensor, parts: int) -> Optional[Tuple[tf.Tensor, None]]:
    """ids % parts, ids // parts."""
    by_part, by_row = skip_casts(choice).op, skip_identity(rows).op
    if by_part.type != "FloorMod" or by_row.type != "FloorDiv" or not same(by_part.inputs[0], by_row.inputs[0]):
        return None
    if any(static_integers(op.inputs[1]) != [parts] for op in (by_part, by_row)):
        return None
    return by_part.inputs[0], None


def _div(rows: tf.Tensor, choice: tf.Tensor, parts: int) -> Optional[Tuple[tf.Tensor, int]]:
    """Of n rows, n % parts parts have n // parts + 1: the larger one of two quotients is the part, one of two remainders the row."""
    by_part, by_row = skip_casts(choice).op, skip_identity(rows).op
    if by_part.type != "Maximum" or by_row.type not in ("Select", "SelectV2"):
        return None
    less = skip_identity(by_row.inputs[0]).op
    if less.type != "Less" or not same(less.inputs[0], by_part.outputs[0]):
        return None
    of_longer, of_others = (_divided(t, "FloorDiv") for t in by_part.inputs)
    in_longer, in_others = (_divided(t, "FloorMod") for t in by_row.inputs[1:])
    if None in (of_longer, of_others, in_longer, in_others) or of_longer != in_longer or of_others != in_others:
        return None
    (ids, begin, longer_size), (others, longer, size) = of_longer, of_others
    wanted = (ids, 0, size + 1) == (others, begin, longer_size) and static_integers(less.inputs[1]) == [longer]
    return (ids.deref(), size * parts + longer) if wanted else None


def _divided(tensor: tf.Tensor, by: str) -> Optional[Tuple[object, int, int]]:
    """(x's reference, a, b) of (x - a) // b or (x - a) % b, by the type `by` of the op."""
    op = skip_identity(tensor).op
    if op.type != by:
        return None
    x, first = skip_identity(op.inputs[0]), [0]
    if x.op.type == "Sub" and static_integers(x.op.inputs[1]) is not None:
        x, first = skip_identity(x.op.inputs[0]), static_integers(x.op.inputs[1])
    divisor = static_integers(op.inputs[1])
    if divisor is None or len(divisor) != 1 or len(first) != 1:
        return None
    return x.ref(), first[0], divisor[0]


def _gather_by(ids: tf.Tensor) -> Optional[tf.Operation]:
    gathers = [op for op in ids.consumers() if op.type == "ResourceGather" and op.inputs[1] is ids]
    return gathers[0] if len(gathers) == 1 else None


def _num_rows(handle: tf.Tensor) -> Optional[int]:
    if handle.op.type != "VarHandleOp":
        return None
    shape = tf.TensorShape(handle.op.get_attr("shape"))
    return shape.as_list()[0] if shape.rank else None
