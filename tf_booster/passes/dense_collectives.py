"""The pass that sums the gradients of replicated Variables over ranks. docs/design/several_ranks.md tells how and why."""

from __future__ import annotations

from typing import List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import log
from tf_booster.parallel import collectives, initial_values, ranks
from tf_booster.parallel.gradient_sums import Reduction, gather_slices, reduce_dense, sum_row_weights
from tf_booster.parallel.loss_reduction import AVERAGE, SUM, loss_reduction
from tf_booster.parallel.raw_gradients import RawGradient, raw_gradients
from tf_booster.parallel.regularisers import gradients_of, regularisers, value_of
from tf_booster.parallel.row_weights import RowWeights, register_sums, row_weights, summed_row_weights
from tf_booster.parallel.told_loss import told_loss
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.gradient_plan import GradientPlan, distinct_indices, gradients_in_functions, plan_gradients
from tf_booster.passes.graph_view import GraphView, removed_variables

_JUDGED = ("tf_booster", "judged_gradients")
_UNSENT = (tf.string, tf.resource, tf.variant)
_BROADCASTS = ("HorovodBroadcast", "HorovodBroadcastInplace", "HorovodBroadcastInplaceResource")


class DenseCollectives(Pass):
    """Sums each train op's gradients over ranks by one all-reduce, those of sparse lookups by one all-gather, before the program
    clips them; and has rank 0's Variables broadcast when a session begins.

    Args:
      size: how many ranks there are; nothing is done for one.
      gradient_reduction: "average" or "sum", for losses that no canned head made.
    """

    name = "dense_collectives"
    seeks = "gradient to sum over ranks"
    essential = True  # Ranks that go on without it would each train a model of its own.

    def __init__(self, size: int, gradient_reduction: str = AVERAGE):
        self._size, self._option = size, gradient_reduction

    def requires(self, view: GraphView) -> bool:
        """Whether the graph has marked gradients that no run of this pass has looked at, or some where it cannot."""
        judged = set(view.graph.get_collection(_JUDGED))
        unjudged = any(mark.values.name not in judged for mark in raw_gradients(view.graph))
        return self._size > 1 and (unjudged or bool(gradients_in_functions(view)))

    def run(self, view: GraphView) -> PassResult:
        """Raises RewriteError, before any edit, for a gradient inside of control flow."""
        result = PassResult(self.name)
        plan = plan_gradients(view)
        for mark in raw_gradients(view.graph):
            view.add_to_collection(_JUDGED, mark.values.name)
        how = loss_reduction(view.graph, self._option)
        if how.inexact:
            result.skipped.append(("loss", f"{how.inexact}; {self._size} ranks do not give the numbers of one process"))
        reduction = Reduction(how.kind, self._size, row_weights(view.graph))
        told = _told_loss(view, plan)
        if _waits_for_sparse(view, plan):  # For which the row weights' sums cannot come with the dense gradients.
            self._row_sums(view, reduction)
        for group in plan.dense:
            self._reduce(view, plan, group, reduction, told if group is plan.dense[-1] else None, result)
        sums = self._row_sums(view, reduction)
        for group in plan.sparse:
            self._gather(view, plan, group, reduction, sums, result)
        if result.changes:
            verb = "averaged, weighted by rows" if reduction.weights else "averaged"
            result.changes.append(f"gradients are {verb if how.kind == AVERAGE else 'summed'}: {how.said_by}")
            result.modified = True
        if reduction.weights is not None and plan.trained_by_user:
            self._leave_out_ended(view, plan, reduction.weights, result)
        if plan.trains:
            self._broadcast(view, plan, result)
        result.skipped += _inexact(view, plan)
        _tell_users_own(plan, result)
        return result

    def _reduce(
        self,
        view: GraphView,
        plan: GradientPlan,
        group: List[RawGradient],
        reduction: Reduction,
        told: Optional[tf.Tensor],
        result: PassResult,
    ) -> None:
        readers = [_readers(view, plan, mark.values) for mark in group]
        constant = self._constant_parts(view, group) if reduction.kind == SUM else [None] * len(group)
        values = [mark.values for mark in group]
        if told is not None:
            # The loss goes along, as one number more.
            values.append(told.op.inputs[0])
            with view.inserting(None), collectives.scope("dense"):
                constant.append(value_of(regularisers(view, values[-1]), values[-1]) if reduction.kind == SUM else None)
        with view.inserting(None), collectives.scope("dense"):
            own = [value if part is None else value - part for value, part in zip(values, constant)]
            reduced, sums = reduce_dense(own, reduction)
            reduced = [new if part is None else new + part for new, part in zip(reduced, constant)]
        if sums is not None and summed_row_weights(view.graph) is None:
            register_sums(view.graph, sums)
        for mark, new, of_mark in zip(group, reduced, readers):
            view.redirect(mark.values, new, of_mark.__contains__)
        if told is not None:
            view.redirect(values[-1], reduced[-1], lambda op: op is told.op or "Summary" in op.type)
        numbers = sum(mark.values.shape.num_elements() or 0 for mark in group)
        result.changes.append(
            f"{len(group)} dense gradients, {numbers} numbers, of {self._size} ranks by one all-reduce"
        )
        terms = sum(part is not None for part in constant[: len(group)])
        if terms:
            result.changes.append(f"what no data is in of the loss counts once: of {terms} gradients")

    @staticmethod
    def _constant_parts(view: GraphView, group: Sequence[RawGradient]) -> List[Optional[tf.Tensor]]:
        """What regularisers add to each gradient."""
        parts: List[Optional[tf.Tensor]] = [None] * len(group)
        for losses in dict.fromkeys(mark.losses for mark in group):
            members = [i for i, mark in enumerate(group) if mark.losses == losses]
            for loss in losses:
                terms = regularisers(view, loss)
                if terms:
                    with view.inserting(None), collectives.scope("dense"):
                        found = gradients_of(terms, loss, [group[i].variable.outputs[0] for i in members])
                    for i, part in zip(members, found):
                        if part is not None:
                            parts[i] = part if parts[i] is None else parts[i] + part
        return parts

    @staticmethod
    def _row_sums(view: GraphView, reduction: Reduction) -> Optional[RowWeights]:
        if reduction.weights is None:
            return None
        if summed_row_weights(view.graph) is None:
            with view.inserting(None), collectives.scope("other"):
                register_sums(view.graph, sum_row_weights(reduction.weights))
        return summed_row_weights(view.graph)

    def _gather(
        self,
        view: GraphView,
        plan: GradientPlan,
        group: List[RawGradient],
        reduction: Reduction,
        sums: Optional[RowWeights],
        result: PassResult,
    ) -> None:
        readers = [(_readers(view, plan, m.gradient.values), _readers(view, plan, m.gradient.indices)) for m in group]
        parts = [_lookups(mark) for mark in group]
        with view.inserting(None), collectives.scope("sparse"):
            gathered = gather_slices([part for of_mark in parts for part in of_mark], reduction, sums)
            joined = []
            for of_mark in parts:
                mine, gathered = gathered[: len(of_mark)], gathered[len(of_mark) :]
                values, indices = zip(*mine)
                joined.append(
                    (values[0], indices[0]) if len(mine) == 1 else (tf.concat(values, 0), tf.concat(indices, 0))
                )
        for mark, (values, indices), (of_values, of_indices) in zip(group, joined, readers):
            view.redirect(mark.gradient.values, values, of_values.__contains__)
            view.redirect(mark.gradient.indices, indices, of_indices.__contains__)
        result.changes.append(f"{len(group)} sparse gradients of {self._size} ranks by one all-gather")

    @staticmethod
    def _leave_out_ended(view: GraphView, plan: GradientPlan, weights: RowWeights, result: PassResult) -> None:
        """Gives the program's own Horovod zeros, and no rows, of a batch that does not count, as hvd.join() does."""
        with view.inserting(None), collectives.scope("dense"):
            live = tf.cast(weights.rows > 0, weights.rows.dtype)
        counting = Reduction(AVERAGE, 1, weights._replace(rows=live))  # Its own_share() is the gradient times `live`.
        marks = [*plan.by_user, *plan.left]
        for mark in marks:
            sliced = isinstance(mark.gradient, tf.IndexedSlices)
            for own in (mark.gradient.values, mark.gradient.indices) if sliced else (mark.gradient,):
                readers = _readers(view, plan, own)
                with view.inserting(None), collectives.scope("dense"):
                    counted = counting.own_rows(own) if sliced else counting.own_share(own)
                view.redirect(own, counted, readers.__contains__)
        result.modified = True
        result.changes.append(f"{len(marks)} gradients are 0 where a rank's input has ended before the others'")

    @staticmethod
    def _broadcast(view: GraphView, plan: GradientPlan, result: PassResult) -> None:
        if initial_values.has_broadcast(view.graph):
            return
        if view.ops(*_BROADCASTS):
            result.skipped.append(
                ("initial values", "the program broadcasts its Variables itself with Horovod; nothing is added")
            )
            return
        if plan.trained_by_user and not view.ops("TfBoosterHashTable"):
            return
        gone = set(removed_variables(view.graph))
        variables = [
            v for v in tf.compat.v1.global_variables() if v.op.name not in gone and v.dtype.base_dtype not in _UNSENT
        ]
        with view.inserting(None), collectives.scope("other"):
            initial_values.add_broadcast(view.graph, variables)
        result.changes.append(f"{len(variables)} Variables begin with rank 0's values, in each MonitoredSession")
        result.modified = True

    def ensures(self, view: GraphView) -> None:
        """Every marked gradient was looked at."""
        if self.requires(view):
            raise RewriteError("A gradient was not looked at.")


def _told_loss(view: GraphView, plan: GradientPlan) -> Optional[tf.Tensor]:
    """What an Estimator reads the loss through, if the loss can travel with the last group: it waits for none of its gradients."""
    told = told_loss(view.graph)
    if told is None or not plan.dense:
        return None
    index, group = view.index(), plan.dense[-1]
    before = index.upstream([told.op.inputs[0].op])
    waits = any(index.number[mark.values.op] in before for mark in group)
    return None if waits or all(mark.values.dtype != told.dtype for mark in group) else told


def _waits_for_sparse(view: GraphView, plan: GradientPlan) -> bool:
    """Whether the first dense gradients wait for what reads sparse ones, as where two optimizers train one after the other."""
    index = view.index()
    before = index.upstream([mark.values.op for group in plan.dense[:1] for mark in group])
    marks = [mark.gradient for group in plan.sparse for mark in group]
    readers = {op for own in marks for part in (own.values, own.indices) for op in _readers(view, plan, part)}
    return any(index.number[op] in before for op in readers)


def _readers(view: GraphView, plan: GradientPlan, gradient: tf.Tensor) -> Set[tf.Operation]:
    """The ops that are to read the gradient of all ranks: those before the pass made any."""
    number = view.index().number
    return {op for op in gradient.consumers() if number[op] not in plan.inner}


def _lookups(mark: RawGradient) -> List[Tuple[tf.Tensor, tf.Tensor, bool]]:
    """(values, indices, distinct) of each lookup that the gradient adds up."""
    values, indices = mark.gradient.values.op.inputs[0].op, mark.gradient.indices.op.inputs[0].op
    if values.type == indices.type == "ConcatV2" and len(values.inputs) == len(indices.inputs):
        pairs = list(zip(values.inputs, indices.inputs))[:-1]
        if all(v.shape.rank and v.shape[1:].is_fully_defined() for v, _ in pairs):
            return [(v, i, distinct_indices(i)) for v, i in pairs]
    return [(mark.gradient.values, mark.gradient.indices, distinct_indices(mark.gradient.indices))]


def _inexact(view: GraphView, plan: GradientPlan) -> List[Tuple[str, str]]:
    """Where the ranks' gradients together are not those of the joined batch: nodes, and why."""
    found = []
    index = view.index()
    marks = [mark for group in [*plan.dense, *plan.sparse] for mark in group]
    for mark in raw_gradients(view.graph) if marks else ():
        if index.number[mark.values.op] in plan.inner:
            found.append(
                (
                    mark.values.name,
                    "a gradient of a gradient is that of each rank's own loss, not of the joined batch's",
                )
            )
    losses = index.upstream(dict.fromkeys(loss.op for mark in marks for loss in mark.losses))
    for op in view.ops("Equal"):
        # tf.compat.v1.losses: each rank divides by how many of its own weights are not 0. A constant weight counts all rows alike.
        if "num_present" in op.name and index.number[op] in losses and tf.get_static_value(op.inputs[0]) is None:
            reason = "the loss is divided by the number of its weights that are not 0, and each rank divides by its own number"
            found.append(
                (op.name.partition("/num_present")[0], f"{reason}; reduction=SUM_OVER_BATCH_SIZE has one divisor")
            )
    return found


def _tell_users_own(plan: GradientPlan, result: PassResult) -> None:
    for own in ranks.left_alone():
        result.skipped.append(("Horovod", f"the program does itself: {own}"))
    if plan.by_user:
        names = ", ".join(mark.variable.name for mark in plan.by_user[:3]) + (", …" if len(plan.by_user) > 3 else "")
        reason = f"the program reduces {len(plan.by_user)} gradients itself with Horovod ({names}); they are left alone"
        result.skipped.append(("gradients", reason))
        log.once(reason)
    if plan.left:
        names = ", ".join(mark.variable.name for mark in plan.left[:3]) + (", …" if len(plan.left) > 3 else "")
        reason = f"the program trains by its own Horovod; {len(plan.left)} gradients that it does not reduce are each rank's own ({names})"
        result.skipped.append(("gradients", reason))
        log.once(reason)
    for op in plan.unmarked:
        reason = (
            "its gradient was not taken with tf.gradients, an optimizer or a GradientTape, so each rank applies its own"
        )
        result.skipped.append((op.name, reason))
        log.once(f"op '{op.name}': {reason}")
