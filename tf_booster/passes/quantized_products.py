"""The pass that has products with weights computed in integers where the graph predicts. docs/design/quantized_scoring.md tells more.

A ranking model scores a thousand candidates by a few layers of some hundred columns, which is what its predictions cost. In int8 that is a third of the time,
in int16 a half. Scores are other numbers than in float32, so an option asks for it.
"""

from __future__ import annotations

import ctypes
from typing import List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import fetches_of
from tf_booster.passes.graph_view import GraphView, is_marked_for_compilation
from tf_booster.passes.layers import adds_bias, next_reader
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.named_features import features_of, trains
from tf_booster.passes.swallowed import swallowed

# Of weights [inputs, outputs]. Below, to round the inputs is what the product would be: of 1,000 rows [64, 16] takes 0.7 of TensorFlow's time, [16, 16]
# as much, and [512, 1], as logits have it, 3.6 times.
FEWEST_INPUTS, FEWEST_OUTPUTS = 64, 16

_MADE = "TfBoosterQuantizedMatMul"
_BITS = {
    "int8": "weights by column and activations by row in 8 bits",
    "int16": "weights by column and activations by row in 12 of 16 bits",
}
# Why weights are rounded at each step. Others are kept while their tensor is the same one: nothing writes to it in place while it is held.
_NOT_KEPT = {
    "VariableV2": "a reference Variable is written in place",
    "Variable": "a reference Variable is written in place",
    "ConcatV2": "their partitions are joined at each step",
    "GatherV2": "some of their rows are picked at each step",
    "Slice": "some of their rows are picked at each step",
}
_WEIGHTS = ("VarHandleOp", "Const", *_NOT_KEPT)
_wanted = "float32"


def set_wanted(precision: str) -> None:
    """The option scoring_precision, for exports: their graphs are rewritten if they have such a product."""
    global _wanted
    _wanted = precision


def is_wanted(graph: tf.Graph) -> bool:
    """Whether `graph` predicts, and has a product that the option is about."""
    if _wanted == "float32":
        return False
    view = GraphView(graph)
    found = QuantizedProducts(_wanted)
    return found.requires(view) and bool(found.units(view)[0])


class QuantizedProducts(Pass):
    """Makes one op in integers of each product with weights, its bias and its Relu; graphs that predict only."""

    name = "quantized_products"
    seeks = "product with weights in a graph that predicts"

    def __init__(self, precision: str):
        self._precision = precision

    def requires(self, view: GraphView) -> bool:
        """Whether the graph predicts, and has a product that something reads."""
        wanted = any(op.outputs[0].consumers() for op in view.ops("MatMul")) or view.functions_with("MatMul")
        return bool(wanted) and not trains(view)

    def run(self, view: GraphView) -> PassResult:
        """Leaves products of two computed matrices, small ones, and those that are fetched, on a GPU, compiled by XLA or in control flow."""
        result = PassResult(self.name)
        units, result.skipped = self.units(view)
        result.skipped += [
            (node.name, f"it is in '{name}', a tf.function or control flow, into which the pass does not look")
            for name, node in view.functions_with("MatMul").items()
        ]
        for unit in units:
            self._replace(view, unit)
            result.changes.append(_told(unit, self._precision))
        result.modified = bool(units)
        if units:
            result.other_numbers = f"{self._precision}, {_BITS[self._precision]}"
            if _level() != "avx512-vnni":
                result.changes.append(
                    f"this processor has no AVX-512 VNNI: in {self._precision} they take as long as in float32 here"
                )
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)

    def units(self, view: GraphView) -> Tuple[List[Unit], List[Tuple[str, str]]]:
        """The layers to replace, and why others are left."""
        fetched = set(fetches_of(view).names) | features_of(view).also_fetched
        found: List[Unit] = []
        skipped: List[Tuple[str, str]] = []
        for op in view.ops("MatMul"):
            layer = _layer(op, fetched)
            if view.is_superseded(op) or not layer[-1].outputs[0].consumers():
                continue
            reason = _why_not(view, op, fetched)
            if reason:
                skipped.append((op.name, reason))
            else:
                found.append(Unit(layer, op.name))
        groups, refused = merge_groups(view, found)
        skipped += [(unit.ops[0].name, reason) for unit, reason in refused]
        return [unit for group in groups for unit in group], skipped

    def _replace(self, view: GraphView, unit: Unit) -> None:
        product, last = unit.ops[0], unit.ops[-1]
        biases = [op.inputs[1] for op in unit.ops if op.type not in ("MatMul", "Relu")]
        weights = product.inputs[1]
        gone = swallowed([last], [product.inputs[0], weights, *biases])
        with view.inserting(product.device, gone.control_inputs):
            made = _native.ops().tf_booster_quantized_mat_mul(
                a=product.inputs[0],
                b=weights,
                bias=biases,
                transpose_b=product.get_attr("transpose_b"),
                relu=last.type == "Relu",
                precision=self._precision,
                keep_weights=_origin(weights).type not in _NOT_KEPT,
                name="tf_booster/quantized_product",
            )
        for op in unit.ops[:-1]:
            view.redirect(op.outputs[0], made, lambda reader: reader.type == "Shape")  # It is the same for all.
        view.redirect_all([(last.outputs[0], made)])
        view.stand_in(made.op, unit.ops)


def _why_not(view: GraphView, op: tf.Operation, fetched: Set[str]) -> str:
    """Why the product `op` stays in float32; "" if it need not."""
    weights = op.inputs[1]
    if op.outputs[0].dtype != tf.float32:
        return f"it is {op.outputs[0].dtype.name}; products of float32 are made integers"
    if op.get_attr("transpose_a"):
        return "its first matrix is transposed, so that its rows are no examples"
    origin = _origin(weights)
    if origin.type not in _WEIGHTS or not _is_of_weights(origin):
        return f"its second matrix is no weights: it is computed, by a {origin.type}"
    if not weights.shape.is_fully_defined():
        return f"the shape {weights.shape} of its weights is not known when the graph is built"
    inputs, outputs = weights.shape.as_list()[:: -1 if op.get_attr("transpose_b") else 1]
    if inputs < FEWEST_INPUTS or outputs < FEWEST_OUTPUTS:
        return f"its weights are [{inputs}, {outputs}]; integers are faster from {FEWEST_INPUTS} inputs and {FEWEST_OUTPUTS} outputs on"
    if op.name in fetched:
        return "it is fetched itself, under its own name"
    if not view.runs_on_cpu(op):
        return "it runs on a GPU, for which there is no kernel in integers"
    if is_marked_for_compilation(op):
        return "XLA compiles it"
    return view.elsewhere(op)


def _origin(weights: tf.Tensor) -> tf.Operation:
    """The op that holds the Variable or constant which `weights` is the value of; another op where it is none."""
    op = skip_identity(weights).op
    return op.inputs[0].op if op.type == "ReadVariableOp" else op


def _is_of_weights(origin: tf.Operation) -> bool:
    """Whether what is joined or picked, if anything is, are partitions of a Variable, or rows of one by constant numbers (pass split_matmul)."""
    held = ("VarHandleOp", "VariableV2", "Variable")
    if origin.type == "ConcatV2":
        return all(_origin(part).type in held for part in list(origin.inputs)[:-1])
    if origin.type in ("GatherV2", "Slice"):
        numbers = list(origin.inputs)[1:]
        return _origin(origin.inputs[0]).type in (*held, "Const") and all(t.op.type == "Const" for t in numbers)
    return True


def _layer(op: tf.Operation, fetched: Set[str]) -> Tuple[tf.Operation, ...]:
    """The product `op`, and what follows it up to an op that is fetched, which has to go on under its own name."""
    ops = [op]
    bias = next_reader(op, lambda after: adds_bias(after, op) and after.name not in fetched)
    if bias is not None:
        ops.append(bias)
    relu = next_reader(ops[-1], lambda after: after.type == "Relu" and after.name not in fetched)
    return tuple(ops) if relu is None else (*ops, relu)


def _told(unit: Unit, precision: str) -> str:
    """A line of the report."""
    ops = unit.ops
    inputs, outputs = ops[0].inputs[1].shape.as_list()[:: -1 if ops[0].get_attr("transpose_b") else 1]
    parts = ["its Relu" if op.type == "Relu" else "its bias" for op in ops[1:]]
    because = _NOT_KEPT.get(_origin(ops[0].inputs[1]).type)
    with_parts = f", with {' and '.join(parts)}" if parts else ""
    at_each = f"; its weights are rounded at each step, because {because}" if because else ""
    return f"'{ops[0].name}' [{inputs}, {outputs}] in {precision}{with_parts}{at_each}"


def _level() -> str:
    """The instructions that products in integers use on this machine."""
    level = ctypes.CDLL(_native.shared_object()).tf_booster_quantized_level
    level.restype = ctypes.c_char_p
    found: Optional[bytes] = level()
    return (found or b"").decode()
