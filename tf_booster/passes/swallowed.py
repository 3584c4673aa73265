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
    waits = dict.fromkeys(other for op in found for other in waits_of(op))
    return Swallowed(tuple(found), tuple(op for op in waits if op not in found))


def waits_of(op: tf.Operation) -> List[tf.Operation]:
    """What `op` waits for beside what it reads, seen through barriers: what may have effects, and what nobody would compute else."""
    found: List[tf.Operation] = []
    for before in op.control_inputs:
        if is_barrier(before):
            found += [other for other in before.control_inputs if not is_gradient(other)]
        else:
            found.append(before)
    return found


def is_barrier(op: tf.Operation) -> bool:
    """Whether tf.gradients made `op` so that the gradients of one op wait for each other, which nobody sees.

    In a tf.control_dependencies, as programs with batch normalization have it around minimize, it waits for that, too.
    """
    return op.type == "NoOp" and op.name.endswith("tuple/group_deps")


def is_gradient(op: tf.Operation) -> bool:
    """Whether `op`, for which a barrier waits, is one of the gradients that it is made for, or its like: it has no effects."""
    return bool(op.inputs) and not op.op_def.is_stateful
