"""Which ops compute each row of their results from the same row of their inputs, and on which conditions.

A rule takes an op and what is known of its inputs (None: the same for the whole batch, such as a constant or a Variable), and tells
what is known of its outputs, or raises NotByRow. What has no rule is not known to go by row.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.matching import integer_value
from tf_booster.passes.row_kinds import NotByRow, Rows
from tf_booster.passes.static_integers import static_integers

Given = Sequence[Optional[Any]]
Rule = Callable[[tf.Operation, Given], List[Any]]

_UNARY = """Abs AsString Bucketize Ceil Cos Elu Erf Exp Expm1 Floor Inv IsFinite IsInf IsNan LeakyRelu Log Log1p LogicalNot
Neg OnesLike PreventGradient Reciprocal RegexFullMatch Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Snapshot Softplus Softsign Sqrt
Square StaticRegexFullMatch StaticRegexReplace StopGradient StringLength StringLower StringStrip StringToHashBucket StringToHashBucketFast
StringToHashBucketStrong StringToNumber StringUpper Tan Tanh ZerosLike""".split()

_BROADCAST = """Add AddV2 AddN BiasAdd ClipByValue Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual LogicalAnd
LogicalOr Maximum Minimum Mod Mul MulNoNan NotEqual Pow RealDiv SelectV2 SquaredDifference Sub TruncateDiv TruncateMod Xdivy
Xlogy""".split()

_REDUCTIONS = "All Any EuclideanNorm Max Mean Min Prod Sum".split()

# Work that is worth fewer rows. Of the others alone nothing is made: to expand costs what they do.
HEAVY = frozenset(
    """AsString BatchMatMul BatchMatMulV2 Einsum GatherV2 LogSoftmax LookupTableFindV2 MatMul OneHot ResourceGather Softmax SparseCross
SparseCrossHashed SparseCrossV2 SparseToDense StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber
TfBoosterMultiGather TfBoosterPartitionedGather TfBoosterPoolLookups TfBoosterPrepareLookups TfBoosterTableGather TfBoosterTableProbe""".split()
)

# Their last bits may depend on how many rows there are: the kernels of products choose their blocks by it.
PRODUCTS = frozenset(["MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum"])

RULES: Dict[str, Rule] = {}


def rule(*op_types: str) -> Callable[[Rule], Rule]:
    """Registers a rule."""

    def register(function: Rule) -> Rule:
        RULES.update((op_type, function) for op_type in op_types)
        return function

    return register


def rank_of(tensor: tf.Tensor) -> int:
    """The rank of `tensor`; NotByRow where it is not static."""
    if tensor.shape.rank is None:
        raise NotByRow(f"the rank of '{tensor.name}' is not known when the graph is built")
    return tensor.shape.rank


def rows_of(op: tf.Operation, given: Given, *places: int) -> Rows:
    """What the inputs at `places` (all inputs without them) are rows of, one and the same."""
    found = {given[place] for place in places or range(len(given))}
    if len(found) != 1 or not isinstance(next(iter(found)), Rows):
        raise NotByRow("its inputs are not all rows of the same thing")
    return found.pop()


def axis_of(op: tf.Operation, axis: Optional[int], rank: int) -> int:
    """A static axis, from 0 on, that is not that of the rows."""
    if axis is None:
        raise NotByRow("its axis is not static")
    axis += rank if axis < 0 else 0
    if axis == 0:
        raise NotByRow("it goes along the rows")
    return axis


def check_same(given: Given, *places: int) -> None:
    """Raises NotByRow unless the inputs at `places` are the same for the whole batch."""
    if any(given[place] is not None and not getattr(given[place], "fixed", False) for place in places):
        raise NotByRow("an input that says how to compute depends on the features")


def items_of(tensor: tf.Tensor) -> Optional[int]:
    """How many elements a row has; None where that is not static."""
    dims = tensor.shape.as_list()[1:] if tensor.shape.rank else [None]
    return None if None in dims else math.prod(dims)


@rule(*_UNARY)
def _unary(op: tf.Operation, given: Given) -> List[Any]:
    return [rows_of(op, given)]


@rule(*_BROADCAST)
def _broadcast(op: tf.Operation, given: Given) -> List[Any]:
    rows = {kind for kind in given if kind is not None}
    if len(rows) != 1 or not isinstance(next(iter(rows)), Rows):
        raise NotByRow("its inputs are not all rows of the same thing")
    ranks = {rank_of(tensor) for tensor, kind in zip(op.inputs, given) if kind is not None}
    if len(ranks) != 1 or 0 in ranks:
        raise NotByRow("rows of one rank are broadcast against rows of another")
    rank = ranks.pop()
    for tensor, kind in zip(op.inputs, given):
        own = rank_of(tensor)
        if kind is None and (own > rank or (own == rank and tensor.shape[0] != 1)):
            raise NotByRow(f"'{tensor.name}' of shape {tensor.shape} may have a row for each example")
    if op.type == "BiasAdd" and (op.get_attr("data_format") != b"NHWC" or rank < 2 or given[1] is not None):
        raise NotByRow("its bias is not one number a column")
    return [rows.pop()]


@rule("Select")
def _select(op: tf.Operation, given: Given) -> List[Any]:
    rank = rank_of(op.inputs[1])
    if rank == 0 or rank_of(op.inputs[0]) not in (1, rank):
        raise NotByRow("its condition is one for all rows")
    return [rows_of(op, given)]


@rule("MatMul")
def _product(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1)
    if op.get_attr("transpose_a"):
        raise NotByRow("it transposes the rows")
    return [rows_of(op, given, 0)]


@rule("BatchMatMul", "BatchMatMulV2")
def _products(op: tf.Operation, given: Given) -> List[Any]:
    left, right = (rank_of(tensor) for tensor in op.inputs)
    if given[1] is None:
        if left < 3 or right != 2:
            raise NotByRow("the second matrix may be one for each example")
        return [rows_of(op, given, 0)]
    if left < 3 or left != right:
        raise NotByRow("its inputs are not of one rank of at least 3")
    return [rows_of(op, given)]


@rule("Einsum")
def _einsum(op: tf.Operation, given: Given) -> List[Any]:
    operands, result = einsum_labels(op)
    rows = {operand[:1] for operand, kind in zip(operands, given) if kind is not None}
    label = next(iter(rows))
    if len(rows) != 1 or not label or result[:1] != label:
        raise NotByRow("its rows are not along the first axis throughout")
    if any(operand.count(label) != (kind is not None) for operand, kind in zip(operands, given)):
        raise NotByRow("an input that is the same for all rows has their label, or one has it twice")
    return [rows_of(op, given, *(place for place, kind in enumerate(given) if kind is not None))]


def einsum_labels(op: tf.Operation) -> Tuple[List[str], str]:
    """The labels of the operands of an Einsum, and of its result; an ellipsis is NotByRow."""
    equation = op.get_attr("equation").decode().replace(" ", "")
    if "." in equation or "->" not in equation:
        raise NotByRow("its equation has an ellipsis")
    operands, result = equation.split("->")
    return operands.split(","), result


@rule(*_REDUCTIONS)
def _reduce(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1)
    axes = static_integers(op.inputs[1])
    for axis in [None] if axes is None else axes:
        axis_of(op, axis, rank_of(op.inputs[0]))
    return [rows_of(op, given, 0)]


@rule("ArgMax", "ArgMin")
def _argument(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1)
    axis_of(op, integer_value(op.inputs[1]), rank_of(op.inputs[0]))
    return [rows_of(op, given, 0)]


@rule("Softmax", "LogSoftmax")
def _softmax(op: tf.Operation, given: Given) -> List[Any]:
    if rank_of(op.inputs[0]) < 2:
        raise NotByRow("it goes along the rows")
    return [rows_of(op, given)]


@rule("OneHot")
def _one_hot(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1, 2, 3)
    axis_of(op, op.get_attr("axis"), rank_of(op.inputs[0]) + 1)
    if rank_of(op.inputs[0]) == 0:
        raise NotByRow("it is of a scalar")
    return [rows_of(op, given, 0)]


@rule("ResourceGather")
def _gather_of_variable(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 0)
    if op.get_attr("batch_dims") != 0 or rank_of(op.inputs[1]) == 0:
        raise NotByRow("its batch_dims is not 0, or it gathers one row for all")
    return [rows_of(op, given, 1)]


@rule("LookupTableFindV2")
def _find(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 0, 2)
    return [rows_of(op, given, 1)]
