"""Whether the updates of two tables do the same thing at the same time, so that one op may do both."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Tuple, Union

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.optimizer_matching import SparseUpdate

# What stands between the first and the last op of an update that TensorFlow builds as a chain (Adam, Keras's RMSprop).
_CHAIN = frozenset("Add AddV2 Cast Const GatherV2 Identity Mul Neg Pow ReadVariableOp RealDiv Sqrt Square Sub".split())
_CHAIN_LENGTH = 12

# Of hyperparameters: ops that compute one value from others, and nothing else.
_PURE = frozenset(
    "Add AddV2 Cast Identity Maximum Minimum Mul Neg Pow RealDiv Reciprocal Rsqrt Sqrt Square Sub".split()
)


class UpdateKey(NamedTuple):
    """Updates with equal keys differ in table, indices and gradient alone."""

    dim: int
    optimizer: str
    op_name: str
    slots: Tuple[Tuple[str, float], ...]
    attrs: Tuple[Tuple[str, Any], ...]
    inputs: Tuple[Hashable, ...]
    waiting: Hashable
    device: Optional[str]

    def difference(self, other: UpdateKey) -> str:
        """Why the two do not merge, for people; of equal keys the merging rule has another reason."""
        if (self.slots, self.attrs, self.op_name) != (other.slots, other.attrs, other.op_name):
            return "their slots start at other values, or the optimizer's settings differ"
        if self.device != other.device:
            return "they live on other devices"
        if self.inputs != other.inputs:
            return "their hyperparameters are other tensors"
        if self.waiting != other.waiting:
            return "other ops wait for its update, so the two need not always run together"
        return "its update waits for other inputs than theirs, or for theirs"


class Sameness:
    """Tells which hyperparameters have the same value in every step: constants of equal value, reads of one Variable
    behind the same ops, and what the same ops make of such."""

    def __init__(self) -> None:
        self._known: Dict[Any, Hashable] = {}

    def of(self, value: Union[tf.Tensor, float], depth: int = 0) -> Hashable:
        """Equal for two values only if they are equal in every step."""
        if isinstance(value, float):
            return ("float", value)
        if value.ref() not in self._known:
            self._known[value.ref()] = self._of(value, depth)
        return self._known[value.ref()]

    def _of(self, tensor: tf.Tensor, depth: int) -> Hashable:
        op = tensor.op
        if op.type == "Const":
            return ("const", op.get_attr("value").SerializeToString(deterministic=True))
        waits = frozenset(op.control_inputs)
        if op.type == "ReadVariableOp":
            return ("read", op.inputs[0].ref(), op.get_attr("dtype"), waits)
        if op.type in _PURE and depth < _CHAIN_LENGTH:
            inputs = tuple(self.of(t, depth + 1) for t in op.inputs)
            return inputs[0] if op.type == "Identity" and not waits else (op.type, tensor.dtype, waits, inputs)
        return tensor.ref()


def chain_of(update: SparseUpdate) -> Tuple[tf.Operation, ...]:
    """The ops of an update, with those between its first and its last ones."""
    replaced = dict.fromkeys(update.replaced)
    if len(replaced) == 1:
        return tuple(replaced)
    between: Dict[tf.Operation, bool] = {}

    def leads_from_first(op: tf.Operation, depth: int) -> bool:
        if op in replaced:
            return True
        if op.type not in _CHAIN or depth > _CHAIN_LENGTH:
            return False
        if op not in between:
            between[op] = False
            # No `any` of a generator: every way back is to be followed.
            between[op] = any([leads_from_first(before, depth + 1) for before in _before(op)])
        return between[op]

    for op in replaced:
        for before in _before(op):
            leads_from_first(before, 1)
    return (*replaced, *(op for op, leads in between.items() if leads))


def update_key(
    dim: int, update: SparseUpdate, chain: Tuple[tf.Operation, ...], sameness: Sameness, device: Optional[str]
) -> UpdateKey:
    """What must be equal for two updates to become one; device: of the table."""
    return UpdateKey(
        dim,
        update.optimizer,
        update.op_name,
        tuple((slot.name, slot.initial_value) for slot in update.slots),
        tuple(sorted(update.attrs.items())),
        tuple(sameness.of(value) for value in update.inputs),
        waiting(chain),
        device,
    )


def waiting(chain: Tuple[tf.Operation, ...]) -> Hashable:
    """The ops that wait for an update. A NoOp that groups nothing but one table's update stands for those behind it."""
    own = set(chain)
    found: Dict[tf.Operation, None] = {}
    work: List[tf.Operation] = list(chain)
    while work:
        op = work.pop()
        followers = [*_compat.control_outputs(op), *(c for t in op.outputs for c in t.consumers())]
        for follower in followers:
            if follower in own:
                continue
            if (
                follower.type == "NoOp"
                and own.issuperset(follower.control_inputs)
                and _compat.control_outputs(follower)
            ):
                own.add(follower)
                work.append(follower)
            else:
                found[follower] = None
    return frozenset(found)


def _before(op: tf.Operation) -> List[tf.Operation]:
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]
