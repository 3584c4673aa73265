"""Finds updates that a program has put together of elementwise ops, as BERT's Adam with decay of the weights, Keras's RMSprop and Nadam, or a decay
of weights beside an optimizer, and writes them down as formulas that one op runs for many Variables.

A formula's arrays are the Variables that the same ops write, such as a weight and its moments. What no elementwise op computes, and what others read
as well, the formula takes as it is: it is an input of the fused op.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.formula_order import Order, Running, reads
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.variable_update_matching import DTYPES, VariableUpdate

FORMULA = "TfBoosterMultiApplyFormula"
WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")

_BINARY = ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")
_UNARY = ("Neg", "Abs", "Sign", "Square", "Sqrt", "Rsqrt")
_CHANGES = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
# As in cc/core/optimizer/formula.h.
_MOST_ARRAYS, _MOST_TENSORS, _MOST_NUMBERS, _MOST_OPERATIONS = 6, 6, 24, 32
_PAYS_ALONE = 3  # Operations on one Variable.
_LARGEST = 200  # Ops, reads and Identities among them.

# What says nothing of a Variable's value.
_NEITHER = ("VarIsInitializedOp", "VariableShape", "DisableCopyOnRead")


def candidates(view: GraphView) -> List[tf.Operation]:
    """The ops that write to a Variable what an elementwise op has computed, initial values among them. Cheap."""
    return [op for op in view.ops(*WRITES) if _is_candidate(op) and not view.is_superseded(op)]


def match_formulas(
    view: GraphView, assigns: Sequence[tf.Operation], left_over: AbstractSet[str]
) -> Tuple[List[VariableUpdate], List[Tuple[tf.Operation, str]]]:
    """The formulas that `assigns`, of candidates(), belong to; and those of them that are in none, with the reason.

    left_over: names of ops that passes have replaced.
    """
    found: List[VariableUpdate] = []
    left: List[Tuple[tf.Operation, str]] = []
    order, running = Order(view, assigns), Running(view, left_over)
    for group in _groups(assigns, order):
        update = None
        while group and update is None:
            formula = _Formula(view, group, order, running)
            # What others read, too, is computed anyway: writing it is left to TensorFlow's op.
            read = formula.computed_elsewhere()
            left += [(op, f"other ops than those of its update read what op '{op.name}' writes") for op in read]
            group = [op for op in group if op not in read]
            if not read:
                reason = formula.unfit()
                if reason:
                    left += [(op, reason) for op in group]
                    break
                update = formula.update()
        if update is not None:
            found.append(update)
    return found, left


def _is_candidate(op: tf.Operation) -> bool:
    handle = op.inputs[0].op
    if handle.type != "VarHandleOp" or handle.get_attr("dtype") not in DTYPES or _compat.in_control_flow(op):
        return False
    shape = _shape(op)
    if not shape.is_fully_defined() or not shape.rank:
        return False
    return op.type in _CHANGES or _is_elementwise(skip_identity(op.inputs[1]).op, shape)


def _shape(assign: tf.Operation) -> tf.TensorShape:
    return tf.TensorShape(assign.inputs[0].op.get_attr("shape"))


def _is_elementwise(op: tf.Operation, shape: tf.TensorShape) -> bool:
    """Whether `op` is one of a formula for Variables of this shape: of tensors like them, and numbers."""
    if op.type not in _BINARY + _UNARY or _compat.in_control_flow(op):
        return False
    return op.outputs[0].shape == shape and all(t.shape == shape or t.shape.rank == 0 for t in op.inputs)


def _leads_on(op: tf.Operation, shape: tf.TensorShape) -> bool:
    """Whether `op` may be inside of a formula: an elementwise op, or what passes on what one gives."""
    return (op.type == "Identity" and op.inputs[0].shape == shape) or _is_elementwise(op, shape)


def _is_number(op: tf.Operation) -> bool:
    """Whether `op` is a constant that may wait for one of the assigns, as those do that are made behind one."""
    return op.type == "Const" and bool(op.control_inputs) and op.outputs[0].shape.rank == 0


def _groups(assigns: Sequence[tf.Operation], order: Order) -> List[List[tf.Operation]]:
    """The assigns that belong together: the same ops lead to them, or to one of them what another one writes."""
    parent = {op: op for op in assigns}

    def top(op: tf.Operation) -> tf.Operation:
        while parent[op] is not op:
            parent[op] = op = parent[parent[op]]
        return op

    writer = {assign.inputs[0].op: assign for assign in assigns}
    owner: Dict[tf.Operation, tf.Operation] = {}
    for assign in assigns:
        shape = _shape(assign)
        stack, seen = [assign.inputs[0].op, assign.inputs[1].op], set()
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if op.type == "ReadVariableOp":
                handle = op.inputs[0].op
                if handle in writer and order.is_at_once(op, writer[handle]):
                    stack.append(handle)
                continue
            if op.type != "VarHandleOp" and not _leads_on(op, shape):
                continue
            other = top(owner.setdefault(op, assign))
            if other is not top(assign):
                parent[other] = top(assign)
            stack += [t.op for t in op.inputs]
    groups: Dict[tf.Operation, List[tf.Operation]] = {}
    for assign in assigns:
        groups.setdefault(top(assign), []).append(assign)
    return list(groups.values())


class _Formula:
    """What some assigns write, as a formula."""

    def __init__(self, view: GraphView, assigns: Sequence[tf.Operation], order: Order, running: Running):
        key = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES
        self._assigns = sorted(assigns, key=lambda op: not view.in_collection(key, op.inputs[0].op))
        self._order, self._running = order, running
        self._writer = {assign.inputs[0].op: assign for assign in self._assigns}
        self._array = {handle: k for k, handle in enumerate(self._writer)}
        self._shape = _shape(self._assigns[0])
        self._inside = self._find_inside()
        self._numbers: Dict[object, Union[tf.Tensor, float]] = {}
        self._tensors: Dict[object, tf.Tensor] = {}
        self._operations: List[Tuple[str, Tuple[object, ...]]] = []
        self._value_of: Dict[tf.Operation, object] = {}
        self._reads: Dict[tf.Operation, None] = {}
        self._waits: Dict[tf.Operation, None] = {}
        self._odd = ""

    def computed_elsewhere(self) -> List[tf.Operation]:
        """The assigns of what is no operation of the formula."""
        return [
            op for op in self._assigns if op.type not in _CHANGES and skip_identity(op.inputs[1]).op not in self._inside
        ]

    def unfit(self) -> str:
        """Why this cannot be a formula; "" if it can."""
        if len(self._writer) < len(self._assigns):
            return "several ops write it"
        if len(self._assigns) > _MOST_ARRAYS:
            return f"its update writes {len(self._assigns)} Variables together, more than {_MOST_ARRAYS}"
        devices = list(dict.fromkeys(handle.device for handle in self._writer))
        if len(devices) > 1:
            return f"its update writes Variables on several devices: {', '.join(repr(device) for device in devices)}"
        if len(self._inside) > _LARGEST:
            return f"its update is of more than {_MOST_OPERATIONS} operations"
        for handle, assign in self._writer.items():
            reason = self._odd_user(handle, assign)
            if reason:
                return reason
        for assign in self._assigns:
            self._written(assign)
        if self._odd:
            return self._odd
        counts = (
            (len(self._tensors), _MOST_TENSORS, "tensors"),
            (len(self._numbers), _MOST_NUMBERS, "numbers"),
            (len(self._operations), _MOST_OPERATIONS, "operations"),
        )
        for count, most, what in counts:
            if count > most:
                return f"its update is of {count} {what}, more than {most}"
        return ""

    def _odd_user(self, handle: tf.Operation, assign: tf.Operation) -> str:
        """Whose writes and reads of the Variable speak against one op that reads it late and writes it at once."""
        for op in handle.outputs[0].consumers():
            if op is assign or op.type in _NEITHER or not self._running.may(op):
                continue
            if not reads(op):
                if not self._order.is_behind(op, assign):
                    return f"op '{op.name}' writes it, too"
            elif self._running.may_read(op) or op in self._inside:
                # Whether TensorFlow reads it before or behind is open, and may change.
                if not self._order.is_before(op, assign) and not self._order.is_behind(op, assign):
                    return f"op '{op.name}' reads it, in no order with its update"
        return ""

    def update(self) -> VariableUpdate:
        """The formula, once unfit() has found no fault."""
        if not self._numbers:
            self._numbers[None] = 0.0  # The op takes one at least, by which it knows its type.
        leaves = [("array", k) for k in range(len(self._assigns))]
        leaves += [("tensor", ref) for ref in self._tensors] + [("number", ref) for ref in self._numbers]
        place = {leaf: i for i, leaf in enumerate(leaves)}
        place.update((("operation", i), len(leaves) + i) for i in range(len(self._operations)))
        ops = [*self._assigns, *(op for op in self._inside if op not in self._assigns)]
        inside = set(ops)
        self._waits.update(dict.fromkeys(c for op in ops for c in op.control_inputs if c not in inside))
        # Who reads a Variable for others as well, reads it before it changes.
        self._waits.update(dict.fromkeys(op for op in self._reads if op not in inside))
        return VariableUpdate(
            "Formula",
            FORMULA,
            tuple((f"var#{k}", handle.outputs[0]) for k, handle in enumerate(self._writer)),
            tuple((f"number#{k}", number) for k, number in enumerate(self._numbers.values())),
            tuple((f"tensor#{k}", tensor) for k, tensor in enumerate(self._tensors.values())),
            (
                ("operations", tuple(name for name, _ in self._operations)),
                ("operands", tuple(place[value] for _, operands in self._operations for value in operands)),
                ("results", tuple(place[self._value_of[assign]] for assign in self._assigns)),
            ),
            tuple(ops),
            tuple(self._waits),
            several=len(self._operations) >= _PAYS_ALONE,
        )

    def _find_inside(self) -> Dict[tf.Operation, None]:
        """The assigns and the ops that lead to them alone: elementwise ones, and reads of what the assigns write."""
        assigns = set(self._assigns)
        found: Dict[tf.Operation, None] = dict.fromkeys(self._assigns)
        stack = [op.inputs[1].op for op in self._assigns]
        while stack and len(found) <= _LARGEST:
            op = stack.pop()
            if op in found:
                continue
            if _leads_on(op, self._shape):
                found[op] = None
                stack += [t.op for t in op.inputs]
            elif op.type == "ReadVariableOp" and self._is_read(op):
                found[op] = None
            elif _is_number(op):
                found[op] = None
        work = list(found)
        while work:
            op = work.pop()
            if op not in found or op in assigns:
                continue
            if any(self._running.may(reader) and reader not in found for t in op.outputs for reader in t.consumers()):
                del found[op]
                work += [t.op for t in op.inputs]
        # What assign() and its like give back, of which nothing is used.
        results = [(op, assign) for assign in self._assigns for op in GraphView.control_outputs(assign)]
        found.update(dict.fromkeys(op for op, assign in results if self._is_unread_result(op, assign)))
        return found

    def _is_unread_result(self, op: tf.Operation, assign: tf.Operation) -> bool:
        """Whether `op` reads for nobody what `assign` has written, and waits for nothing more than that."""
        if op.type != "ReadVariableOp" or op.inputs[0] is not assign.inputs[0]:
            return False
        if op.outputs[0].consumers() or GraphView.control_outputs(op):
            return False
        return all(other is assign or self._order.is_before(other, assign) for other in op.control_inputs)

    def _is_read(self, op: tf.Operation) -> bool:
        """Whether `op` reads one of the formula's arrays, before it is written or right after."""
        handle = op.inputs[0].op
        return (
            handle in self._writer
            and op.outputs[0].dtype == handle.get_attr("dtype")
            and self._order.is_at_once(op, self._writer[handle])
        )

    def _written(self, assign: tf.Operation) -> object:
        if assign not in self._value_of:
            value = self._value(assign.inputs[1])
            if assign.type in _CHANGES:
                array = ("array", self._array[assign.inputs[0].op])
                value = self._operation(_CHANGES[assign.type], (array, value))
            self._value_of[assign] = value
        return self._value_of[assign]

    def _value(self, tensor: tf.Tensor) -> object:
        """What stands for `tensor` in the formula: an array, a tensor or a number that it gets, or one of its operations."""
        tensor = skip_identity(tensor)
        op = tensor.op
        if op.type == "ReadVariableOp" and self._is_read(op):
            assign = self._writer[op.inputs[0].op]
            if assign in op.control_inputs:
                return self._written(assign)
            self._reads[op] = None
            return ("array", self._array[op.inputs[0].op])
        if op in self._inside and op.type != "Const":
            if op not in self._value_of:
                self._value_of[op] = self._operation(op.type, tuple(self._value(t) for t in op.inputs))
            return self._value_of[op]
        ref = tensor.ref()
        if tensor.shape.rank == 0:
            inside = op in self._inside
            self._numbers[ref] = float(tf.make_ndarray(op.get_attr("value"))) if inside else tensor
            return ("number", ref)
        if tensor.shape == self._shape:
            self._tensors[ref] = tensor
            return ("tensor", ref)
        self._odd = f"its update adds '{op.name}' of shape {tensor.shape} to it, whose own is {self._shape}"
        return ("tensor", ref)

    def _operation(self, name: str, operands: Tuple[object, ...]) -> object:
        self._operations.append((name, operands))
        return ("operation", len(self._operations) - 1)
