"""Parts of a wide tensor that are written, or read, where they lie in it: what passes that leave out joins and splits of columns share."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers
from tf_booster.passes.merging import Unit, merge_groups

JOIN, SPLIT = "TfBoosterConcatColumns", "TfBoosterSplitColumns"


class Columns(NamedTuple):
    """Columns of a wide tensor, from `first` on."""

    wide: tf.Tensor
    first: int


# Tensor.ref() -> where its values lie, too.
Places = Dict[object, Columns]


class CopiesLeftOut(Pass):
    """Leaves out the copies between what makes the parts of a join and the join, and between a split and what reads its parts; the same bits.

    who: in reports, those whose results are joined. makers, readers: types of the ops that have the results and read the parts. made: of
    the op that has both results and join.
    """

    who = makers = readers = made = ""

    def requires(self, view: GraphView) -> bool:
        """Whether there is what makes or reads parts, and joins or splits."""
        ours = view.ops(self.makers, self.readers)
        return any(op.outputs[0].consumers() for op in ours) and bool(view.ops(JOIN, SPLIT))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what a step reads in another way as well, and parts of which not all columns are known."""
        result = PassResult(self.name)
        splits, live = splits_read_by(view, self.reads_parts)
        upstream: Places = {}
        for op in splits:
            upstream.update(places(op.outputs, op.inputs[0]))
        joins = joins_of(view, live, self.makers, lambda maker, join: self.may_join(view, maker, join, live))
        joined: Places = {}
        for maker, join in joins:
            joined.update(self.write_joined(view, maker, join))
        for op in view.ops(self.readers):
            if view.index().number[op] in live:
                self.read_columns(view, op, upstream, joined)
        kinds = (f"joins, to which {self.who} write", "splits, which are read where they lie")
        result.changes = [f"{len(ops)} {kind}" for ops, kind in zip((joins, splits), kinds) if ops]
        result.modified = bool(joins or splits)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, self.made)

    def reads_parts(self, reader: tf.Operation, split: tf.Operation) -> bool:
        """Whether `reader` could read the parts of `split` where they lie."""
        raise TypeError(f"{type(self).__name__} does not define reads_parts()")

    def may_join(self, view: GraphView, maker: tf.Operation, join: tf.Operation, live: Set[int]) -> bool:
        """Whether `maker` could write to `join`; live: the numbers of the ops that a step runs."""
        raise TypeError(f"{type(self).__name__} does not define may_join()")

    def write_joined(self, view: GraphView, maker: tf.Operation, join: tf.Operation) -> Places:
        """Makes one op of both; returns where results lie in it of which there are no tensors any more."""
        raise TypeError(f"{type(self).__name__} does not define write_joined()")

    def read_columns(self, view: GraphView, op: tf.Operation, upstream: Places, joined: Places) -> None:
        """Makes the reader `op` read what has a place in a split's input, or in a join, from there."""
        raise TypeError(f"{type(self).__name__} does not define read_columns()")


def splits_read_by(
    view: GraphView, reads: Callable[[tf.Operation, tf.Operation], bool]
) -> Tuple[List[tf.Operation], Set[int]]:
    """The splits in a step all of whose readers read them so: reads(reader, split). And the numbers of the ops that a step runs when these are gone."""
    index = view.index()
    live = set(executed(view, fetches_of(view).names))
    splits = []
    for op in view.ops(SPLIT):
        read_by = {reader for output in op.outputs for reader in readers(output) if index.number[reader] in live}
        known = op.inputs[0].shape.rank == 2 and None not in widths(op.outputs)
        if read_by and known and all(reads(reader, op) for reader in read_by):
            splits.append(op)
    # What only tells such a split its sizes is not run either: it may read the shapes of the parts of the join.
    before = list(index.before)
    for op in splits:
        before[index.number[op]] = (index.number[op.inputs[0].op],)
    read = {other for number in live for other in index.before[number]}
    return splits, reached(live - read, before)


def joins_of(
    view: GraphView, live: Set[int], maker_type: str, can_write: Callable[[tf.Operation, tf.Operation], bool]
) -> List[Tuple[tf.Operation, tf.Operation]]:
    """Pairs of an op of `maker_type` and a join that has parts of it, which may be one op: of several joins of an op the widest. can_write(maker, join)."""
    number = view.index().number
    widest: Dict[tf.Operation, tf.Operation] = {}
    for join in view.ops(JOIN):
        parts = list(join.inputs)
        if number[join] not in live or join.outputs[0].shape.rank != 2 or None in widths(parts):
            continue
        by_op: Dict[tf.Operation, int] = {}
        for part in parts:
            if part.op.type == maker_type:
                by_op[part.op] = by_op.get(part.op, 0) + 1
        maker = max(by_op, key=by_op.__getitem__, default=None)
        if maker is not None and maker.device == join.device and can_write(maker, join):
            if maker not in widest or _width(join) > _width(widest[maker]):
                widest[maker] = join
    units = [Unit(pair, ("joined", pair[1].name)) for pair in widest.items()]
    return [group[0].ops for group in merge_groups(view, units)[0]]  # type: ignore[misc]


def order_of(parts: Sequence[tf.Tensor], made: Sequence[tf.Tensor]) -> Tuple[List[int], List[tf.Tensor]]:
    """The parts of a join as numbers, those of `made` first, then the other parts; and these others."""
    place = {tensor.ref(): i for i, tensor in enumerate(made)}
    others = [part for part in parts if part.ref() not in place]
    next_other = iter(range(len(made), len(made) + len(others)))
    return [place[part.ref()] if part.ref() in place else next(next_other) for part in parts], others


def places(parts: Sequence[tf.Tensor], wide: tf.Tensor) -> Places:
    """Where each part begins in the tensor that has them beside each other."""
    found, first = {}, 0
    for part in parts:
        found[part.ref()] = Columns(wide, first)
        first += part.shape[-1]
    return found


def _width(join: tf.Operation) -> int:
    return join.outputs[0].shape[-1]


def widths(tensors: Sequence[tf.Tensor]) -> List[Optional[int]]:
    """The columns of each tensor; None where they are not known."""
    return [tensor.shape[-1] if tensor.shape.rank else None for tensor in tensors]
