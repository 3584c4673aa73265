"""The pass for lr_scaling="linear": learning rates are multiplied by the number of ranks, step by step while training warms up.

Every optimizer's update is linear in its rate, so either the scalar that enters the op that applies is multiplied, or the step that a chain
of ops ends in. The program's own schedule, its summaries and its Variables stay as they are.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import UPDATE, restores, updating_calls
from tf_booster.passes.graph_view import GraphView, removed_variables, update_input
from tf_booster.passes.moving_average_matching import MOVING_AVERAGE

_JUDGED = ("tf_booster", "judged_rates")
_ARGUMENTS = ("lr", "alpha")  # Gradient descent calls its rate alpha, and so does what is left of Adam's for rows.
_STEPS = {"ResourceScatterAdd": 2, "ResourceScatterSub": 2, "AssignSubVariableOp": 1, "AssignAddVariableOp": 1}


class LearningRate(Pass):
    """Scales the updates of trained Variables and tables.

    Args:
      size: how many ranks there are.
      warmup_steps: of global_step, over which the factor grows from 1 to `size`; 0 for `size` from the beginning.
    """

    name = "learning_rate"
    seeks = "update with a learning rate"
    essential = True  # Training at another rate than was asked for would look like any other.

    def __init__(self, size: int, warmup_steps: int = 0):
        self._size, self._warmup_steps = size, warmup_steps

    def requires(self, view: GraphView) -> bool:
        """Whether there is an update that no run of this pass has looked at, in a graph that trains."""
        return self._size > 1 and bool(_updates(view))

    def run(self, view: GraphView) -> PassResult:
        """Raises RewriteError where training warms up without a global_step."""
        result = PassResult(self.name)
        places, left = [], []
        updates = _updates(view)
        for op in updates:
            place = _place(op)
            (left if place is None else places).append(place or op)
        factors = self._factors(view, {op.inputs[i].dtype.base_dtype for op, i in places})
        scaled: Dict[Tuple[object, bool], tf.Tensor] = {}
        for op, i in places:
            old = op.inputs[i]
            if old.ref() not in scaled:
                with view.inserting(None):
                    scaled[old.ref()] = tf.multiply(old, factors[old.dtype.base_dtype], name="tf_booster/learning_rate")
            update_input(op, i, scaled[old.ref()])
        for op in updates:
            view.add_to_collection(_JUDGED, op.name)
        for op in [*left, *updating_calls(view)]:
            reason = f"its learning rate is not found ({op.type}), so it is not multiplied by the {self._size} ranks"
            result.skipped.append((op.name, reason))
            log.once(f"op '{op.name}': {reason}")
        result.modified = bool(places)
        if places:
            over = f", over {self._warmup_steps} steps" if self._warmup_steps else ""
            result.changes.append(f"the learning rates of {len(places)} updates are multiplied by {self._size}{over}")
        return result

    def ensures(self, view: GraphView) -> None:
        """Every update was looked at."""
        if _updates(view):
            raise RewriteError("An update was not looked at.")

    def _factors(self, view: GraphView, dtypes: set) -> Dict[tf.DType, tf.Tensor]:
        with view.inserting(None):
            factor = tf.constant(float(self._size))
            if self._warmup_steps:
                step = tf.compat.v1.train.get_global_step(view.graph)
                if step is None:
                    raise RewriteError(
                        f"warmup_steps is {self._warmup_steps}, but the graph has no global_step to count by; make one with "
                        "tf.compat.v1.train.create_global_step(), and have the optimizer count it."
                    )
                done = tf.minimum(tf.cast(step, tf.float32) / float(self._warmup_steps), 1.0)
                factor = 1.0 + (self._size - 1.0) * done
            return {dtype: tf.cast(factor, dtype) for dtype in dtypes}


def _updates(view: GraphView) -> List[tf.Operation]:
    """The ops that train: those that apply by a rate, and what else writes a Variable that has a marked gradient."""
    trained = {mark.variable for mark in raw_gradients(view.graph)}
    if not trained:
        return []
    left = set(view.graph.get_collection(_JUDGED)) | _replaced(view)
    gone = set(removed_variables(view.graph))
    index, initial = view.index(), view.upstream_of_initializers()
    found = []
    for op_type in [t for t in index.types() if UPDATE.fullmatch(t) and t != MOVING_AVERAGE]:
        is_apply = "Apply" in op_type
        for op in index.of_types([op_type]):
            if op.name in left or index.number[op] in initial or not op.inputs or op.inputs[0].op.name in gone:
                continue
            if view.is_superseded(op):
                continue
            if is_apply or (op.inputs[0].op in trained and not restores(op) and not _is_received(op)):
                found.append(op)
    return found


def _place(op: tf.Operation) -> Optional[Tuple[tf.Operation, int]]:
    """(op, index) of the input that `op`'s step is proportional to; None where none is known."""
    if _compat.in_control_flow(op):
        return None
    if "Apply" in op.type:
        index = 0
        for argument in op.op_def.input_arg:
            if argument.name in _ARGUMENTS:
                return op, index
            index += op.get_attr(argument.number_attr) if argument.number_attr else 1
        return None
    if op.type in _STEPS:
        return op, _STEPS[op.type]
    value = op.inputs[1].op if len(op.inputs) > 1 else op
    if (
        value.type == "Sub"
        and value.inputs[0].op.type == "ReadVariableOp"
        and value.inputs[0].op.inputs[0].op is op.inputs[0].op
    ):
        return value, 1
    return None


def _is_received(op: tf.Operation) -> bool:
    """Whether it is the broadcast of initial values."""
    return op.name.startswith("tf_booster/other/")


def _replaced(view: GraphView) -> set:
    types = [t for t in view.index().types() if t.startswith("TfBooster") and "Apply" in t]
    return {name for op in view.ops(*types) for name in view.originals(op)}
