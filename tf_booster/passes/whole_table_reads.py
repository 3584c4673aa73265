"""Where a program shows a whole table, as canned models do with the fraction of weights that are zero: of the Variable that stands for the table, which has
one row, and of which TensorFlow takes constants such as its size. hash_tables answers these (variable_uses.py), and has to see all that they may have been."""

from __future__ import annotations

from typing import Any, Iterable, List, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.table_plan import STAND_IN_IDS, STAND_IN_TABLE


class WholeTableReads:
    """Of the tables of a graph that hash_tables has not seen."""

    def __init__(self, view: GraphView) -> None:
        self._handles: Set[tf.Operation] = set()
        if view.ops(STAND_IN_IDS, STAND_IN_TABLE) or registry.tables(view.graph):
            self._handles = {op for op in view.ops("VarHandleOp") if _may_stand_for_a_table(op)}
        for op in view.ops("Switch"):  # Those of a tf.cond within another come later.
            if op.inputs[0].op in self._handles:
                self._handles.add(op)
        readers = (reader for op in self._handles for output in op.outputs for reader in output.consumers())
        self._reads = [op for op in readers if op.type == "ReadVariableOp"]
        self._shown = GraphView.downstream(self._reads)

    def v1_conditions(self, switches: Iterable[tf.Operation]) -> List[tf.Tensor]:
        """The conditions of v1 tf.conds that such a read is in, or into which what it gives goes."""
        found = [op.inputs[1] for op in switches if op.inputs[0].op in self._shown]
        for op in self._reads:
            found += [context.pred for context in _compat.contexts_around(op) if _compat.is_cond_context(context)]
        return found

    def are_in(self, op: tf.Operation, branches: List[Any]) -> bool:
        """The same of the If `op` and its functions, to which it gives its inputs behind the first."""
        if any(tensor.op in self._shown for tensor in op.inputs):
            return True
        places = [place for place, tensor in enumerate(list(op.inputs)[1:]) if tensor.op in self._handles]
        for branch in branches if places else ():
            handles = {branch.signature.input_arg[place].name for place in places}
            for node in branch.node_def:
                may_read = node.op == "ReadVariableOp" or _compat.calls_functions(node.op)
                if may_read and not handles.isdisjoint(node.input):
                    return True
        return False


def _may_stand_for_a_table(op: tf.Operation) -> bool:
    shape = op.get_attr("shape")
    return not shape.unknown_rank and len(shape.dim) == 2 and shape.dim[0].size == 1
