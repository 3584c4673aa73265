"""Tells which tensors surely have the same value in every run, as the hyperparameters of a model's many updates do.

Keras makes them once; the optimizers of tf.compat.v1.train make, for every Variable, a read of beta1_power, say, and a cast.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Hashable, List, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView

_DEPTH = 16  # Hyperparameters are a few ops away from constants and reads; what is farther is only equal to itself.

# Consumers of a handle that write nothing.
_READERS = (
    "ReadVariableOp",
    "VarIsInitializedOp",
    "VariableShape",
    "ResourceGather",
    "ResourceGatherNd",
    "DisableCopyOnRead",
)


class ScalarKeys:
    """Equal keys, equal values: key(tensor). Takes time linear in the ops that it looks at."""

    def __init__(self, view: GraphView):
        self._view = view
        self._index = view.index()
        self._initial = view.upstream_of_initializers()
        self._keys: Dict[Any, Hashable] = {}
        self._writers: Dict[Any, List[FrozenSet[int]]] = {}

    def key(self, tensor: tf.Tensor, depth: int = _DEPTH) -> Hashable:
        """A key that other tensors have too if they are computed alike from equal constants, the same tensors, and the same
        Variables read before the same writes."""
        ref = tensor.ref()
        if ref not in self._keys:
            self._keys[ref] = self._make(tensor, depth)
        return self._keys[ref]

    def _make(self, tensor: tf.Tensor, depth: int) -> Hashable:
        if _passes_on(tensor.op) and not tensor.op.control_inputs and depth > 0:
            return self.key(tensor.op.inputs[0], depth - 1)
        key = self._value(tensor, depth)
        # Whatever uses the tensor comes after these. A read has them in its key.
        waits = tensor.op.control_inputs if key[0] not in ("tensor", "read") else ()
        return ("after", frozenset(waits), key) if waits else key

    def _value(self, tensor: tf.Tensor, depth: int) -> Tuple[Any, ...]:
        op = tensor.op
        itself = ("tensor", tensor.ref())
        if depth == 0 or _compat.in_control_flow(op):
            return itself
        if op.type == "Const":
            value = tf.make_ndarray(op.get_attr("value"))
            return ("Const", value.dtype.str, value.shape, value.tobytes()) if value.size <= 16 else itself
        if any(t.dtype.base_dtype != t.dtype for t in op.inputs):
            return itself  # A read of a reference Variable.
        if _passes_on(op):
            return ("same", self.key(op.inputs[0], depth - 1))
        if op.type == "ReadVariableOp":
            return self._read(op) if op.inputs[0].op.type == "VarHandleOp" else itself
        if op.op_def is None or op.op_def.is_stateful or op.type.startswith("Placeholder"):
            return itself
        inputs = tuple(self.key(t, depth - 1) for t in op.inputs)
        return (op.type, tensor.value_index, op.device, _attributes(op), inputs)

    def _read(self, op: tf.Operation) -> Tuple[Any, ...]:
        """Reads of one Variable that wait for the same ops, and that the same writes wait for."""
        number = self._index.number[op]
        after = tuple(number in upstream for upstream in self._upstream_of_writers(op.inputs[0]))
        return ("read", op.inputs[0].ref(), frozenset(op.control_inputs), op.outputs[0].dtype, after)

    def _upstream_of_writers(self, handle: tf.Tensor) -> List[FrozenSet[int]]:
        """For each op that may write the Variable in a training run, what runs before it."""
        ref = handle.ref()
        if ref not in self._writers:
            writers = [
                op
                for op in dict.fromkeys(handle.consumers())
                if op.type not in _READERS and self._index.number[op] not in self._initial
            ]
            self._writers[ref] = [frozenset(self._index.upstream([op])) for op in writers]
        return self._writers[ref]


def _passes_on(op: tf.Operation) -> bool:
    """Whether the output of `op` is its input. A read of a reference Variable is not: it depends on when."""
    if op.type not in ("Identity", "Cast") or op.inputs[0].dtype != op.outputs[0].dtype:
        return False
    return not _compat.in_control_flow(op)


def _attributes(op: tf.Operation) -> Tuple[Any, ...]:
    """All attributes but the internal ones, as text that compares."""
    attributes = op.node_def.attr
    return tuple(
        (name, attributes[name].SerializeToString()) for name in sorted(attributes) if not name.startswith("_")
    )
