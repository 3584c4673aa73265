"""Puts read-modify-writes of one Variable one behind the other where a program leaves open which comes first.

Each `minimize()` of a v1 Adam ends by `beta_power.assign(beta_power * beta)`, once its own updates have run. Two of them in a `tf.group` may both
read before either writes, and then one of the products is lost. TensorFlow seldom loses one, as the updates of the two end at different times;
once many updates are one op they end together.
"""

from __future__ import annotations

import collections
from typing import Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import conditions
from tf_booster.passes.fetches import restores
from tf_booster.passes.graph_index import GraphIndex, reached
from tf_booster.passes.graph_view import GraphView, add_control_input

_ASSIGN = "AssignVariableOp"
_MODIFIES = ("Identity", "Cast", "Neg", "Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow")


def put_in_order(view: GraphView) -> List[str]:
    """Has each read-modify-write wait for the one that was made before it, if whatever runs it runs that one as well.

    A read that waits for nothing is none: such reads come before all writes of a step, in TensorFlow as well.

    Returns:
      What was done, for each Variable.
    """
    found: Dict[tf.Operation, List[Tuple[tf.Operation, tf.Operation]]] = collections.defaultdict(list)
    for op in view.ops(_ASSIGN):
        read = _read(op)
        if read is not None and not (_compat.in_control_flow(op) or view.is_superseded(op) or restores(op)):
            found[op.inputs[0].op].append((read, op))
    several = {handle: pairs for handle, pairs in found.items() if len(pairs) > 1}
    initial = view.upstream_of_initializers() if several else set()
    changes = []
    for handle, pairs in several.items():
        pairs = [(read, op) for read, op in pairs if view.index().number[op] not in initial]
        ordered = 0
        for (its_read, before), (read, _) in zip(pairs, pairs[1:]):
            if read is not its_read and _is_open(view.index(), before, read):
                add_control_input(read, before)
                ordered += 1
        if ordered:
            changes.append(f"{ordered + 1} read-modify-writes of Variable '{handle.name}' come one behind the other")
    return changes


def _read(assign: tf.Operation) -> Optional[tf.Operation]:
    """The read whose value `assign` writes back changed; None where there are several, or it waits for nothing."""
    found, seen = [], set()
    stack = [assign.inputs[1].op]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _MODIFIES:
            stack.extend(tensor.op for tensor in op.inputs)
        elif op.type == "ReadVariableOp" and op.inputs[0] is assign.inputs[0]:
            found.append(op)
    return found[0] if len(found) == 1 and found[0].control_inputs else None


def _is_open(index: GraphIndex, before: tf.Operation, read: tf.Operation) -> bool:
    """Whether nothing orders the assign `before` and `read`, and whatever runs `read` runs `before`."""
    number = index.number
    behind, ahead = index.upstream([before]), index.upstream([read])
    if number[before] in ahead or number[read] in behind:
        return False
    # What waits for an op that a condition leaves out is left out as well.
    if conditions.of([before]) != conditions.of([read]) or any(index.ops[n].type == "Switch" for n in behind - ahead):
        return False
    after = index.after()
    ends = [index.ops[n] for n in reached([number[read]], after) if not after[n]]
    # What assign() gives is such an end, too, whether or not anybody wants it.
    ends = [end for end in ends if end.type != "ReadVariableOp" or end.inputs[0] is not read.inputs[0]]
    return bool(ends) and all(number[before] in index.upstream([end]) for end in ends)
