"""The pass that computes no shapes of which only one dimension is unknown.

tf.tensordot, and with it every dense layer of a sequence, computes by some ten small ops, from the shape of what it gets, to what it
reshapes that before its product and behind it. So do gradients, which also ask whether something was broadcast and has to be
summed. With [-1, columns] for a shape a Reshape finds the one dimension itself.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.dimensions import Dimensions, product
from tf_booster.passes.fetches import executed_ops, fetches_of
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.shape_tricks import first_input, made_by
from tf_booster.passes.swallowed import waits_of

CONSTANT_SHAPE = "tf_booster/shape"  # How names of the constants begin.
_Integers = Tuple[int, ...]
_READ = ("VarHandleOp", "ReadVariableOp")  # Stateful ops that change nothing.
_ENDS = ("Rank", "Shape", "ShapeN", "Size")  # Of what they read no more than the shape counts.


class _Known(NamedTuple):
    """A shape, with -1 for what is not known, or axes. waits: ops that it waits for."""

    integers: _Integers
    waits: Tuple[tf.Operation, ...]


class KnownShapes(Pass):
    """Gives Reshapes constant shapes, and sums in gradients constant axes, where these follow from what is known of all others."""

    name = "known_shapes"
    seeks = "shapes that are computed and need not be"

    def requires(self, view: GraphView) -> bool:
        """Whether a Reshape has a shape that is no constant, or a sum such axes."""
        return any(op.inputs[1].op.type != "Const" for op in view.ops("Reshape", "Sum"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves those whose shape might not fit, which then fail as before, and those for whose shape something runs that acts or waits."""
        result = PassResult(self.name)
        found = _found(view)
        none = {op: None for op, known in found.items() if op.type == "Sum" and known == _Known((), ())}
        self._make_constant(view, {op: known for op, known in found.items() if op not in none})
        view.redirect_all([(op.outputs[0], first_input(op, none)) for op in none])
        view.supersede(list(none))
        counts = (
            (sum(1 for op in found if op.type == "Reshape"), "reshape{} to constant shapes"),
            (sum(1 for op in found if op.type == "Sum") - len(none), "sum{} along constant axes"),
            (len(none), "sum{} along no axis"),
        )
        result.changes += [f"{count} {what.format('s' * (count > 1))}" for count, what in counts if count]
        result.modified = bool(found)
        return result

    def ensures(self, view: GraphView) -> None:
        """None is left that it would change."""
        for op in _found(view):
            raise RewriteError(f"What op '{op.name}' has to know of shapes is still computed.")

    @staticmethod
    def _make_constant(view: GraphView, wanted: Dict[tf.Operation, _Known]) -> None:
        made: Dict[Any, tf.Tensor] = {}
        alike: Dict[Any, List[tf.Operation]] = {}  # Of one constant and one shape that it replaces.
        for op, known in wanted.items():
            kind = known, op.inputs[1].dtype, op.device
            if kind not in made:
                with view.inserting(op.device, known.waits):
                    made[kind] = tf.constant(known.integers, op.inputs[1].dtype, name=CONSTANT_SHAPE)
            alike.setdefault((kind, op.inputs[1].ref()), []).append(op)
            if op.type == "Reshape":
                op.outputs[0].set_shape([size if size >= 0 else None for size in known.integers])
        for (kind, _), ops in alike.items():
            view.redirect(ops[0].inputs[1], made[kind], set(ops).__contains__)


def _found(view: GraphView) -> Dict[tf.Operation, _Known]:
    """The ops to change, each with what its second input will be."""
    live = executed_ops(view)
    wanted = [op for op in view.ops(*_FOR) if op in live and _may_change(view, op)]
    if not wanted:
        return {}
    dimensions = Dimensions(live)
    known = {op: _FOR[op.type](dimensions, op) for op in wanted}
    known = _without_losses(view, live, {op: integers for op, integers in known.items() if integers is not None})
    waits = _waits(view, known)
    return {op: _Known(integers, waits[op]) for op, integers in known.items()}


def _may_change(view: GraphView, op: tf.Operation) -> bool:
    """Whether the second input is computed, and the op not in control flow or XLA's. Of constants on a GPU TensorFlow has 32 bits in the host's memory."""
    if op.inputs[1].op.type == "Const" or not view.is_plain(op):
        return False
    return op.inputs[1].dtype == tf.int32 or view.runs_on_cpu(op)


def _shape(dimensions: Dimensions, op: tf.Operation) -> Optional[_Integers]:
    """The shape that a Reshape is given, with -1 for what is not known; None where that could be another."""
    before, after = dimensions.of(op.inputs[0]), dimensions.of(op.outputs[0])
    if before is None or dimensions.elements(op.inputs[1]) is None or product(before) != product(after):
        return None
    unknown = sum(1 for _, symbols in after if symbols)
    # Where a dimension is 0, nothing follows from the number of elements.
    if unknown > 1 or any(size <= 0 for size, _ in after):
        return None
    return tuple(-1 if symbols else size for size, symbols in after)


def _axes(dimensions: Dimensions, op: tf.Operation) -> Optional[_Integers]:
    """The axes of a sum in a gradient; None where they are not known."""
    known = dimensions.integers(op.inputs[1]) if op.inputs[1].op.type == "BroadcastGradientArgs" else None
    return None if known is None or op.control_inputs or not op.outputs[0].consumers() else tuple(known)


_FOR = {"Reshape": _shape, "Sum": _axes}


def _waits(view: GraphView, found: Iterable[tf.Operation]) -> Dict[tf.Operation, Tuple[tf.Operation, ...]]:
    """What the shapes of `found` wait for beside what they are made of, but for what the ops wait for without them."""
    index = view.index()
    waits = {op: dict.fromkeys(other for before in _computing(op) for other in waits_of(before)) for op in found}
    after: List[List[int]] = [[] for _ in index.ops] if any(waits.values()) else []
    for number, before in enumerate(_without_shapes(view, waits) if after else ()):
        for other in before:
            after[other].append(number)
    behind = {other: reached([index.number[other]], after) for others in waits.values() for other in others}
    return {
        op: tuple(other for other in others if index.number[op.inputs[0].op] not in behind[other])
        for op, others in waits.items()
    }


def _without_shapes(view: GraphView, found: Iterable[tf.Operation]) -> List[Tuple[int, ...]]:
    """What each op of the graph would read and wait for if `found` did not read their shapes."""
    index = view.index()
    before = list(index.before)
    for op in found:
        number, shape = index.number[op], index.number[op.inputs[1].op]
        before[number] = tuple(other for other in before[number] if other != shape)
    return before


def _computing(op: tf.Operation) -> Dict[tf.Operation, None]:
    """The ops that compute the second input of `op` from shapes and constants."""
    return made_by([op.inputs[1]], lambda before: before.type not in _ENDS)


def _without_losses(
    view: GraphView, live: AbstractSet[tf.Operation], found: Dict[tf.Operation, _Integers]
) -> Dict[tf.Operation, _Integers]:
    """Those of `found` without whose shapes all that acts, or waits for something, still runs: it may be the shape of a checked tensor."""
    index = view.index()
    ends = [index.number[view.graph.get_operation_by_name(name)] for name in fetches_of(view).names]
    while found:
        computing = dict.fromkeys(other for op in found for other in _computing(op))
        waits = [index.number[other] for op in computing for other in waits_of(op)]
        kept = reached([*ends, *waits], _without_shapes(view, found))
        lost = [op for op in live if index.number[op] not in kept and op not in computing]
        acting = {index.number[op] for op in lost if _acts(op)}
        if not acting:
            break
        found = {op: known for op, known in found.items() if not acting & index.upstream([op.inputs[1].op])}
    return found


def _acts(op: tf.Operation) -> bool:
    return bool(op.control_inputs) or (op.op_def.is_stateful and op.type not in _READ)
