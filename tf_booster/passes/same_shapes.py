"""The pass that leaves out reshapes that change nothing, and with them what computes their shapes.

A feature column's tensor is given the shape [batch, columns] before it is joined with others. A numeric column has that shape already: Shape, StridedSlice, Pack
and Reshape of each of a hundred columns cost more than the numbers.
"""

from __future__ import annotations

from typing import Dict

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.shape_tricks import first_input, keeps_shape, waits


class SameShapes(Pass):
    """Has what reads a Reshape of the same shape read what it reshapes."""

    name = "same_shapes"
    seeks = "reshapes that change nothing"

    def requires(self, view: GraphView) -> bool:
        """Whether there is a Reshape at all."""
        return bool(view.ops("Reshape"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves those that wait for something, or are inside of control flow or compiled by XLA."""
        result = PassResult(self.name)
        found = _found(view)
        if found:
            view.redirect_all([(op.outputs[0], first_input(op, found)) for op in found])
            view.supersede(list(found))
            result.changes.append(f"{len(found)} reshape{'s' * (len(found) > 1)} to the shape that was there")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """None is left that something reads."""
        for op in _found(view):
            raise RewriteError(f"Op '{op.name}' changes nothing and is read.")


def _found(view: GraphView) -> Dict[tf.Operation, None]:
    live = executed_ops(view)
    return {op: None for op in view.ops("Reshape") if op in live and _changes_nothing(view, op)}


def _changes_nothing(view: GraphView, op: tf.Operation) -> bool:
    tensor, reshaped = op.inputs[0], op.outputs[0]
    if not reshaped.consumers() or op.control_inputs or not keeps_shape(op) or not view.is_plain(op):
        return False
    # One that knows more than its input also checks it.
    return tensor.shape.as_list() == reshaped.shape.as_list() and not waits(op.inputs[1])
