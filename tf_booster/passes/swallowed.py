"""The ops that a fused op takes the place of, and what they wait for beside what they read."""

from __future__ import annotations

import dataclasses
from typing import Iterable, List, Tuple

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Swallowed:
    """ops: between the fused op's inputs and the replaced outputs. control_inputs: what some of them wait for, asserts for example."""

    ops: Tuple[tf.Operation, ...]
    control_inputs: Tuple[tf.Operation, ...]


def swallowed(ends: Iterable[tf.Operation], inputs: Iterable[tf.Tensor]) -> Swallowed:
    """What lies before `ends`, up to and without the ops that made `inputs`."""
    stop = {tensor.op for tensor in inputs}
    found = {op: None for op in ends}
    work = list(found)
    while work:
        for tensor in work.pop().inputs:
            op = tensor.op
            if op not in stop and op not in found:
                found[op] = None
                work.append(op)
    waits = dict.fromkeys(other for op in found for other in op.control_inputs)
    kept = [op for op in waits if op not in found and not is_pure_barrier(op)]
    return Swallowed(tuple(found), tuple(kept))


def is_pure_barrier(op: tf.Operation) -> bool:
    """Whether `op` only makes the gradients of one op wait for each other, as tf.gradients does: leaving it out is not seen."""
    if op.type != "NoOp" or not op.name.endswith("tuple/group_deps"):
        return False
    others: List[tf.Operation] = op.control_inputs
    return all(other.inputs and not other.op_def.is_stateful for other in others)
