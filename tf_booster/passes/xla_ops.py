"""Which ops the pass `xla` hands to the compiler: those that compute the same there, and that raise no error of their own.

Left out on purpose, though XLA has kernels for them: random numbers (XLA draws others), gathers and sparse labels (TensorFlow
raises for an index out of range, XLA clamps it), integer division, casts to integers, resources and all that writes, checks. And on a CPU
what is made of maxima and minima: XLA's processor instruction for them gives its second operand if one is NaN.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Tuple

import tensorflow as tf

_ELEMENTWISE = """Abs Add AddN AddV2 BiasAdd BiasAddGrad Ceil ClipByValue DivNoNan Elu EluGrad Equal Erf Exp Expm1 Floor Greater
GreaterEqual Identity IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Less LessEqual Log Log1p LogicalAnd LogicalNot LogicalOr Maximum
Minimum Mul MulNoNan Neg NotEqual OnesLike Pow RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Rint Rsqrt RsqrtGrad
Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square
SquaredDifference StopGradient Sub Tanh TanhGrad Xdivy Xlogy ZerosLike""".split()

_PRODUCTS = "BatchMatMul BatchMatMulV2 Einsum L2Loss LogSoftmax MatMul Softmax SoftmaxCrossEntropyWithLogits".split()

_LAYOUT = "ExpandDims Pack Squeeze Unpack".split()

# The inputs that must be known when the op is compiled: they are Consts, or the op stays out.
_WITH_CONSTANTS: Dict[str, Tuple[int, ...]] = {
    "All": (1,),
    "Any": (1,),
    "BroadcastTo": (1,),
    "ConcatV2": (-1,),
    "ExpandDims": (1,),
    "Fill": (0,),
    "Max": (1,),
    "Mean": (1,),
    "Min": (1,),
    "Pad": (1,),
    "PadV2": (1,),
    "Prod": (1,),
    "Reshape": (1,),
    "Slice": (1, 2),
    "Split": (0,),
    "SplitV": (1, 2),
    "StridedSlice": (1, 2, 3),
    "StridedSliceGrad": (0, 1, 2, 3),
    "Sum": (1,),
    "Tile": (1,),
    "Transpose": (1,),
}

COMPILED = frozenset([*_ELEMENTWISE, *_PRODUCTS, *_LAYOUT, *_WITH_CONSTANTS, "Cast"])

# Ops that cost nothing: a cluster of nothing else is not worth a compilation.
FREE = frozenset(["Const", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"])

# Measured: max(inf, NaN) is inf, relu6(NaN) 0, the clipped NaN the lower bound, erf(NaN), which clips, -1.
_LOSE_NAN = frozenset(["ClipByValue", "Erf", "Max", "Maximum", "Min", "Minimum", "Relu6"])

_FLOATS = (tf.float32, tf.float64, tf.bfloat16, tf.float16)
_TYPES = (*_FLOATS, tf.bool, tf.int32, tf.int64)

UNKNOWN_SHAPE = "the shape of '{}' is not known when the graph is built"


def refusal(op: tf.Operation, by_row: bool = False, sizes: Sequence[int] = (), on_cpu: bool = True) -> Optional[str]:
    """Why `op`, one of COMPILED, stays out; None if it may be compiled. TensorFlow's own marks are left as they are.

    by_row: its shapes were looked at already. sizes: inputs that are constants where it is compiled. on_cpu: by XLA for
    processors.
    """
    for tensor in [*op.inputs, *op.outputs]:
        if tensor.dtype not in _TYPES:
            return f"XLA is not given tensors of type {tensor.dtype.name}"
        if not by_row and not tensor.shape.is_fully_defined():
            return UNKNOWN_SHAPE.format(tensor.name)
    for place in _WITH_CONSTANTS.get(op.type, ()):
        if op.inputs[place].op.type != "Const" and place not in sizes:
            return f"its input '{op.inputs[place].name}' would have to be a constant"
    if op.type == "Cast" and not op.outputs[0].dtype.is_floating:
        return "casts to integers of numbers that do not fit differ between TensorFlow and XLA"
    if op.type == "Pow" and not op.outputs[0].dtype.is_floating:
        return "TensorFlow raises an error for a negative power of an integer, XLA does not"
    if on_cpu and op.type in _LOSE_NAN and op.outputs[0].dtype.is_floating:
        return "XLA on a CPU makes a number of a NaN there"
    return None
