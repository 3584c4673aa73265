"""Carries out what table_plan.py worked out: table ops in place of the stand-ins, their gathers and their updates."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

import tensorflow as tf

from tf_booster import _native, log
from tf_booster.checkpoint import savers, warm_start
from tf_booster.checkpoint.saveable import TableSaveable
from tf_booster.embedding import registry
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_view import GraphView, update_input
from tf_booster.passes.table_plan import RewritePlan, TablePlan
from tf_booster.passes.variable_uses import SummaryInput

DEVICE = "/device:CPU:0"


def execute(view: GraphView, plan: RewritePlan, check_numerics: bool, result: PassResult) -> None:
    """Edits the graph; `result` gets a line for each change."""
    rewritten = []
    probes: Dict[Tuple[str, tf.Operation], Any] = {}
    for table in plan.tables:
        handle = _make_handle(view, table)
        entry = _entry(view, table, handle)
        registry.add_rewritten(view.graph, entry)
        rewritten.append(entry)
        for stand_in, group in table.groups.items():
            probes[table.name, stand_in] = _make_probe(view, table, handle, stand_in, group)
    for stand_in in dict.fromkeys(stand_in for stand_in, _ in plan.routes):
        _route_codes(view, plan, stand_in, probes)
    for table, entry in zip(plan.tables, rewritten):
        gathers = [_replace_gather(view, table, entry.handle, lookup, probes) for lookup in table.lookups]
        if table.update is not None:
            _replace_update(view, table, entry.handle, probes, gathers, check_numerics)
        for request in table.handle_requests:
            view.redirect(request.outputs[0], entry.handle)
            view.redirect_control([request], entry.handle.op)
        if table.existing is None:
            started = warm_start.apply_requests(view, table.name, entry.handle, table.uses.initializers)
            result.changes.extend([started] if started else [])
        _note_untrained(view, table, result)
        _retire_variable(view, table, result)
        result.changes.append(_change(table))
        result.modified = True
    for stand_in in plan.idle:
        view.redirect(stand_in.outputs[0], stand_in.inputs[0])
        view.redirect_control([stand_in], stand_in.inputs[0].op)
    for place, name in plan.gradient_summaries.items():
        _answer_nan(view, place, f"the gradient of table '{name}' as a dense tensor", result)
    fresh = [(t, e) for t, e in zip(plan.tables, rewritten) if t.existing is None]
    savers.rewrite_built_savers(view, replaced_variables([t for t, _ in fresh], [e for _, e in fresh]))
    for _, entry in fresh:
        view.add_to_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS, TableSaveable(entry))


def replaced_variables(tables: List[TablePlan], entries: List[Any]) -> List[savers.Replaced]:
    """What a Saver needs to know of the Variables that go."""
    return [
        savers.Replaced(t.name, e, [t.handle_op], _slot_ops(t))
        for t, e in zip(tables, entries)
        if t.handle_op is not None
    ]


def _slot_ops(table: TablePlan) -> List[tf.Operation]:
    slots = table.update.slots if table.update else ()
    return [slot.handle_op for slot in slots if slot.handle_op is not None]


def _scope(table: TablePlan) -> str:
    return f"tf_booster/{table.name}"


def _make_handle(view: GraphView, table: TablePlan) -> tf.Tensor:
    if table.existing is not None:
        return table.existing.handle
    spec, slots = table.spec, table.update.slots if table.update else ()
    with view.inserting(DEVICE):
        return _native.ops().tf_booster_hash_table(
            table_name=spec.name,
            dim=spec.dim,
            optimizer=table.update.optimizer if table.update else "",
            slot_names=[slot.name for slot in slots],
            slot_initial_values=[slot.initial_value for slot in slots],
            field_names=[spec.name],
            seeds=[spec.seed],
            initializers=[spec.initializer.kind],
            initializer_args=[spec.initializer.a, spec.initializer.b],
            min_frequencies=[spec.min_frequency],
            max_rows=[spec.max_rows or 0],
            evictions=[spec.eviction.policy],
            eviction_args=[spec.eviction.limit],
            name=f"{_scope(table)}/table",
        )


def _entry(view: GraphView, table: TablePlan, handle: tf.Tensor) -> registry.RewrittenTable:
    if table.existing is not None:
        return table.existing._replace(num_probes=table.existing.num_probes + len(table.groups))
    slots = table.update.slots if table.update else ()
    with view.inserting(DEVICE):
        stats = _native.ops().tf_booster_table_stats(handle, name=f"{_scope(table)}/stats")
    return registry.RewrittenTable(
        name=table.name,
        handle=handle,
        slot_names=tuple(slot.name for slot in slots),
        slot_initial_values=tuple(slot.initial_value for slot in slots),
        optimizer=table.update.optimizer if table.update else "",
        spec=table.spec,
        num_probes=len(table.groups),
        stats=stats,
    )


def _make_probe(view: GraphView, table: TablePlan, handle: tf.Tensor, stand_in: tf.Operation, group: int) -> Any:
    with view.inserting(DEVICE, stand_in.control_inputs):
        return _native.ops().tf_booster_table_probe(
            handle, stand_in.inputs[0], group=group, name=f"{_scope(table)}/probe_{group}"
        )


def _route_codes(view: GraphView, plan: RewritePlan, stand_in: tf.Operation, probes: Dict[Any, Any]) -> None:
    for (routed, consumer), table in plan.routes.items():
        if routed is stand_in:
            view.redirect(stand_in.outputs[0], probes[table.name, stand_in].codes, lambda op, c=consumer: op is c)
    first = next(probe for (_, op), probe in probes.items() if op is stand_in)
    view.redirect_control([stand_in], first.codes.op)


def _replace_gather(
    view: GraphView, table: TablePlan, handle: tf.Tensor, lookup: Any, probes: Dict[Any, Any]
) -> tf.Operation:
    old = lookup.gather
    _replace_unique(view, table, old.inputs[1].op)
    probe = probes[table.name, lookup.stand_in]
    with view.inserting(DEVICE, old.control_inputs):
        values = _native.ops().tf_booster_table_gather(
            handle, old.inputs[1], probe.keys, probe.handles, dim=table.spec.dim, name=f"{_scope(table)}/gather"
        )
    values.set_shape(old.outputs[0].shape)
    view.redirect(old.outputs[0], values)
    view.redirect_control([old], values.op)
    return values.op


def _replace_unique(view: GraphView, table: TablePlan, old: tf.Operation) -> None:
    """The sparse forms gather distinct codes and place the rows by idx; nothing there depends on the order of the codes."""
    if old.type != "Unique":
        return
    with view.inserting(DEVICE, old.control_inputs):
        new = _native.ops().tf_booster_unique(
            old.inputs[0], out_idx=old.get_attr("out_idx"), name=f"{_scope(table)}/unique"
        )
    for before, after in zip(old.outputs, new):
        view.redirect(before, after)
    view.redirect_control([old], new.y.op)


def _replace_update(
    view: GraphView,
    table: TablePlan,
    handle: tf.Tensor,
    probes: Dict[Any, Any],
    gathers: List[tf.Operation],
    check_numerics: bool,
) -> None:
    update = table.update
    replaced = set(update.replaced)
    used = [probes[table.name, stand_in] for stand_in in table.update_sources]
    # Lookups of a step read the rows as they were before it; TensorFlow leaves that order open.
    after = view.downstream(update.replaced)
    first = [g for g in gathers if g not in after and any(g.inputs[2].op is probe.keys.op for probe in used)]
    waits = dict.fromkeys(c for op in update.replaced for c in op.control_inputs if c not in replaced)
    apply_op = getattr(_native.ops(), f"tf_booster_table_apply_{_snake(update.op_name)}")
    with view.inserting(DEVICE):
        inputs = [tf.constant(value) if isinstance(value, float) else value for value in update.inputs]
    with view.inserting(DEVICE, [*waits, *first]):
        new = apply_op(
            handle,
            [probe.keys for probe in used],
            [probe.counts for probe in used],
            [probe.handles for probe in used],
            _codes(view, table, probes),
            view.current(update.grad),
            *inputs,
            check_numerics=check_numerics,
            name=f"{_scope(table)}/apply",
            **update.attrs,
        )
    view.redirect_control(update.replaced, new)


def _codes(view: GraphView, table: TablePlan, probes: Dict[Any, Any]) -> tf.Tensor:
    """The update's indices, which may be a lookup's codes themselves."""
    indices = table.update.indices
    return probes[table.name, indices.op].codes if indices.op in table.groups else view.current(indices)


def _snake(op_name: str) -> str:
    """As TensorFlow names the Python function of an op: CenteredRMSProp -> centered_rms_prop."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_name).lower()


def _retire_variable(view: GraphView, table: TablePlan, result: PassResult) -> None:
    if table.handle_op is None or table.existing is not None:
        return
    for place in table.uses.summary_inputs:
        _answer_nan(view, place, f"the whole table '{table.name}'", result)
    with view.inserting(None):
        ready = tf.constant(True, name=f"{_scope(table)}/is_ready")
    for op in table.uses.shapes:
        with view.inserting(None):
            view.redirect(op.outputs[0], tf.constant([1, table.spec.dim], op.outputs[0].dtype))
    for handle_op in (table.handle_op, *_slot_ops(table)):
        for op in handle_op.outputs[0].consumers():
            if op.type == "VarIsInitializedOp":
                view.redirect(op.outputs[0], ready)
    view.remove_variables([table.handle_op, *_slot_ops(table)])


def _answer_nan(view: GraphView, place: SummaryInput, what: str, result: PassResult) -> None:
    """NaN in the shape that the summary wants; a histogram fails on NaN, and gets no values at all."""
    value = place.op.inputs[place.index]
    is_histogram = "Histogram" in place.op.type
    shape = [0] if is_histogram else value.shape.as_list() if value.shape.is_fully_defined() else [1]
    with view.inserting(None):
        nan = tf.fill(shape, tf.constant(float("nan"), value.dtype), name="tf_booster/nan_for_summary")
        # Hides the static shape: an edge moves only to a tensor of a shape that is compatible with the old one's.
        nan = tf.compat.v1.placeholder_with_default(nan, None)
    update_input(place.op, place.index, nan)
    shows = "is empty" if is_histogram else "shows NaN"
    result.skipped.append((place.op.name, f"a summary of {what} {shows}: a table has no fixed rows to summarise"))


def _change(table: TablePlan) -> str:
    lookups = f"{len(table.lookups)} lookup{'' if len(table.lookups) == 1 else 's'}"
    if table.existing is not None:
        return f"table '{table.name}': {lookups} more, which do not train it"
    return f"table '{table.name}' [{table.spec.dim}]: {lookups}, {_training(table)}"


def _training(table: TablePlan) -> str:
    update = table.update
    if update is None:
        return "read only"
    if update.optimizer == "adam" or update.attrs.get("epsilon_outside_sqrt"):
        return (
            f"trained by {update.optimizer} (fused; moves the rows that have a gradient, TensorFlow's moves every row)"
        )
    return f"trained by {update.optimizer} (fused)"


def _note_untrained(view: GraphView, table: TablePlan, result: PassResult) -> None:
    """A table that is meant to be trained and is left out of training is worth a word; evaluation trains nothing."""
    if table.update is not None or table.existing is not None or not table.lookups or not table.spec.trainable:
        return
    if any(op.type.startswith(("ResourceApply", "ResourceSparseApply")) for op in view.graph.get_operations()):
        reason = (
            f"nothing updates the trainable table '{table.name}', but an optimizer updates other Variables: is it in the "
            "optimizer's var_list? (TensorFlow's DNN models of version 2 leave shared_embeddings untrained.)"
        )
        result.skipped.append((table.handle_op.name, reason))
        log.once(reason)
