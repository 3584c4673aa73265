"""The pass that computes what depends on repeated features alone once for each distinct row of them. docs/design/repeated_features.md tells more.

A model that ranks candidates is given one user's features in every row of the batch. Their lookups and their tower are the same in all of
these rows; they are computed for the distinct users, and expanded where candidates' features come in.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import log
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.named_features import NamedFeatures, Sparse, features_of, trains
from tf_booster.passes.repeated_edit import Few, copy_region, expand, used_features
from tf_booster.passes.repeated_plan import Plan, plan
from tf_booster.passes.repeated_region import Region, find_region
from tf_booster.passes.row_rules import HEAVY, PRODUCTS
from tf_booster.passes.sources import Sources

_MADE = ("TfBoosterRepeatedRows", "TfBoosterTakeRows", "TfBoosterTakeSparseRows")
_NAMES_IN_REPORT = 8
_REASONS_IN_LOG = 3


class RepeatedFeatures(Pass):
    """Computes what is made of the features `names` alone once for each distinct row of them; graphs that predict only."""

    name = "repeated_features"
    seeks = "features of a graph that predicts, of those that repeated_features names"

    def __init__(self, names: Sequence[str]):
        self._names = tuple(names)

    def requires(self, view: GraphView) -> bool:
        """Whether features are named, and the graph predicts and is not rewritten yet."""
        if not self._names or view.ops("TfBoosterRepeatedRows"):
            return False
        known = features_of(view)
        return bool(known.missing) and not trains(view) or bool(known.features)

    def run(self, view: GraphView) -> PassResult:
        """Leaves features that the graph has not, or whose rank is not static, and all from the first op on that is not known to go by row."""
        result = PassResult(self.name)
        known = features_of(view)
        features = self._chosen(known, result)
        fetched = self._fetched(view, known)
        region = find_region(view, _live(view, fetched), features)
        work = plan(region, fetched)
        result.skipped += region.refused
        obstacle = "" if known.fed_together else _widened(view, region, work, features, fetched)
        if obstacle:
            result.skipped.append((obstacle, "a fetch of it would need features that it does not need now"))
        if obstacle or not work.expanded:
            if features and not obstacle:
                result.note = "nothing that is worth it depends on the named features alone"
            _tell(result)
            return result
        used = used_features(region, work, features)
        few = Few(view, used)
        copies = copy_region(view, region, work, few)
        expand(view, region, work, few, copies)
        gone = work.superseded(region)
        view.supersede(gone)
        for op in gone:
            if op in copies:
                view.note_originals(copies[op], [op])
        result.changes += _changes(region, work, list(used))
        result.modified = True
        result.other_bits = any(op.type in PRODUCTS for op in work.copied)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *_MADE)

    def _chosen(self, known: NamedFeatures, result: PassResult) -> Dict[str, Any]:
        """The named features that can be looked through for rows; why the others cannot goes to the result."""
        chosen: Dict[str, Any] = {}
        for name in self._names:
            if known.missing:
                result.skipped.append((name, known.missing))
                continue
            feature, reason = _usable(known, name)
            if reason:
                result.skipped.append((name, reason))
            else:
                chosen[name] = feature
        return chosen

    @staticmethod
    def _fetched(view: GraphView, known: NamedFeatures) -> List[tf.Operation]:
        names = dict.fromkeys([*fetches_of(view).names, *sorted(known.also_fetched)])
        return [view.graph.get_operation_by_name(name) for name in names]


def _tell(result: PassResult) -> None:
    """Says in the log why nothing is gained: behind a training, the report that is shown goes on being that of the training."""
    reasons = [*[result.note] * bool(result.note), *(f"{name}: {reason}" for name, reason in result.skipped)]
    more = f"; and {len(reasons) - _REASONS_IN_LOG} more" if len(reasons) > _REASONS_IN_LOG else ""
    said = "; ".join(reasons[:_REASONS_IN_LOG]) + more
    log.once(f"repeated_features: a graph that predicts computes nothing for fewer rows: {said}")


def _usable(known: NamedFeatures, name: str) -> Tuple[Optional[Any], str]:
    """The feature `name` as the pass takes it, or why not."""
    if name not in known.features:
        others = sorted(known.features)
        listed = ", ".join(map(repr, others[:_NAMES_IN_REPORT])) + (", …" if len(others) > _NAMES_IN_REPORT else "")
        return None, f"the graph has no feature of this name; it has {listed or 'none'}"
    feature = known.features[name]
    if isinstance(feature, (tf.SparseTensor, Sparse)):
        parts = Sparse(feature.indices, feature.values, feature.dense_shape)
        if parts.indices.shape.rank != 2 or parts.indices.shape[1] is None:
            return None, "the rank of its SparseTensor is not known when the graph is built"
        return parts, ""
    if not isinstance(feature, tf.Tensor):
        return (
            None,
            f"it is a {type(feature).__name__}; Tensors and SparseTensors can be looked through for rows that repeat",
        )
    if not feature.shape.rank:
        return None, f"its shape {feature.shape} has no dimension that is known to be the batch's"
    return feature, ""


def _live(view: GraphView, fetched: Sequence[tf.Operation]) -> List[tf.Operation]:
    index = view.index()
    return [index.ops[number] for number in executed(view, [op.name for op in fetched])]


def _widened(
    view: GraphView, region: Region, work: Plan, features: Dict[str, Any], fetched: Sequence[tf.Operation]
) -> str:
    """The name of a fetch that would wait for feeds that it does not wait for now; "" for none."""
    index, sources = view.index(), Sources(view.graph)
    copied = {index.number[op] for op in work.copied}
    used = used_features(region, work, features).values()
    needed = _sources_of(
        view, sources, index.upstream({tensor.op for feature in used for tensor in tf.nest.flatten(feature)})
    )
    for op in fetched:
        upstream = index.upstream([op])
        if upstream & copied and not needed <= _sources_of(view, sources, upstream):
            return op.name
    return ""


def _sources_of(view: GraphView, sources: Sources, numbers: Set[int]) -> Set[int]:
    ops = view.index().ops
    return {number for number in numbers if sources.is_source(ops[number])}


def _changes(region: Region, work: Plan, features: Sequence[str]) -> List[str]:
    heavy = sum(op.type in HEAVY for op in work.copied)
    said = ", ".join(map(repr, features))
    lines = [
        f"{len(work.copied)} ops, {heavy} of them lookups, products and the like, once for each distinct row of {said}"
    ]
    for ref, readers in work.expanded.items():
        tensor = ref.deref()
        first = readers[0]
        others = f" and {len(readers) - 1} more" if len(readers) > 1 else ""
        lines.append(f"'{tensor.op.name}' is expanded to all rows for '{first.name}' ({first.type}){others}")
    return lines
