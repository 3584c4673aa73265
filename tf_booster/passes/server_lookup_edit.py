"""Puts the ops of one request in the graph: what goes to the process of the rows, what comes back, and the gradients."""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Sequence, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView, set_device, update_input
from tf_booster.passes.matching import readers
from tf_booster.passes.server_lookup_plan import GRADIENT, Lookup, Place, behind, lists_of, moves_along
from tf_booster.passes.servers import task_of
from tf_booster.passes.shape_tricks import copies_of


def exchange(
    view: GraphView, lookups: Sequence[Lookup], sent_together: Dict[tf.Operation, int], live: Set[tf.Operation]
) -> int:
    """Has `lookups`, all of one process, ask by one tensor, get one back and, for those that are summed up there, send one of gradients.

    sent_together: as in Plan. live: the ops that a step runs. Returns how many tensors of gradients there are. Ops of sparse_lookups go on with what is taken from them: leave_out() is to follow.
    """
    there, here = lookups[0].gather.device, lookups[0].ids.op.device
    follows = behind(view, lookups)
    sent, kept = _request(view, lookups, here)
    with view.inserting(there):
        ids = _native.ops().tf_booster_requested_ids(
            sent=sent, N=len(lookups), Tids=lookups[0].ids.dtype, name="tf_booster/requested_ids"
        )
        reply = _native.ops().tf_booster_lookup_reply(
            sent=sent, rows=[lookup.rows for lookup in lookups], name="tf_booster/lookup_reply"
        )
    task = task_of(lookups[0].gather)
    joins = _move_joins(view, lookups, live)
    for lookup, new in zip(lookups, ids):
        view.redirect(lookup.ids, new, lambda op: (op in follows or op in joins) and task_of(op) == task)
    _results(view, lookups, reply, kept, here)
    return _gradients(view, lookups, sent, kept, sent_together)


def _move_joins(view: GraphView, lookups: Sequence[Lookup], live: Set[tf.Operation]) -> Set[tf.Operation]:
    """Puts joins of gradients, and of the ids that belong to them, to their only readers. Returns them."""
    there, task = lookups[0].gather.device, task_of(lookups[0].gather)
    joins: Dict[tf.Operation, None] = {}
    for lookup in lookups:
        if lookup.gradients:
            tensors = [lookup.ids, *(place.op.outputs[place.number] for place in lookup.gradients)]
            found = [op for tensor in tensors for op in readers(tensor)]
            joins.update(dict.fromkeys(op for op in found if op in live and moves_along(op, task, live)))
    for op in joins:
        axis = tf.get_static_value(op.inputs[-1])
        with view.inserting(there):
            update_input(op, len(op.inputs) - 1, tf.constant(axis, op.inputs[-1].dtype, name="tf_booster/axis"))
        set_device(op, there)
    return set(joins)


def _request(view: GraphView, lookups: Sequence[Lookup], device: str) -> Any:
    pooled = [lookup.pooling for lookup in lookups if lookup.pooling is not None]
    lists: Dict[str, List[tf.Tensor]] = {}
    for name in ("idx", "row_splits", "zero_rows", "weights"):
        lists[name] = [tensor for tensor in (place.input(name) for place in pooled) if tensor is not None]

    def has(name: str) -> List[bool]:
        return [lookup.pooling is not None and lookup.pooling.input(name) is not None for lookup in lookups]

    with view.inserting(device):
        return _native.ops().tf_booster_lookup_request(
            ids=[lookup.ids for lookup in lookups],
            **lists,
            element_bytes=lookups[0].rows.dtype.size,
            dims=[lookup.rows.shape.as_list()[1] for lookup in lookups],
            combiners=["none" if lookup.pooling is None else lookup.pooling.combiner for lookup in lookups],
            trained=[bool(lookup.gradients) for lookup in lookups],
            zeroed=has("zero_rows"),
            weighted=has("weights"),
            name="tf_booster/lookup_request",
        )


def _results(view: GraphView, lookups: Sequence[Lookup], reply: tf.Tensor, kept: tf.Tensor, device: str) -> None:
    replaced = [_result_of(lookup) for lookup in lookups]
    with view.inserting(device):
        results = _native.ops().tf_booster_replied_lookups(
            reply=reply,
            kept=kept,
            N=len(lookups),
            shapes=[tensor.shape for tensor in replaced],
            name="tf_booster/replied_lookups",
        )
    task = task_of(lookups[0].gather)
    originals = []
    for lookup, old, new in zip(lookups, replaced, results):
        originals.append(old.op)
        if lookup.pooling is None:
            for copy in copies_of(old):
                view.redirect(copy, new, lambda op: task_of(op) != task)
            continue
        if lookup.pooling.op.control_inputs:
            with view.inserting(device, lookup.pooling.op.control_inputs):
                new = tf.identity(new, name="tf_booster/replied_lookup")
        view.redirect_all([(old, new)])
    view.note_originals(results[0].op, originals)


def _result_of(lookup: Lookup) -> tf.Tensor:
    return lookup.rows if lookup.pooling is None else lookup.pooling.op.outputs[lookup.pooling.number]


def _gradients(
    view: GraphView, lookups: Sequence[Lookup], sent: tf.Tensor, kept: tf.Tensor, sent_together: Dict[tf.Operation, int]
) -> int:
    groups: Dict[int, List[Any]] = collections.defaultdict(list)
    for number, lookup in enumerate(lookups):
        for place in lookup.gradients:
            groups[sent_together[place.op]].append((number, place))
    for members in groups.values():
        numbers, places = [number for number, _ in members], [place for _, place in members]
        ops = list(dict.fromkeys(place.op for place in places))
        old = [place.op.outputs[place.number] for place in places]
        with view.inserting(ops[0].device, list(dict.fromkeys(c for op in ops for c in op.control_inputs))):
            packed = _native.ops().tf_booster_send_gradients(
                kept=kept,
                grads=[place.input("grads") for place in places],
                places=numbers,
                name="tf_booster/send_gradients",
            )
        with view.inserting(lookups[0].gather.device):
            row_grads = _native.ops().tf_booster_sent_gradients(
                sent=sent,
                packed=packed,
                places=numbers,
                M=len(places),
                shapes=[tensor.shape for tensor in old],
                name="tf_booster/sent_gradients",
            )
        view.redirect_all(list(zip(old, row_grads)))
        view.note_originals(row_grads[0].op, ops)
    return len(groups)


def leave_out(view: GraphView, lookups: Sequence[Lookup]) -> None:
    """Nothing reads what sparse_lookups' ops did of `lookups` any more: ops without them take their places."""
    gone: Dict[tf.Operation, List[Place]] = collections.defaultdict(list)
    for lookup in lookups:
        if lookup.pooling is not None:
            for place in (lookup.pooling, *lookup.gradients, *lookup.unread):
                gone[place.op].append(place)
    for op, places in gone.items():
        _make_smaller(view, op, places)


def _make_smaller(view: GraphView, op: tf.Operation, gone: Sequence[Place]) -> None:
    view.supersede([op])
    numbers = {place.number for place in gone}
    rest = [number for number in range(op.get_attr("N")) if number not in numbers]
    if not rest:
        return
    lists = {name: [tensors[i] for i in rest] if tensors else [] for name, tensors in lists_of(op).items()}
    make = _native.ops().tf_booster_pool_lookups
    if op.type == GRADIENT:
        make = _native.ops().tf_booster_pool_lookups_grad
    with view.inserting(op.device, op.control_inputs):
        made = make(**lists, combiners=[op.get_attr("combiners")[i] for i in rest], name=op.name)
    view.redirect_all([(op.outputs[i], new) for i, new in zip(rest, made)])
    view.note_originals(made[0].op, [op])
