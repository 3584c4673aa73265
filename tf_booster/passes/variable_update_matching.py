"""Finds the ops by which TensorFlow's optimizers update resource Variables, and the fused op that does the same."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple, Union

import tensorflow as tf

from tf_booster import _compat

_DENSE = (
    "GradientDescent", "ProximalGradientDescent", "Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "ProximalAdagrad",
    "Adadelta", "Adam", "AdamWithAmsgrad", "AdaMax", "Ftrl", "FtrlV2", "RMSProp", "CenteredRMSProp",
)  # fmt: skip
DENSE_TYPES = tuple("ResourceApply" + name for name in _DENSE)
REFERENCE_TYPES = tuple(start + name for start in ("Apply", "SparseApply") for name in _DENSE)
DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
SPARSE_DTYPES = (tf.float32, tf.float64)

_RENAMED = {"alpha": "lr", "delta": "grad"}  # What gradient descent calls them.
NOT_COPIED = ("T", "Tindices", "use_locking")

Inputs = Tuple[Tuple[str, Union[tf.Tensor, float]], ...]


@dataclasses.dataclass(frozen=True)
class Part:
    """Which part of a table a Variable is, and the table's whole gradient.

    Attributes:
      part, parts: it is part `part` of `parts`.
      rows: of all parts together.
      mod: whether ids are divided by "mod", else by "div".
      indices, grads: of each lookup in the table the ids and their gradients.
    """

    part: int
    parts: int
    rows: int
    mod: bool
    indices: Tuple[tf.Tensor, ...]
    grads: Tuple[tf.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class VariableUpdate:
    """One update of one Variable, as inputs of a fused op.

    Attributes:
      optimizer: as in the ops' names: Adam, Adagrad, FtrlV2.
      fused_type: the fused op's type. One op of it takes the inputs of many updates.
      resources: (argument, handle) of the Variable, `var`, and its slots.
      scalars: (argument, value) of the hyperparameters.
      tensors: (argument, tensor) of the gradient and, if it is sparse, the indices. Of arguments that take several, each has a number: `var#0`.
      attrs: (attribute, value).
      ops: what the fused op replaces. Whatever waits on them waits on it.
      waits: what the ops waited for that computed what `ops` read, and that go with them.
      note: what people should know of the fused form.
      indices_of_grad: the rows whose gradients `grad` holds, where the fused op wants the gradient of all rows.
      several: whether more than one op goes, so that the fused op pays for one Variable alone.
      part: of a Variable that is part of a table whose gradient the fused op takes whole, in place of `tensors`.
    """

    optimizer: str
    fused_type: str
    resources: Tuple[Tuple[str, tf.Tensor], ...]
    scalars: Inputs
    tensors: Tuple[Tuple[str, tf.Tensor], ...]
    attrs: Tuple[Tuple[str, Any], ...]
    ops: Tuple[tf.Operation, ...]
    waits: Tuple[tf.Operation, ...] = ()
    note: str = ""
    indices_of_grad: Optional[tf.Tensor] = None
    several: bool = False
    part: Optional[Part] = None

    @property
    def var(self) -> tf.Tensor:
        """The Variable's handle."""
        return self.resources[0][1]

    @property
    def variable_name(self) -> str:
        """The Variable's name, as in a checkpoint."""
        return _variable_op(self.var).name

    @property
    def anchor(self) -> tf.Operation:
        """The op that writes the Variable, the last of its chain."""
        return self.ops[0]

    @property
    def dtype(self) -> tf.DType:
        """The dtype of Variable, slots and gradient."""
        return dict(self.tensors)["grad"].dtype if "grad" in dict(self.tensors) else self.var.op.get_attr("dtype")


def match_dense(op: tf.Operation) -> VariableUpdate:
    """The update that `op`, one of DENSE_TYPES, does."""
    name = op.type[len("ResourceApply") :]
    resources, scalars, tensors = [], [], []
    for arg, tensor in zip(op.op_def.input_arg, op.inputs):
        arg_name = _RENAMED.get(arg.name, arg.name)
        kind = resources if tensor.dtype == tf.resource else tensors if arg_name == "grad" else scalars
        kind.append((arg_name, tensor))
    return VariableUpdate(
        name,
        "TfBoosterMultiApply" + name,
        tuple(resources),
        tuple(scalars),
        tuple(tensors),
        tuple((a.name, op.get_attr(a.name)) for a in op.op_def.attr if a.name not in NOT_COPIED),
        (op,),
    )


def unfit(update: VariableUpdate) -> Optional[str]:
    """Why no fused op can do this update; None if one can."""
    if _compat.in_control_flow(update.anchor):
        return f"op '{update.anchor.name}' updates it inside a tf.cond or a tf.while_loop"
    dtypes = SPARSE_DTYPES if "Sparse" in update.fused_type else DTYPES
    if update.dtype not in dtypes:
        return f"its dtype is {update.dtype.name}; fused updates are for {', '.join(t.name for t in dtypes)}"
    foreign = [handle for _, handle in update.resources if handle.op.type != "VarHandleOp"]
    if foreign:
        return (
            f"its handle comes from op '{foreign[0].op.name}' ({foreign[0].op.type}), not from a Variable of this graph"
        )
    return None


def _variable_op(handle: tf.Tensor) -> tf.Operation:
    """The VarHandleOp behind what brings a handle into a branch or a loop."""
    op = handle.op
    while op.type in ("Switch", "Enter", "Identity"):
        op = op.inputs[0].op
    return op


def handles(update: VariableUpdate) -> List[Any]:
    """References of all Variables that the update writes."""
    return [handle.ref() for _, handle in update.resources]


def describe(update: VariableUpdate) -> Dict[str, Any]:
    """The start of the Variable's entry in the report."""
    op = _variable_op(update.var)
    shape = tf.TensorShape(op.get_attr("shape")) if op.type == "VarHandleOp" else None
    return {
        "name": update.variable_name,
        "shape": shape.as_list() if shape is not None and shape.rank is not None else None,
        "optimizer": update.optimizer,
        "fused_into": None,
        "reason": "",
    }
