"""The pass that has XLA compile what goes by row of batches of unknown size, their rows padded to few sizes. docs/design/xla_padding.md tells more."""

from __future__ import annotations

from typing import Dict, List, Sequence

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import named_features
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.xla import TOO_OLD
from tf_booster.passes.xla_clusters import describe
from tf_booster.passes.xla_ops import COMPILED
from tf_booster.passes.xla_padding_edit import pad
from tf_booster.passes.xla_padding_plan import MOST_ROWS, Cluster, plan
from tf_booster.passes.xla_rows import find_row_ops

_MADE = ("TfBoosterPadRows", "TfBoosterTakeFirstRows")
_SCOPE = "tf_booster_xla_padded_{}"
_TRAINS = "the graph trains or evaluates: sums over a batch would take in what it is padded with, and its gradients read what a cluster could keep to itself"


class XlaPadding(Pass):
    """Compiles clusters of ops that go by row, for batches whose rows are padded to few sizes; graphs that predict only."""

    name = "xla_padding"
    seeks = "ops of an unknown batch that go by row"

    def requires(self, view: GraphView) -> bool:
        """Whether there are ops that XLA takes, and the graph is not rewritten yet."""
        return not view.ops("TfBoosterPadRows") and any(kind in COMPILED for kind in view.index().types())

    def run(self, view: GraphView) -> PassResult:
        """Leaves products, what mixes rows, what XLA computes otherwise, and clusters that would not pay."""
        result = PassResult(self.name)
        obstacle = TOO_OLD if not _compat.xla_leaves_unmarked_ops() else _TRAINS if named_features.trains(view) else ""
        if obstacle:
            result.skipped.append(("the graph", obstacle))
            return result
        known = named_features.features_of(view)
        names = dict.fromkeys([*fetches_of(view).names, *sorted(known.also_fetched)])
        fetched = [view.graph.get_operation_by_name(name) for name in names]
        order = [view.index().ops[number] for number in executed(view, list(names))]
        rows = find_row_ops(view, order)
        work = plan(view, order, fetched, rows, known.fed_together)
        result.skipped += _told(rows.reasons)
        if work.left:
            result.skipped.append(
                (f"{work.left} ops", f"in groups that pay, if at all, for batches of more than {MOST_ROWS} rows")
            )
        if not work.clusters:
            return result
        scopes = [_SCOPE.format(cluster.ops[0].name) for cluster in work.clusters]
        pad(view, rows, work.clusters, scopes)
        result.changes += [_change(scope, cluster) for scope, cluster in zip(scopes, work.clusters)]
        view.supersede(work.superseded)
        result.changes.append(
            f"{len(work.clusters)} cluster(s) for batches of any size: each is compiled at most twice for each doubling of the batch, up to 2,048 "
            "rows 13 times, for each set of fetches that needs it"
        )
        result.modified = result.other_bits = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *_MADE)


def _change(name: str, cluster: Cluster) -> str:
    count, kinds = describe(cluster.ops)
    return (
        f"cluster {name}: {count} ops ({kinds}, …), {len(cluster.entries)} tensor(s) padded, {len(cluster.exits)} cut back; "
        f"batches of less than {cluster.fewest} rows are TensorFlow's"
    )


def _told(reasons: Dict[str, List[tf.Operation]]) -> List[tuple]:
    return [(_named(ops), reason) for reason, ops in reasons.items()]


def _named(ops: Sequence[tf.Operation]) -> str:
    kinds = describe(list(ops), most=2)[1]
    return f"{ops[0].name}{f' and {len(ops) - 1} more' if len(ops) > 1 else ''} ({kinds})"
