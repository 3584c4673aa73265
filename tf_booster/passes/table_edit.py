"""Carries out what table_plan.py worked out: table ops in place of the stand-ins, their gathers and their updates."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple, Union

import tensorflow as tf

from tf_booster import _native, log
from tf_booster.checkpoint import savers, warm_start
from tf_booster.checkpoint.saveable import TableSaveable, export_fields
from tf_booster.embedding import registry
from tf_booster.parallel import whole_tables
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_view import GraphView, add_control_input, set_device, update_input
from tf_booster.passes.table_exchange import ExchangedProbes, GradientExchange
from tf_booster.passes.table_exchange_plan import Partition, eviction_note, own_limit, sightings_note
from tf_booster.passes.table_fusion import FusedTable, GatherPlan
from tf_booster.passes.table_placement import HOST, RowRooms
from tf_booster.passes.table_plan import RewritePlan
from tf_booster.passes.table_probes import Probes, scope
from tf_booster.passes.table_uses import TablePlan
from tf_booster.passes.variable_uses import SummaryInput

_NAN = "tf_booster/nan_for_summary"

AnyProbes = Union[Probes, ExchangedProbes]


def execute(
    view: GraphView,
    plan: RewritePlan,
    check_numerics: bool,
    partition: Partition,
    rooms: RowRooms,
    result: PassResult,
) -> None:
    """Edits the graph; `result` gets a line for each change."""
    entries: Dict[str, registry.RewrittenTable] = {}
    reads: List[Tuple[tf.Operation, tf.Operation]] = []
    all_fused = plan.fusion.resources
    resources = [_make_resource(view, fused, partition, rooms, result) for fused in all_fused]
    for fused, resource in zip(all_fused, resources):
        for entry in _entries(view, fused, resource):
            registry.add_rewritten(view.graph, entry)
            entries[entry.name] = entry
    several = partition.size > 1
    probes: AnyProbes = (
        ExchangedProbes(view, plan.fusion, resources, partition) if several else Probes(view, all_fused, resources)
    )
    for stand_in in dict.fromkeys(stand_in for stand_in, _ in plan.routes):
        _route_codes(view, plan, stand_in, probes)
    gathers_of = [
        [_replace_gathers(view, fused, resource, gather, probes) for gather in fused.gathers]
        for fused, resource in zip(all_fused, resources)
    ]
    handles = {name: entry.handle for name, entry in entries.items()}
    gradients = GradientExchange(view, plan.fusion, probes, partition, handles).updates if several else {}
    for fused, resource, gathers in zip(all_fused, resources, gathers_of):
        if fused.trained:
            update = _replace_updates(view, fused, resource, probes, gradients, check_numerics)
            trained = fused.probes[: fused.trained]
            reads += [
                (update, op)
                for plan, op in zip(fused.gathers, gathers)
                if any(plan.probe is probe for probe in trained)
            ]
        result.changes.extend(_fused_change(fused))
    _read_before_update(view, reads)
    retired: List[tf.Operation] = []
    for table in plan.tables:
        handle = entries[table.name].handle
        for request in table.handle_requests:
            if several:
                _answer_for_all_ranks(view, request)
            _put_beside(request, handle)
            view.redirect(request.outputs[0], handle)
            view.redirect_control([request], handle.op)
        if table.existing is None:
            started = warm_start.apply_requests(view, table.name, handle, table.uses.initializers)
            result.changes.extend([started] if started else [])
        _note_untrained(view, table, result)
        for inexact in (eviction_note(table.name, table.spec.eviction, partition), sightings_note(table, partition)):
            result.skipped.extend([(table.name, inexact)] if inexact else [])
        retired.extend(_retire_variable(view, table, result))
        result.changes.append(_change(table))
        result.modified = True
    view.remove_variables(retired)
    for stand_in in plan.idle:
        view.redirect(stand_in.outputs[0], stand_in.inputs[0])
        view.redirect_control([stand_in], stand_in.inputs[0].op)
    for place, name in plan.gradient_summaries.items():
        _answer_nan(view, place, f"the gradient of table '{name}' as a dense tensor", result)
    fresh = [table for table in plan.tables if table.existing is None]
    replaced = replaced_variables(fresh, [entries[table.name] for table in fresh])
    savers.rewrite_built_savers(view, replaced)
    savers.note_replaced(view, replaced)
    for table in fresh:
        saveable = TableSaveable(entries[table.name], exported=entries[table.name].exported)
        view.add_to_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS, saveable)


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


def _scope(table: Union[TablePlan, FusedTable]) -> str:
    return scope(table.name)


def _make_resource(
    view: GraphView, fused: FusedTable, partition: Partition, rooms: RowRooms, result: PassResult
) -> tf.Tensor:
    if fused.existing is not None:
        return fused.existing.resource
    if fused.lent.attributes:
        result.changes.append(f"table '{fused.name}' is read where the training has it, in place of a copy")
    if fused.lent.refusal:
        result.skipped.append((fused.name, f"is restored beside the training's: {fused.lent.refusal}"))
    update, specs = fused.tables[0].update, [table.spec for table in fused.tables]
    slots = update.slots if update else ()
    attributes = dict(
        table_name=fused.name,
        dim=fused.dim,
        optimizer=update.optimizer if update else "",
        slot_names=[slot.name for slot in slots],
        slot_initial_values=[slot.initial_value for slot in slots],
        field_names=[spec.name for spec in specs],
        seeds=[spec.seed for spec in specs],
        initializers=[spec.initializer.kind for spec in specs],
        initializer_args=[arg for spec in specs for arg in (spec.initializer.a, spec.initializer.b)],
        min_frequencies=[spec.min_frequency for spec in specs],
        max_rows=[spec.max_rows or 0 for spec in specs],
        evictions=[spec.eviction.policy for spec in specs],
        eviction_args=[own_limit(spec.eviction, partition) for spec in specs],
        memory_fraction=rooms.fraction,
        directory=rooms.directory,
        name=f"{_scope(fused)}/table",
    )
    with view.inserting(fused.device):
        return _native.ops().tf_booster_hash_table(**{**attributes, **fused.lent.attributes})


def _entries(view: GraphView, fused: FusedTable, resource: tf.Tensor) -> List[registry.RewrittenTable]:
    if fused.existing is not None:
        return _with_more_lookups(view, fused)
    is_alone = fused.num_fields == 1
    fields = [fused.field_of(table) for table in fused.tables]
    exported = [None] if is_alone else export_fields(resource, fields)
    entries = []
    for field, table, whole in zip(fields, fused.tables, exported):
        slots = table.update.slots if table.update else ()
        with view.inserting(fused.device):
            handle = resource
            if not is_alone:
                handle = _native.ops().tf_booster_table_field(resource, field=field, name=f"{_scope(table)}/table")
            stats = _native.ops().tf_booster_table_stats(handle, name=f"{_scope(table)}/stats")
        entries.append(
            registry.RewrittenTable(
                name=table.name,
                handle=handle,
                slot_names=tuple(slot.name for slot in slots),
                slot_initial_values=tuple(slot.initial_value for slot in slots),
                optimizer=table.update.optimizer if table.update else "",
                spec=table.spec,
                num_probes=len(table.groups),
                stats=stats,
                resource=resource,
                field=field,
                num_groups=len(fused.probes),
                kind=table.placement.kind,
                exported=whole,
            )
        )
    return entries


def _with_more_lookups(view: GraphView, fused: FusedTable) -> List[registry.RewrittenTable]:
    """Entries of all tables of a resource that is looked up in more places than when it was made."""
    more = {table.name: len(table.groups) for table in fused.tables}
    groups = fused.existing.num_groups + len(fused.probes)
    known = registry.rewritten(view.graph).values()
    return [
        entry._replace(num_probes=entry.num_probes + more.get(entry.name, 0), num_groups=groups)
        for entry in known
        if entry.resource is fused.existing.resource
    ]


def _route_codes(view: GraphView, plan: RewritePlan, stand_in: tf.Operation, probes: AnyProbes) -> None:
    for consumer in dict.fromkeys(stand_in.outputs[0].consumers()):
        table = plan.routes.get((stand_in, consumer))
        if table is not None:
            view.redirect(stand_in.outputs[0], probes.codes(table, stand_in), lambda op, c=consumer: op is c)
    view.redirect_control([stand_in], probes.first(stand_in))


def _replace_gathers(
    view: GraphView, fused: FusedTable, resource: tf.Tensor, plan: GatherPlan, probes: AnyProbes
) -> tf.Operation:
    old = [lookup.gather for _, lookup in plan.members]
    for (table, _), gather in zip(plan.members, old):
        _replace_unique(view, table, gather.inputs[1].op, probes.codes_device(fused))
    waits = dict.fromkeys(c for gather in old for c in gather.control_inputs)
    with view.inserting(probes.lookup_device(fused), list(waits)):
        values = probes.gather(fused, resource, plan, [gather.inputs[1] for gather in old])
    view.note_originals(values[0].op, old)
    for gather, value in zip(old, values):
        value.set_shape(gather.outputs[0].shape)
        view.redirect(gather.outputs[0], value)
    view.redirect_control(old, values[0].op)
    return values[0].op


def _replace_unique(view: GraphView, table: TablePlan, old: tf.Operation, device: Optional[str]) -> None:
    """The sparse forms gather distinct codes and place the rows by idx; nothing there depends on the order of the codes."""
    if old.type != "Unique":
        return
    with view.inserting(device, old.control_inputs):
        new = _native.ops().tf_booster_unique(
            old.inputs[0], out_idx=old.get_attr("out_idx"), name=f"{_scope(table)}/unique"
        )
    for before, after in zip(old.outputs, new):
        view.redirect(before, after)
    view.redirect_control([old], new.y.op)


def _replace_updates(
    view: GraphView,
    fused: FusedTable,
    resource: tf.Tensor,
    probes: AnyProbes,
    exchanged: Dict[str, Tuple[tf.Tensor, tf.Tensor]],
    check_numerics: bool,
) -> tf.Operation:
    updates = [(table, table.update) for table in fused.tables]
    first = updates[0][1]
    replaced = dict.fromkeys(op for _, update in updates for op in update.replaced)
    gradients = [
        exchanged.get(table.name) or (_codes(view, table, probes), view.current(update.grad))
        for table, update in updates
    ]
    used = [probes.update_inputs(probe) for probe in fused.probes[: fused.trained]]
    waits = dict.fromkeys(c for op in replaced for c in op.control_inputs if c not in replaced)
    apply_op = getattr(_native.ops(), f"tf_booster_table_apply_{_snake(first.op_name)}")
    with view.inserting(fused.device):
        inputs = [tf.constant(value) if isinstance(value, float) else value for value in first.inputs]
    with view.inserting(fused.device, list(waits)):
        new = apply_op(
            resource,
            [probe.keys for probe in used],
            [probe.key_fields for probe in used],
            [probe.counts for probe in used],
            [probe.handles for probe in used],
            [indices for indices, _ in gradients],
            [grad for _, grad in gradients],
            *inputs,
            check_numerics=check_numerics,
            name=f"{_scope(fused)}/apply",
            **first.attrs,
        )
    view.note_originals(new, replaced)
    view.redirect_control(list(replaced), new)
    return new


def _answer_for_all_ranks(view: GraphView, request: tf.Operation) -> None:
    """What was asked of a table, with the parts of all ranks in the answer."""
    for op in request.outputs[0].consumers():
        if op.type not in ("TfBoosterTableSize", "TfBoosterTableExport"):
            continue
        before = {id(consumer) for tensor in op.outputs for consumer in tensor.consumers()}
        with view.inserting(HOST):
            if op.type == "TfBoosterTableSize":
                answers = [whole_tables.whole_size(op.outputs[0])]
            else:
                answers = whole_tables.whole_export(op.outputs)
        for tensor, answer in zip(op.outputs, answers):
            if answer is not tensor:
                view.redirect(tensor, answer, lambda reader, known=before: id(reader) in known)


def _put_beside(request: tf.Operation, handle: tf.Tensor) -> None:
    """The ops of t.size() and the like go where the table is, whatever tf.device they were made under; and they wait for what the request
    waits for: TensorFlow leaves out an op's control inputs that its inputs have."""
    for op in request.outputs[0].consumers():
        if op.type.startswith("TfBoosterTable"):
            set_device(op, handle.device)
        for before in request.control_inputs:
            add_control_input(op, before)


def _read_before_update(view: GraphView, pairs: List[Tuple[tf.Operation, tf.Operation]]) -> None:
    """Makes each update wait for the gathers that it trains, so that a step reads its rows as they were before it.

    TensorFlow leaves that order open. A gather that itself waits for the update stays behind it.
    """
    after = view.downstream(update for update, _ in pairs)
    for update, gather in pairs:
        # A gather behind some update needs a closer look, at the graph with the edges so far.
        if gather not in after or view.index().number[update] not in view.index().upstream([gather]):
            add_control_input(update, gather)


def _codes(view: GraphView, table: TablePlan, probes: AnyProbes) -> tf.Tensor:
    """The update's indices, which may be a lookup's codes themselves."""
    indices = table.update.indices
    return probes.codes(table, indices.op) if indices.op in table.groups else view.current(indices)


def _snake(op_name: str) -> str:
    """As TensorFlow names the Python function of an op: CenteredRMSProp -> centered_rms_prop."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_name).lower()


def _retire_variable(view: GraphView, table: TablePlan, result: PassResult) -> List[tf.Operation]:
    """Answers what still asks for the stand-in and its slots. Returns their handles, for all tables' to be removed at once."""
    if table.handle_op is None or table.existing is not None:
        return []
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
    return [table.handle_op, *_slot_ops(table)]


def _answer_nan(view: GraphView, place: SummaryInput, what: str, result: PassResult) -> None:
    """NaN in the shape that the summary wants; a histogram fails on NaN, and gets no values at all."""
    value = place.op.inputs[place.index]
    is_histogram = "Histogram" in place.op.type
    if _NAN not in value.op.name:  # Else another table has it already that the summary is of, too.
        with view.inserting(None):
            if is_histogram:
                shape = [0]
            elif value.shape.is_fully_defined():
                shape = value.shape.as_list()
            else:  # A number for each tag.
                shape = tf.shape(place.op.inputs[0]) if place.op.type == "ScalarSummary" else []
            nan = tf.fill(shape, tf.constant(float("nan"), value.dtype))
            # Hides the static shape: an edge moves only to a tensor of a shape that is compatible with the old one's.
            nan = tf.compat.v1.placeholder_with_default(nan, None, name=_NAN)
        update_input(place.op, place.index, nan)
    shows = "is empty" if is_histogram else "shows NaN"
    result.skipped.append((place.op.name, f"a summary of {what} {shows}: a table has no fixed rows to summarise"))


def _fused_change(fused: FusedTable) -> List[str]:
    if len(fused.tables) == 1:
        return []
    names = [f"'{table.name}'" for table in fused.tables]
    shown = ", ".join(names if len(names) <= 4 else [*names[:3], "…", names[-1]])
    ops = f"{_count(len(fused.probes), 'probe')}, {_count(len(fused.gathers), 'gather')}"
    if fused.existing is not None:
        return [f"tables {shown}: {ops} more for the table that they are"]
    ops += ", 1 update" if fused.trained else ""
    return [f"{len(names)} tables [{fused.dim}] are one, with {ops}: {shown}"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _change(table: TablePlan) -> str:
    lookups = _count(len(table.lookups), "lookup")
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
    if any(op_type.startswith(("ResourceApply", "ResourceSparseApply")) for op_type in view.index().types()):
        reason = (
            f"nothing updates the trainable table '{table.name}', but an optimizer updates other Variables: is it in the "
            "optimizer's var_list? (TensorFlow's DNN models of version 2 leave shared_embeddings untrained.)"
        )
        result.skipped.append((table.handle_op.name, reason))
        log.once(reason)
