"""What a program does with a table's gradient between the backward pass and the update, under several ranks.

Ranks exchange the gradient where it leaves the backward pass: each goes on with the rows of the keys that it owns, as the graph of the
joined batch would have them. So what treats each row by itself, such as a scaling by one number, stays as it is; what sums over all
rows, as a norm does, is added up over ranks, and whether something holds of all rows, as that they are finite, is asked of all ranks;
anything else is refused.

How rows are exchanged follows from that. Rows of one key are summed, over its lookups and ranks, if all that follows is linear in them. Otherwise
the joined batch's graph decides which rows there are: one for each distinct id of a lookup that has a Unique in front, one for each id of
another.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import raw_gradients
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView, is_superseded
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.table_uses import TablePlan

# Row by row, and linear: of one tensor; of a tensor and a number; of two tensors of rows.
_LINEAR = frozenset("Identity Neg Snapshot CheckNumerics StopGradient PreventGradient".split())
_SCALING = frozenset("Mul RealDiv DivNoNan".split())
_ADDING = frozenset("Add AddV2 Sub AddN Select SelectV2".split())

# Element by element, of one tensor or more.
_NONLINEAR = frozenset(
    "Abs Ceil ClipByValue Cos Cosh Equal Erf Exp Expm1 Floor Greater GreaterEqual IsFinite IsInf IsNan LeakyRelu Less LessEqual Log Log1p "
    "LogicalAnd LogicalNot LogicalOr Maximum Minimum MulNoNan NotEqual OnesLike Pow Reciprocal Relu Relu6 Rint Round Rsqrt Sigmoid Sign Sin "
    "Softplus Softsign Sqrt Square SquaredDifference Tanh Xdivy ZerosLike".split()
)

# Of the whole shape, or along a row.
_REDUCTIONS = frozenset("All Any Max Mean Min Prod Sum".split())

_HARMLESS = frozenset("Shape ShapeN Size Rank Print PrintV2 StringFormat".split())
_KEEP_APART = frozenset("Identity Reshape Squeeze ExpandDims TfBoosterStandInIds".split())
_UNIQUES = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of a table's gradient that travel together. by_row: as they are; otherwise rows of one key are summed."""

    indices: tf.Tensor
    values: tf.Tensor
    by_row: bool = False


@dataclasses.dataclass(frozen=True)
class TableGradient:
    """How the gradient of one table is exchanged.

    values: where it leaves the backward pass; what reads it then reads the owner's rows.
    parts: what of it is exchanged, one after the other.
    sums: ops that sum over all rows, or say whether something holds of all or any, in the order of the graph; their results are added up
      over ranks.
    local_sums: those of `sums` that go on reading this rank's own rows: sums of squares, where no lookup has a Unique.
    """

    values: tf.Tensor
    parts: Tuple[Part, ...]
    sums: Tuple[tf.Operation, ...] = ()
    local_sums: Tuple[tf.Operation, ...] = ()


def plan_gradient(view: GraphView, table: TablePlan, chain: Tuple[tf.Operation, ...]) -> TableGradient:
    """Where and how the gradient that updates `table` is exchanged.

    Args:
      view: of the graph.
      table: has an update.
      chain: the ops of the update.

    Raises:
      RewriteError: something computes with the gradient what cannot be had from the rows of one rank.
    """
    values = _raw_values(table.update.grad)
    if not raw_gradients.is_mark(values.op):
        mark = _mark_before(view, table)
        values = values if mark is None else mark
    uses = _Uses(table, values, frozenset(chain))
    whole = Part(table.update.indices, values)
    if uses.linear and not uses.sums:
        return TableGradient(values, (whole,))
    lookups = _lookups(table.update.indices, values)
    direct = all(_is_square_sum(op, values) for op in uses.sums)
    if uses.linear and direct and not any(has_unique(indices) for indices, _ in lookups):
        return TableGradient(values, (whole,), tuple(uses.sums), tuple(uses.sums))
    parts = tuple(Part(indices, rows, by_row=not has_unique(indices)) for indices, rows in lookups)
    return TableGradient(values, parts, tuple(uses.sums))


def _raw_values(grad: tf.Tensor) -> tf.Tensor:
    """Goes back from what is applied to where it left the backward pass: the mark, or else what is no op on single rows."""
    ends: List[tf.Tensor] = []
    seen: Set[object] = set()
    work = [grad]
    while work:
        tensor = work.pop()
        if tensor.ref() in seen:
            continue
        seen.add(tensor.ref())
        before = [] if raw_gradients.is_mark(tensor.op) else _rows_before(tensor.op)
        work += before
        if not before:
            ends.append(tensor)
    return next((tensor for tensor in ends if raw_gradients.is_mark(tensor.op)), ends[0])


def _mark_before(view: GraphView, table: TablePlan) -> Optional[tf.Tensor]:
    """The last mark of the table's gradient that leads to its update, over whatever ops; None without any."""
    index = view.index()
    upstream = index.upstream([table.update.grad.op])
    marks = [mark.values for mark in raw_gradients.raw_gradients(view.graph) if mark.variable is table.handle_op]
    return max((m for m in marks if index.number[m.op] in upstream), key=lambda m: index.number[m.op], default=None)


def _rows_before(op: tf.Operation) -> List[tf.Tensor]:
    """The inputs with rows of an op that treats each row by itself; none for another op."""
    if op.type in _REDUCTIONS:
        axes = tf.get_static_value(op.inputs[1])
        return [op.inputs[0]] if axes is not None and 0 not in axes.reshape(-1) % (op.inputs[0].shape.rank or 1) else []
    known = op.type in _LINEAR | _SCALING | _ADDING | _NONLINEAR
    return [tensor for tensor in op.inputs if not _is_number(tensor)] if known else []


def _is_number(tensor: tf.Tensor) -> bool:
    """Whether the same number, or row of numbers, meets every row."""
    shape = tensor.shape
    return shape.rank is not None and (shape.rank < 2 or shape[0] == 1)


class _Uses:
    """Follows `values` forward.

    linear: whether all that follows is linear in the rows, up to the sums. sums: as TableGradient's.
    """

    def __init__(self, table: TablePlan, values: tf.Tensor, chain: FrozenSet[tf.Operation]):
        self.linear = True
        self.sums: List[tf.Operation] = []
        self._table, self._chain = table, chain
        self._rows: Dict[object, None] = {values.ref(): None}
        self._mixed: List[Tuple[tf.Operation, tf.Tensor]] = []
        seen: Set[tf.Operation] = set()
        work = [values]
        while work:
            tensor = work.pop()
            for op in dict.fromkeys(tensor.consumers()):
                if op in seen and op.type not in _ADDING | _SCALING | _NONLINEAR:
                    continue
                seen.add(op)
                for output in self._visit(op, tensor):
                    if output.ref() not in self._rows:
                        self._rows[output.ref()] = None
                        work.append(output)
        for op, other in self._mixed:
            if other.ref() not in self._rows and not self._is_filled(other):
                raise self._refused(op, f"combines its rows with those of '{other.name}'")
        order = {op: place for place, op in enumerate(values.graph.get_operations())} if len(self.sums) > 1 else {}
        self.sums.sort(key=lambda op: order.get(op, 0))

    def _visit(self, op: tf.Operation, tensor: tf.Tensor) -> List[tf.Tensor]:
        """The outputs of `op` that have a row for each of the gradient's."""
        if op in self._chain or self._is_dedup(op, tensor) or op.type in _HARMLESS or _is_dead(op):
            return []
        if op.type in _LINEAR:
            return list(op.outputs)
        if op.type == "L2Loss":
            self._add_sum(op)
            return []
        if op.type in _REDUCTIONS:
            return self._visit_reduction(op)
        others = [t for t in op.inputs if t is not tensor]
        if op.type in _SCALING | _ADDING | _NONLINEAR:
            self._mixed += [(op, t) for t in others if not _is_number(t)]
            rows = sum(not _is_number(t) for t in op.inputs)
            numbers = len(op.inputs) - rows
            is_scaling = op.type in _SCALING and rows == 1 and not (op.type != "Mul" and op.inputs[0] is not tensor)
            is_choice = op.type in ("Select", "SelectV2") and _is_number(op.inputs[0]) and numbers == 1
            is_sum = op.type in _ADDING - {"Select", "SelectV2"} and numbers == 0
            self.linear = self.linear and (is_scaling or is_choice or is_sum)
            return list(op.outputs)
        if "Summary" in op.type:
            return []  # Shows this rank's rows.
        raise self._refused(op, "does not treat each of its rows by itself")

    def _visit_reduction(self, op: tf.Operation) -> List[tf.Tensor]:
        axes = tf.get_static_value(op.inputs[1])
        rank = op.inputs[0].shape.rank
        if axes is None or rank is None:
            raise self._refused(op, "reduces it over axes that are not known")
        axes = {int(axis) % rank for axis in axes.reshape(-1)}
        if 0 not in axes:
            self.linear = False
            return list(op.outputs)
        if op.type in ("Sum", "All", "Any") and len(axes) == rank:
            self._add_sum(op)
            return []
        raise self._refused(op, "takes " + ("its mean" if op.type == "Mean" else "more than a sum") + " over all rows")

    def _add_sum(self, op: tf.Operation) -> None:
        if op not in self.sums:
            self.sums.append(op)

    def _is_dedup(self, op: tf.Operation, tensor: tf.Tensor) -> bool:
        """TensorFlow's sum of duplicates, which the update does itself."""
        return op.type == "UnsortedSegmentSum" and tensor is self._table.update.grad and op.inputs[0] is tensor

    def _is_filled(self, tensor: tf.Tensor) -> bool:
        """Whether `tensor` has the same number in as many rows, as tf.ones_like makes it."""
        op = tensor.op
        return op.type == "Fill" and op.inputs[0].op.type == "Shape" and op.inputs[0].op.inputs[0].ref() in self._rows

    def _refused(self, op: tf.Operation, what: str) -> RewriteError:
        return RewriteError(
            f"Table '{self._table.name}': op '{op.name}' ({op.type}) takes the table's gradient and {what}; each rank has the rows of its "
            "own keys only. Scale the gradient, clip it (tf.clip_by_norm, tf.clip_by_global_norm, tf.clip_by_value), or start one process."
        )


def _is_dead(op: tf.Operation) -> bool:
    """Whether nothing comes of an op that only computes, or a pass has left it for fetches by name."""
    if is_superseded(op):
        return True
    return not op.op_def.is_stateful and not any(t.consumers() for t in op.outputs) and not _compat.control_outputs(op)


def _is_square_sum(op: tf.Operation, values: tf.Tensor) -> bool:
    """Whether `op` is a sum of the squares of `values`: if each rank's rows have a weight, so has its sum, squared."""

    if op.type == "L2Loss":
        return op.inputs[0] is values
    square = op.inputs[0].op
    if square.type not in ("Square", "Mul") or square.outputs[0].consumers() != [op]:
        return False
    return all(tensor is values for tensor in square.inputs)


def _lookups(indices: tf.Tensor, values: tf.Tensor) -> List[Tuple[tf.Tensor, tf.Tensor]]:
    """The gradient of each lookup: TensorFlow concatenates them."""
    at, rows = skip_identity(indices).op, skip_identity(values).op
    if at.type == "ConcatV2" and rows.type == "ConcatV2" and len(at.inputs) == len(rows.inputs):
        return list(zip(at.inputs[:-1], rows.inputs[:-1]))
    return [(indices, values)]


def has_unique(indices: tf.Tensor) -> bool:
    """Whether a lookup has a Unique in front of these codes or ids, its own or the program's, so that each occurs once."""
    seen: Optional[tf.Tensor] = None
    while indices is not seen:
        seen = indices
        if indices.op.type in _UNIQUES:
            return indices.value_index == 0
        if indices.op.type in _KEEP_APART or _widens(indices.op) or _is_key_of_string(indices.op):
            indices = indices.op.inputs[0]
    return False


def _widens(op: tf.Operation) -> bool:
    """Not a cast after which two values may be one."""
    return op.type == "Cast" and op.inputs[0].dtype.is_integer and op.inputs[0].dtype.size <= op.outputs[0].dtype.size


def _is_key_of_string(op: tf.Operation) -> bool:
    """Not a hash into buckets of the program's own, which two ids may share."""
    return op.type == "StringToHashBucketFast" and op.get_attr("num_buckets") == 2**63 - 1
