"""Which ops of a graph go by row and may be compiled for a padded batch; the rules of row_rules.py and row_layouts.py, on whatever has rows.

Rows are those of any tensor whose first dimension is unknown. That all of a cluster have one number of them is not known when the graph
is built: TfBoosterPadRows looks at each run, and where they differ TensorFlow's ops run.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, List, Optional, Sequence, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView, is_marked_for_compilation
from tf_booster.passes.row_kinds import BATCH, BATCH_ROWS, Fixed, NotByRow, Rows, Sizes
from tf_booster.passes.row_rules import PRODUCTS
from tf_booster.passes.row_sizes import outputs_of
from tf_booster.passes.xla_ops import COMPILED, refusal

# Measured: towers of products took 1.0 to 2 times as long in XLA, rows of 128 to 512 through Softmax 1.4 to 2 times.
_SLOWER = PRODUCTS | {"LogSoftmax", "Softmax"}
_IS_SLOWER = "TensorFlow's kernels of products and of softmax are faster on a CPU than XLA's"
_ON_A_CARD = "it runs on a GPU, where padding has no kernels yet"


@dataclasses.dataclass
class RowOps:
    """candidates: the ops that may be compiled. kinds: what is known of tensors, by ref. reasons: why ops with rows stay out -> these."""

    candidates: Set[tf.Operation] = dataclasses.field(default_factory=set)
    kinds: Dict[Any, Any] = dataclasses.field(default_factory=dict)
    reasons: Dict[str, List[tf.Operation]] = dataclasses.field(default_factory=dict)

    def rows(self, tensor: tf.Tensor) -> Optional[Rows]:
        """What `tensor` has rows of; None if it has none, or another shape at each run for another reason."""
        kind = self.kinds.get(tensor.ref())
        if kind is None and tensor.shape.rank and tensor.shape[0] is None:
            kind = BATCH_ROWS
        return kind if isinstance(kind, Rows) else None

    def reads_size(self, op: tf.Operation, place: int) -> bool:
        """Whether this input of the candidate `op` is a shape made of the number of rows; a compiled Reshape has -1 in its place."""
        return op.type == "Reshape" and place == 1 and isinstance(self.kinds.get(op.inputs[1].ref()), Sizes)

    def items(self, op: tf.Operation) -> int:
        """How many numbers the candidate `op` looks at or makes for a row of the batch, whichever is more."""
        return max(row_items(t) * self.rows(t).times for t in [*op.inputs, *op.outputs] if self.rows(t) is not None)


def row_items(tensor: tf.Tensor) -> int:
    """The elements of a row of `tensor`, whose shape is static but for the number of rows."""
    return math.prod(tensor.shape.as_list()[1:])


def find_row_ops(view: GraphView, order: Sequence[tf.Operation]) -> RowOps:
    """Looks at the live ops `order`, each behind what it reads."""
    found, index, initial = RowOps(), view.index(), view.upstream_of_initializers()
    for op in order:
        kinds = _kinds(found, op)
        if kinds is None:
            continue
        for output, kind in zip(op.outputs, kinds):
            found.kinds[output.ref()] = kind
        if op.type not in COMPILED or not any(found.rows(tensor) for tensor in op.outputs):
            continue
        if index.number[op] in initial or view.is_superseded(op) or is_marked_for_compilation(op):
            continue
        reason = _refusal(view, found, op)
        if reason is None:
            found.candidates.add(op)
        else:
            found.reasons.setdefault(reason, []).append(op)
    return found


def _kinds(found: RowOps, op: tf.Operation) -> Optional[List[Any]]:
    """What is known of the outputs by the kinds of inputs; None if that is nothing."""
    given = [found.rows(t) or found.kinds.get(t.ref()) for t in op.inputs]
    given = [None if isinstance(kind, Fixed) else kind for kind in given]
    if all(kind is None for kind in given) or _compat.is_stateful(op.type):
        return None
    try:
        if _compat.in_control_flow(op):
            raise NotByRow("it is inside a tf.cond or a tf.while_loop")
        kinds = outputs_of(op, given)
    except NotByRow as error:
        if op.type in COMPILED and any(isinstance(kind, Rows) for kind in given):
            found.reasons.setdefault(str(error), []).append(op)
        return None
    return kinds if all(kind.base == BATCH for kind in kinds if isinstance(kind, Rows)) else None


def _refusal(view: GraphView, found: RowOps, op: tf.Operation) -> Optional[str]:
    """Why `op`, which goes by row, stays out of clusters; None if it may be compiled."""
    if op.type in _SLOWER:
        return _IS_SLOWER
    if not view.runs_on_cpu(op):
        return _ON_A_CARD
    if view.elsewhere(op):
        return view.elsewhere(op)
    if op.control_inputs:
        return "it waits for other ops"
    for place, tensor in enumerate(op.inputs):
        if found.rows(tensor) is None and not found.reads_size(op, place) and not tensor.shape.is_fully_defined():
            return "an input has a shape that is not known when the graph is built"
    for tensor in [*op.inputs, *op.outputs]:
        rows = found.rows(tensor)
        if rows is not None and tensor.shape[0] is not None:
            return "its number of rows is static"  # And may stand in the constants of others.
        if rows is not None and (rows.times is None or None in tensor.shape.as_list()[1:]):
            return "the shape of a row is not known when the graph is built"
    if op.type == "Reshape" and not _keeps_rows(found, op):
        return "the sizes of its rows are not static"
    return refusal(op, by_row=True, sizes=[place for place in range(len(op.inputs)) if found.reads_size(op, place)])


def _keeps_rows(found: RowOps, op: tf.Operation) -> bool:
    """Whether what the Reshape makes of all elements is known: [-1, …] gives it of a padded batch, too."""
    before, after = op.inputs[0], op.outputs[0]
    elements = row_items(before) * found.rows(before).times
    return elements > 0 and elements == row_items(after) * found.rows(after).times
