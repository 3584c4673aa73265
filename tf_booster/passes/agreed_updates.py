"""The pass that has ranks agree on what updates depend on besides gradients.

Ranks' gradients are summed; but an update may also read a learning rate or a scale that is computed of the loss or the batch, or be in a tf.cond that asks
about them. With each rank's own the replicated Variables would go apart, and nothing would tell. What reads the loss reads that of the joined batch. Other
conditions hold where they do on all ranks: a step whose batch is not finite on one of them is left out by all. Other single numbers are the mean of
all ranks'; of random numbers, and of what is fed, rank 0's are taken. What cannot be agreed on is told.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Set

import tensorflow as tf

from tf_booster import log
from tf_booster.parallel import collectives, ranks
from tf_booster.parallel.gradient_sums import Reduction, reduce_dense
from tf_booster.parallel.loss_reduction import AVERAGE, SUM, loss_reduction
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.parallel.regularisers import regularisers, value_of
from tf_booster.parallel.row_weights import row_weights
from tf_booster.parallel.told_loss import told_loss
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.gradient_plan import fetches_that_need
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.own_inputs import OwnInput, OwnInputs
from tf_booster.passes.table_placement import HOST

_RANDOM = re.compile(r"(Stateful|Stateless)?(Random|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial)\w*")


class AgreedUpdates(Pass):
    """Makes what is not a gradient of what an update reads the same on all ranks.

    Args:
      size: how many ranks there are; nothing is done for one.
      gradient_reduction: "average" or "sum", for losses that no canned head made.
    """

    name = "agreed_updates"
    seeks = "update that reads more of a rank's own input than its gradient"
    essential = True  # Ranks that go on without it would each train a model of its own.

    def __init__(self, size: int, gradient_reduction: str = AVERAGE):
        self._size, self._option = size, gradient_reduction

    def requires(self, view: GraphView) -> bool:
        """Whether an update reads something that ranks have each their own of."""
        return self._size > 1 and bool(OwnInputs(view).found)

    def run(self, view: GraphView) -> PassResult:
        """Tells of what stays each rank's own."""
        result = PassResult(self.name)
        inputs = OwnInputs(view)
        for loss in _losses(view):
            readers = inputs.readers_of(loss)
            if readers:
                self._join(view, loss, readers, result)
                inputs = OwnInputs(view)
        for own in _sorted(inputs).conditions:
            self._agree(view, own, result)
        by_kind = _sorted(OwnInputs(view))
        for i, group in enumerate(_of_one_train_op(view, by_kind.first)):
            self._take_first(view, group, f"first_{i}", result)
        for i, group in enumerate(_of_one_train_op(view, by_kind.numbers)):
            self._average(view, group, f"numbers_{i}", result)
        for own in by_kind.others:
            reason = "each rank computes it of its own input and updates Variables by it, which differ between ranks from then on"
            result.skipped.append((own.tensor.name, reason))
            log.once(f"tensor '{own.tensor.name}': {reason}")
        result.modified = bool(result.changes)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing is left that ranks can agree on."""
        left = _sorted(OwnInputs(view))
        for own in (*left.conditions, *left.first, *left.numbers):
            raise RewriteError(f"Ranks do not agree on '{own.tensor.name}'.")

    def _join(self, view: GraphView, loss: tf.Tensor, readers: Set[tf.Operation], result: PassResult) -> None:
        """Has what leads to updates, but not to gradients, read the loss of the joined batch."""
        how = loss_reduction(view.graph, self._option)
        with view.inserting(None), collectives.scope("dense"):
            constant = value_of(regularisers(view, loss), loss) if how.kind == SUM else None
            own = loss if constant is None else loss - constant
            (joined,), _ = reduce_dense(
                [own], Reduction(how.kind, self._size, row_weights(view.graph)), "loss_of_updates"
            )
            joined = joined if constant is None else joined + constant
        view.redirect(loss, joined, readers.__contains__)
        result.changes.append(
            f"'{loss.name}' is the loss of all {self._size} ranks, where updates depend on it: by one all-reduce more"
        )

    def _agree(self, view: GraphView, own: OwnInput, result: PassResult) -> None:
        name = own.tensor.op.name
        with view.inserting(HOST):
            mine = tf.cast(own.tensor, tf.float32)
            (number,) = collectives.all_reduce_packed([mine], "other", f"condition_{name.replace('/', '_')}")
            agreed = number > self._size - 0.5
        view.redirect(own.tensor, agreed, own.readers.__contains__)
        result.changes.append(f"all {self._size} ranks take a step by '{name}', or none: by one all-reduce more")

    def _take_first(self, view: GraphView, found: Sequence[OwnInput], name: str, result: PassResult) -> None:
        share = float(ranks.current().rank == 0)
        with view.inserting(None), collectives.scope("other"):
            shares = [tf.math.multiply_no_nan(own.tensor, tf.constant(share, own.tensor.dtype)) for own in found]
            sums = collectives.all_reduce_packed(shares, "other", name)
        for own, new in zip(found, sums):
            view.redirect(own.tensor, new, own.readers.__contains__)
        result.changes.append(
            f"{len(found)} tensors of random or fed numbers that updates read are rank 0's: by one all-reduce more"
        )

    def _average(self, view: GraphView, found: Sequence[OwnInput], name: str, result: PassResult) -> None:
        reduction = Reduction(AVERAGE, self._size, row_weights(view.graph))
        with view.inserting(None), collectives.scope("dense"):
            means, _ = reduce_dense([own.tensor for own in found], reduction, name)
        for own, new in zip(found, means):
            view.redirect(own.tensor, new, own.readers.__contains__)
            reason = "each rank computes it of its own batch; updates read the mean of all, which may not be what the joined batch gives"
            result.skipped.append((own.tensor.name, reason))
            log.once(f"tensor '{own.tensor.name}': {reason}")
        result.changes.append(
            f"{len(found)} numbers that updates read are the mean of all {self._size} ranks': by one all-reduce more"
        )


class _Kinds(NamedTuple):
    conditions: List[OwnInput]
    first: List[OwnInput]
    numbers: List[OwnInput]
    others: List[OwnInput]


def _sorted(inputs: OwnInputs) -> _Kinds:
    kinds = _Kinds([], [], [], [])
    for own in inputs.found:
        if own.in_control_flow:
            kinds.others.append(own)
        elif own.tensor.dtype == tf.bool:
            kinds.conditions.append(own)
        elif all(map(_is_decided, inputs.sources_of(own.tensor))):
            kinds.first.append(own)
        elif own.tensor.shape.rank == 0:
            kinds.numbers.append(own)
        else:
            kinds.others.append(own)
    return kinds


def _of_one_train_op(view: GraphView, found: Sequence[OwnInput]) -> List[List[OwnInput]]:
    """Those that the same fetches need: a run of one train op must not wait for what another one reads."""
    keys = fetches_that_need(view, [own.tensor.op for own in found])
    groups: Dict[FrozenSet[int], List[OwnInput]] = {}
    for own in found:
        groups.setdefault(keys[own.tensor.op], []).append(own)
    return list(groups.values())


def _is_decided(source: tf.Operation) -> bool:
    """Whether rank 0's will do: a random number, or one that the program feeds, which is the same everywhere."""
    fed = source.type in ("Placeholder", "PlaceholderV2") and not source.outputs[0].shape.rank
    return fed or bool(_RANDOM.fullmatch(source.type))


def _losses(view: GraphView) -> List[tf.Tensor]:
    """What the gradients are of, and what the Estimator reads as its loss."""
    told = told_loss(view.graph)
    losses = [loss for mark in raw_gradients(view.graph) for loss in mark.losses] + (
        [told.op.inputs[0]] if told is not None else []
    )
    return list({loss.ref(): loss for loss in losses if loss.dtype.is_floating and loss.shape.rank == 0}.values())
