"""Sums what ranks tell of their input, where no other collective has taken it along; and reports how the input is divided."""

from __future__ import annotations

from typing import List

from tf_booster.parallel import collectives, row_weights
from tf_booster.parallel.rank_input import NOTES
from tf_booster.parallel.row_weights import RowWeights
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.graph_view import GraphView

_OWN = ("tf_booster", "own_row_sums")


class InputOverRanks(Pass):
    """All ranks learn in each step whether one of them has another batch."""

    name = "input_over_ranks"
    seeks = "input that ranks must end together"
    essential = True  # Without it a rank that has run dry would go on for ever.

    def requires(self, view: GraphView) -> bool:
        return bool(view.graph.get_collection(NOTES)) or _to_sum(view)

    def run(self, view: GraphView) -> PassResult:
        notes: List[str] = view.graph.get_collection(NOTES)
        result = PassResult(self.name, changes=list(notes))
        if _to_sum(view):
            with view.inserting("/cpu:0"):
                weights = row_weights.row_weights(view.graph)
                sums = collectives.all_reduce_packed(list(weights), "other", "row_weights")
            row_weights.register_sums(view.graph, RowWeights(*sums))
            view.graph.add_to_collection(_OWN, sums[0].op.name)
            result.modified = True
            result.changes.append("one small all-reduce tells all ranks when none has another batch")
        return result

    def ensures(self, view: GraphView) -> None:
        """No op that was there has changed."""


def _to_sum(view: GraphView) -> bool:
    graph = view.graph
    if row_weights.row_weights(graph) is None or graph.get_collection(_OWN):
        return False
    # Sums beside gradients would make an evaluation compute gradients.
    return row_weights.summed_row_weights(graph) is None or not row_weights.trains(graph)
