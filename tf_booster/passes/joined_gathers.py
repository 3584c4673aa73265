"""The pass that gathers columns of one shape by the same positions together, where they are joined behind it.

TF-Ranking takes the documents of each list in another order, feature by feature: a GatherNd and two reshapes of each of a hundred columns of one number, whose
results are then put beside each other. Columns that are joined before are gathered by one op, a row at a time in place of a number.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import AbstractSet, Hashable, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.dimensions import Dimensions
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.shape_tricks import SHAPE_OPS, waits

FEWEST = 4  # Columns that are gathered by the same positions.
WIDEST = 16  # Numbers of a column. Wider ones are gathered as fast one by one, and to join rows that are not gathered costs more.
_JOIN = "TfBoosterConcatColumns"
_RESHAPES = ("Reshape", "Squeeze", "ExpandDims", "Identity")


class JoinedGathers(Pass):
    """Joins what many GatherNds read, and gathers once; the same bits."""

    name = "joined_gathers"
    seeks = "columns that are gathered by the same positions (tf.gather_nd) and joined"

    def requires(self, view: GraphView) -> bool:
        """Whether there are joins that pass columns has made, and gathers."""
        return bool(view.ops("GatherNd") and view.ops(_JOIN))

    def run(self, view: GraphView) -> PassResult:
        """Leaves what a step reads elsewhere, waits for something, or might be of several shapes."""
        result = PassResult(self.name)
        live = executed_ops(view)
        dimensions = Dimensions(live)
        gathers = 0
        for join in view.ops(_JOIN):
            runs = _runs(view, join, live, dimensions) if join in live else []
            if any(len(run) >= FEWEST for run in runs):
                _gather_joined(view, join, runs)
                gathers += sum(len(run) for run in runs if len(run) >= FEWEST)
        if gathers:
            result.changes.append(f"{gathers} columns are joined before they are gathered, by one GatherNd a join")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """What was replaced has no consumers any more; run() redirected them all."""


@dataclasses.dataclass(frozen=True)
class _Part:
    """A part of a join. key: parts that are one may be gathered together, None for one that stays. chain: its ops, from the join back to the gather."""

    tensor: tf.Tensor
    key: Optional[Hashable] = None
    chain: Tuple[tf.Operation, ...] = ()

    def columns(self) -> tf.Tensor:
        """What is gathered, before reshapes that came back to its shape."""
        tensor = found = self.chain[-1].inputs[0]
        while tensor.op.type == "Reshape" and not tensor.op.control_inputs and not waits(tensor.op.inputs[1]):
            tensor = tensor.op.inputs[0]
            if tensor.shape.is_fully_defined() and tensor.shape == found.shape:
                found = tensor
        return found


def _runs(
    view: GraphView, join: tf.Operation, live: AbstractSet[tf.Operation], dimensions: Dimensions
) -> List[List[_Part]]:
    """The parts of `join`; those that follow each other and may be gathered together in one list."""
    parts = [_part(view, join, tensor, live, dimensions) for tensor in join.inputs]
    by_key = itertools.groupby(enumerate(parts), lambda part: (part[1].key, part[0] if part[1].key is None else 0))
    return [[part for _, part in run] for _, run in by_key]


def _part(
    view: GraphView, join: tf.Operation, tensor: tf.Tensor, live: AbstractSet[tf.Operation], dimensions: Dimensions
) -> _Part:
    chain: List[tf.Operation] = []
    while not chain or chain[-1].type in _RESHAPES:
        chain.append(chain[-1].inputs[0].op if chain else tensor.op)
    gather = chain[-1]
    if gather.type != "GatherNd" or tensor.shape.rank != 2 or not _gathers_rows(gather, tensor.shape[1]):
        return _Part(tensor)
    sizes = dimensions.of(gather.inputs[0])
    if not all(_is_free(view, op, join) for op in chain):
        return _Part(tensor)
    inside = {join, *chain}
    if any(
        reader in live and not _serves(reader, inside, live) for op in chain for reader in op.outputs[0].consumers()
    ):
        return _Part(tensor)
    positions = skip_identity(gather.inputs[1])
    # Gathers by the same positions may take them from tensors of several sizes, which cannot be joined.
    return _Part(tensor, (positions.name, tuple(sizes[:-1])), tuple(chain))


def _gathers_rows(gather: tf.Operation, width: Optional[int]) -> bool:
    """Whether `gather` gives rows of `width` numbers, for lists of positions: a few rows out of many are better taken where they are."""
    values, positions = (tensor.shape for tensor in gather.inputs)
    if not width or width > WIDEST or values.rank is None or positions.rank is None or positions.rank < 3:
        return False
    return values[-1] == width and positions[-1] == values.rank - 1


def _is_free(view: GraphView, op: tf.Operation, join: tf.Operation) -> bool:
    """Whether `op` waits for nothing, and runs where `join` does."""
    if op.control_inputs or op.device != join.device or not view.is_plain(op):
        return False
    return op.type != "Reshape" or not waits(op.inputs[1])


def _serves(op: tf.Operation, inside: Set[tf.Operation], live: AbstractSet[tf.Operation]) -> bool:
    """Whether `op` is of `inside`, or computes a shape that nothing else reads."""
    if op in inside:
        return True
    if op.type not in ("Shape", *SHAPE_OPS):
        return False
    return all(_serves(reader, inside, live) for out in op.outputs for reader in out.consumers() if reader in live)


def _gather_joined(view: GraphView, join: tf.Operation, runs: Sequence[Sequence[_Part]]) -> None:
    old = [join]
    with view.inserting(join.device, join.control_inputs):
        joined: List[tf.Tensor] = []
        for run in runs:
            if len(run) < FEWEST:
                joined += [part.tensor for part in run]
            else:
                joined.append(_gathered(run))
                old += dict.fromkeys(op for part in run for op in part.chain)
        new = joined[0] if len(joined) == 1 else _joined(joined, "tf_booster/concat")
    view.redirect(join.outputs[0], new)
    view.stand_in(new.op, old)


def _gathered(run: Sequence[_Part]) -> tf.Tensor:
    gather = run[0].chain[-1]
    wide = _joined([part.columns() for part in run], "tf_booster/gather/columns")
    rows = tf.raw_ops.GatherNd(params=wide, indices=gather.inputs[1], name="tf_booster/gather")
    number = run[0].tensor.shape[0]
    return tf.reshape(rows, [-1 if number is None else number, wide.shape[-1]], name="tf_booster/gather/rows")


def _joined(values: Sequence[tf.Tensor], name: str) -> tf.Tensor:
    return _native.ops().tf_booster_concat_columns(values=values, name=name)
