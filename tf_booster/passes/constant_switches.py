"""Takes the branch out of a v1 tf.cond that a constant condition takes at every run; v1_conditions.py says what such a tf.cond is made of.

What reads a Switch reads what goes into it; of a Merge, what comes from the branch that is taken. The other branch is dead: it never runs, nor does
what waits for it, up to the Merges that take something else.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.parallel import ranks
from tf_booster.parallel.collectives import is_horovods
from tf_booster.passes import servers, updates_before_branches
from tf_booster.passes.constant_condition import Condition, constant_condition
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView, update_input
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.whole_table_reads import WholeTableReads

_SWITCHES, _MERGES = ("Switch", "RefSwitch"), ("Merge", "RefMerge")


def constant_switches(view: GraphView) -> Dict[tf.Operation, Condition]:
    """The Switches that give what they are given to the same branch at every run; but none of a tf.while_loop, whose ops are of its frame, of an
    imported graph that has loops and does not say where, of a tf.cond in which other passes look for something: the program's own collectives over several ranks
    and without tables, reads of whole tables; of one for which updates run that only the other branch reads; or of one that reads what is in another process of a cluster, where
    TensorFlow may find no place for what is left of it."""
    if not all(_compat.in_loop(op) for op in view.ops("Enter", "RefEnter")):
        return {}
    switches = view.ops(*_SWITCHES)
    if not switches:
        return {}
    conditions: Dict[Any, Optional[Condition]] = {}
    left = {_given(pred) for pred in (*_preds_of_collectives(view), *WholeTableReads(view).v1_conditions(switches))}
    found: Dict[tf.Operation, Condition] = {}
    for op in switches:
        pred = op.inputs[1]
        if pred.ref() not in conditions:
            conditions[pred.ref()] = constant_condition(pred)
        condition = conditions[pred.ref()]
        if condition is None or view.is_superseded(op) or _compat.in_loop(op):
            continue
        if condition.waits and op.type == "RefSwitch":  # Nothing passes a reference on after a while.
            left.add(_given(pred))
        if servers.task_of(op) or servers.task_of(op.inputs[0].op):
            left.add(_given(pred))
        found[op] = condition
    left.update(_given(pred) for pred in _preds_of_updates(view, found))
    return {op: condition for op, condition in found.items() if _given(op.inputs[1]) not in left}


def _given(pred: tf.Tensor) -> Any:
    """Of what a tf.cond was given; its ops read that, or an Identity of it."""
    return skip_identity(pred).ref()


def _preds_of_collectives(view: GraphView) -> Iterator[tf.Tensor]:
    if ranks.horovod_size() == 1 or registry.has_tables(view.graph):
        return  # Those of tables' gradients are left out, as ops that stand in no tf.cond.
    for op in view.ops(*filter(is_horovods, view.index().types())):
        yield from (context.pred for context in _compat.contexts_around(op) if _compat.is_cond_context(context))


def _preds_of_updates(view: GraphView, switches: Dict[tf.Operation, Condition]) -> Iterator[tf.Tensor]:
    read: Dict[Any, List[tf.Tensor]] = {}
    unread: Dict[Any, List[tf.Operation]] = {}
    for op, condition in switches.items():
        taken = op.outputs[condition.value]
        if taken.consumers() or GraphView.control_outputs(op):
            read.setdefault(_given(op.inputs[1]), [op.inputs[1]]).append(op.inputs[0])
        elif op.outputs[not condition.value].consumers():
            unread.setdefault(_given(op.inputs[1]), []).append(op)
    for pred, ops in unread.items():
        if updates_before_branches.lead_to(view, [op.inputs[0] for op in ops], read.get(pred, ())):
            yield ops[0].inputs[1]


def take_branches(view: GraphView, switches: Dict[tf.Operation, Condition]) -> List[str]:
    """Has what `switches` pass on run as the graph's own ops do. Returns the names of the tf.conds."""
    dead = _Dead(switches)
    preds = {op.inputs[1].ref(): condition.value for op, condition in switches.items()}
    pivots = [op for op in switches if op.inputs[0] is op.inputs[1]]
    names = [op.name.rpartition("/")[0] or op.name for op in pivots or switches]
    for op, condition in switches.items():
        if op not in dead.ops:
            given = _value(view, op, op.inputs[0], condition.waits)
            view.redirect(op.outputs[condition.value], given)
            view.redirect_control([op], given.op)
    for merge in dead.merges():
        _take(view, merge, dead.live(merge))
    _leave_contexts(view, preds)
    running = executed_ops(view)
    view.supersede([*switches, *(op for op in dead.ops if op not in running)])
    # Else who follows a tensor would find that it leads into a tf.cond.
    view.cut_off([op for op in switches if op.type == "Switch" and op not in running])
    return list(dict.fromkeys(names))


def _value(view: GraphView, op: tf.Operation, given: tf.Tensor, waits: Sequence[tf.Operation] = ()) -> tf.Tensor:
    """What the Switch or Merge `op` gives of `given`. One that is none of references reads a reference Variable when it runs."""
    if not waits and given.dtype == op.outputs[0].dtype:
        return given
    with view.inserting(op.device, waits):
        return tf.identity(given, name=f"tf_booster/{op.name}/given")


def _take(view: GraphView, merge: tf.Operation, live: int) -> None:
    """Has what reads `merge` read its input `live`; who fetches it by name gets that, too."""
    value = _value(view, merge, merge.inputs[live])
    view.redirect(merge.outputs[0], value)
    if merge.outputs[1].consumers():
        with view.inserting(merge.device, [value.op]):
            view.redirect(merge.outputs[1], tf.constant(live, merge.outputs[1].dtype))
    view.redirect_control([merge], value.op)
    view.supersede([merge])
    for index, dead in enumerate(merge.inputs):
        if index != live and dead.dtype == value.dtype:
            update_input(merge, index, _never(view, merge, value, dead.shape))


def _never(view: GraphView, merge: tf.Operation, value: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """What a Merge that takes `value` has beside it for an input of this shape, and never takes."""
    is_reference = value.dtype != value.dtype.base_dtype
    with view.inserting(merge.device):
        if not value.shape.is_compatible_with(shape) and not is_reference:
            value = tf.compat.v1.placeholder_with_default(value, None)
        make = tf.raw_ops.RefSwitch if is_reference else tf.raw_ops.Switch
        sides = make(data=value, pred=tf.constant(True), name=f"tf_booster/{merge.name}/switch")
    view.supersede([sides.output_false.op])
    return sides.output_false


def _leave_contexts(view: GraphView, preds: Dict[Any, bool]) -> None:
    """Has the ops of the branches that are taken stand where their tf.cond does."""

    def around(context: Any) -> Any:
        while _compat.is_cond_context(context) and preds.get(context.pred.ref()) == bool(context.branch):
            context = context.outer_context
        return context

    inner: Dict[Any, None] = {}
    for op in view.graph.get_operations():
        inner.update(dict.fromkeys(_compat.contexts_around(op)))
        context = _compat.control_flow_context(op)
        outside = around(context)
        if outside is not context:
            view.on_rollback(lambda op=op, context=context: _compat.set_control_flow_context(op, context))
            _compat.set_control_flow_context(op, outside)
    for context in inner:
        before, outside = context.outer_context, around(context.outer_context)
        if outside is not before:
            view.on_rollback(lambda context=context, before=before: _compat.set_outer_context(context, before))
            _compat.set_outer_context(context, outside)


class _Dead:
    """What never runs, as some Switches pass on to one branch alone."""

    def __init__(self, switches: Dict[tf.Operation, Condition]) -> None:
        self._switches = switches
        self.ops: Set[tf.Operation] = set()
        self._merges: Dict[tf.Operation, None] = {}
        waiting = [reader for op, c in switches.items() for reader in op.outputs[not c.value].consumers()]
        while waiting:
            op = waiting.pop()
            if op in self.ops:
                continue
            if op.type in _MERGES and not self._is_dead_merge(op):
                self._merges[op] = None
                continue
            self.ops.add(op)
            waiting.extend(reader for output in op.outputs for reader in output.consumers())
            waiting.extend(GraphView.control_outputs(op))

    def merges(self) -> Iterable[tf.Operation]:
        """Those that have one input left."""
        return [op for op in self._merges if op not in self.ops and len(self._live(op)) == 1]

    def live(self, merge: tf.Operation) -> int:
        """The place of that input."""
        (place,) = self._live(merge)
        return place

    def _live(self, merge: tf.Operation) -> List[int]:
        return [i for i, tensor in enumerate(merge.inputs) if not self._is_dead(tensor)]

    def _is_dead_merge(self, merge: tf.Operation) -> bool:
        """A loop's Merge waits for its Enter."""
        return not self._live(merge) or any(
            self._is_dead(t) and t.op.type in ("Enter", "RefEnter") for t in merge.inputs
        )

    def _is_dead(self, tensor: tf.Tensor) -> bool:
        condition = self._switches.get(tensor.op)
        return tensor.op in self.ops or (condition is not None and tensor.value_index != int(condition.value))
