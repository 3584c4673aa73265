"""The pass that has dots of pairs write to where they are joined, and their gradient read where it would be cut out.

A DLRM joins what the numbers became and 351 dots, [16 | 351]: two parts, whose copies there and back were 0.5 of the 2.8 ms that dots, gradient and
copies took at batch 2,048. The op that makes the dots copies the narrow part beside them; the gradient reads its columns of the wide one.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.columns import is_last, slices_of_joins
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.wide_tensors import order_of

_DOTS, _GRADIENT, _JOINED = "TfBoosterPairDots", "TfBoosterPairDotsGrad", "TfBoosterJoinedPairDots"


class _Cut(NamedTuple):
    """Slices of the gradient of a join, by the places of their parts, of which gradients of pairs read some.

    firsts: the first columns of the parts. readers: the gradients of pairs -> the place of the part that they read.
    """

    slices: Dict[int, tf.Operation]
    firsts: List[int]
    widths: List[int]
    readers: Dict[tf.Operation, int]


class JoinedPairDots(Pass):
    """Leaves out the copies between dots of pairs and the tensor in which they are joined, both ways; the same bits."""

    name = "joined_pair_dots"
    seeks = "pairs of pass pair_dots beside other columns"

    def requires(self, view: GraphView) -> bool:
        """Whether there are dots that are joined, or a gradient of them that is cut out."""
        beside = [reader for op in view.ops(_DOTS) for reader in op.outputs[0].consumers()]
        cut = [op for op in view.ops(_GRADIENT) if skip_identity(op.inputs[0]).op.type == "Slice"]
        return any(op.type == "ConcatV2" and _is_read(op) for op in beside) or any(map(_is_read, cut))

    def run(self, view: GraphView) -> PassResult:
        """Leaves dots that a step reads in another way as well, what XLA compiles, what is inside of control flow, and a GPU without kernels for it."""
        result = PassResult(self.name)
        live = set(executed(view, fetches_of(view).names))
        cuts = _cuts(view, live)
        joins = _joins(view, _live_after(view, live, cuts))
        for maker, join in joins:
            _write_joined(view, maker, join)
        for cut in cuts:
            _read_columns(view, cut)
        counts = (
            (len(joins), "joins, to which dots of pairs write"),
            (sum(len(cut.readers) for cut in cuts), "gradients of dots, which are read where they lie"),
        )
        result.changes = [f"{count} {what}" for count, what in counts if count]
        result.modified = bool(joins or cuts)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _JOINED)


def _is_read(op: tf.Operation) -> bool:
    return any(output.consumers() for output in op.outputs)


def _cuts(view: GraphView, live: Set[int]) -> List[_Cut]:
    number = view.index().number
    found = []
    for slices, widths in slices_of_joins(view):
        if None in widths or slices[min(slices)].inputs[0].shape.rank != 2:
            continue
        read_by: Dict[tf.Operation, int] = {}
        for place, op in slices.items():
            running = {reader for reader in readers(op.outputs[0]) if number[reader] in live}
            if running and all(_may_read_columns(view, reader, op) for reader in running):
                read_by.update((reader, place) for reader in running)
        if read_by:
            firsts = [sum(widths[:place]) for place in range(len(widths))]
            found.append(_Cut(slices, firsts, widths, read_by))
    return found


def _may_read_columns(view: GraphView, reader: tf.Operation, part: tf.Operation) -> bool:
    """Whether `reader` takes `part` for the gradient of its dots alone, as a whole tensor so far."""
    if reader.type != _GRADIENT or reader.get_attr("column") >= 0 or not view.is_plain(reader, _GRADIENT):
        return False
    beside = view.runs_on_cpu(reader) == view.runs_on_cpu(part)
    return beside and all(skip_identity(tensor).op is not part for tensor in reader.inputs[1:])


def _live_after(view: GraphView, live: Set[int], cuts: List[_Cut]) -> Set[int]:
    """The numbers of the ops that a step runs when the cuts are gone: the shapes of the parts of the join are not among them, if nobody fetches a cut."""
    number, before = view.index().number, list(view.index().before)
    for cut in cuts:
        wide = number[cut.slices[min(cut.slices)].inputs[0].op]
        for place, op in cut.slices.items():
            if place not in cut.readers.values():
                before[number[op]] = (wide,)
            else:
                for waiting in view.control_outputs(op):
                    own = before[number[waiting]]
                    before[number[waiting]] = tuple(wide if other == number[op] else other for other in own)
        for op in cut.readers:
            read = {tensor.op for tensor in op.inputs[1:]} | set(op.control_inputs)
            before[number[op]] = (wide, *(number[other] for other in read))
    was_read = {other for number in live for other in view.index().before[number]}
    return reached(live - was_read, before)


def _joins(view: GraphView, live: Set[int]) -> List[Tuple[tf.Operation, tf.Operation]]:
    """Pairs of the op that makes dots and the only op that reads them, a join."""
    units, taken = [], set()
    for maker in view.ops(_DOTS):
        joins = {reader for reader in maker.outputs[0].consumers() if view.index().number[reader] in live}
        join = next(iter(joins), maker)
        if len(joins) == 1 and join not in taken and _may_join(view, maker, join):
            taken.add(join)
            units.append(Unit((maker, join), ("joined", join.name)))
    return [group[0].ops for group in merge_groups(view, units)[0]]  # type: ignore[misc]


def _may_join(view: GraphView, maker: tf.Operation, join: tf.Operation) -> bool:
    if join.type != "ConcatV2" or join.device != maker.device or not is_last(join.inputs[-1], 2):
        return False
    parts = list(join.inputs)[:-1]
    once = sum(1 for part in parts if part.op is maker) == 1
    plain = all(view.is_plain(op, _JOINED) for op in (maker, join))
    beside = view.runs_on_cpu(maker) == view.runs_on_cpu(join)
    return once and plain and beside and all(part.shape.rank == 2 for part in parts)


def _write_joined(view: GraphView, maker: tf.Operation, join: tf.Operation) -> None:
    """Makes one op of both; nobody reads the dots by themselves."""
    order, others = order_of(list(join.inputs)[:-1], maker.outputs)
    waits = [op for op in dict.fromkeys([*maker.control_inputs, *join.control_inputs]) if op is not maker]
    with view.inserting(join.device, waits):
        joined = _native.ops().tf_booster_joined_pair_dots(
            parts=maker.inputs[:],
            others=others,
            dim=maker.get_attr("dim"),
            pairs=maker.get_attr("pairs"),
            order=order,
            name="tf_booster/joined_pair_dots",
        )
    view.redirect(join.outputs[0], joined)
    view.redirect_control([maker, join], joined.op)
    view.note_originals(joined.op, [maker, join])


def _read_columns(view: GraphView, cut: _Cut) -> None:
    for op, place in cut.readers.items():
        part = cut.slices[place]
        wide = part.inputs[0]
        gone = swallowed([op], [wide, *op.inputs[1:], *part.inputs[1:]])
        with view.inserting(op.device, gone.control_inputs):
            made = _native.ops().tf_booster_pair_dots_grad(
                gradient=wide,
                parts=op.inputs[1:],
                dim=op.get_attr("dim"),
                pairs=op.get_attr("pairs"),
                column=cut.firsts[place],
                name="tf_booster/pair_dots_grad",
            )
        view.redirect_all(list(zip(op.outputs, made)))
        view.redirect_control([op], made[0].op)
        view.note_originals(made[0].op, [op])
        # The other parts are given out when all of them are there.
        view.redirect_control([part], wide.op)
    # The others asked for the shapes of the parts of the join, and so for dots by themselves.
    for place, op in cut.slices.items():
        if place in cut.readers.values() or not op.outputs[0].consumers():
            continue
        with view.inserting(op.device, op.control_inputs):
            begin, size = [0, cut.firsts[place]], [-1, cut.widths[place]]
            new = tf.slice(op.inputs[0], begin, size, name="tf_booster/pair_dots_grad/beside")
        view.redirect(op.outputs[0], new)
        view.redirect_control([op], new.op)
        view.note_originals(new.op, [op])
