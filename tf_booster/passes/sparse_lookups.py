"""The pass that makes few ops of what stands around the gathers of sparse lookups. docs/design/graph_rewriting.md tells more.

embedding_lookup_sparse and safe_embedding_lookup_sparse build some 40 small ops in front of and behind a gather, and 20 for its
gradient. Of all lookups of a step, three ops are made: one that prepares ids, one that sums rows up, one that gives the
gradients of rows. What gathers in the middle stays: a Variable, partitions of one, max_norm, a hash table.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import ContextManager, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.lookup_front import LookupFront, match_front, without_hash
from tf_booster.passes.lookup_pooling import (
    COMBINERS,
    Pooling,
    PoolingGradient,
    match_gradients,
    match_poolings,
    pooling_anchors,
    zeroed_rows,
)
from tf_booster.passes.matching import REFERENCE_VARIABLE, is_of_reference_variable, skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.shape_tricks import copies_of
from tf_booster.passes.sparse_source import NotUnderstood
from tf_booster.passes.swallowed import Swallowed, swallowed

_DTYPES = (tf.float32, tf.float64)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What TfBoosterPrepareLookups gives for one lookup."""

    ids: tf.Tensor
    idx: tf.Tensor
    row_splits: tf.Tensor
    row_is_empty: Optional[tf.Tensor]
    weights: Optional[tf.Tensor]


@dataclasses.dataclass
class _Lookup:
    front: LookupFront
    pooling: Pooling
    gradients: List[PoolingGradient]
    prepared: Optional[Prepared] = None

    @property
    def name(self) -> str:
        return self.pooling.op.name


class SparseLookups(Pass):
    """Merges what stands in front of and behind the gathers of sparse lookups."""

    name = "sparse_lookups"
    seeks = "sparse lookup of Variables (embedding columns, tf.nn.embedding_lookup_sparse)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is summed up by segments."""
        anchors = view.ops(*pooling_anchors())
        return any(pooling.result.consumers() for pooling in match_poolings(anchors)) or bool(_of_references(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves lookups alone whose ops are not all understood, with the reason."""
        result = PassResult(self.name)
        lookups = _find(view, result)
        result.skipped += [(op.name, REFERENCE_VARIABLE) for op in _of_references(view)]
        groups, refused = merge_groups(view, [unit for lookup in lookups for unit in _units(view, lookup)])
        broken = {id(unit.payload[1]) for unit, _ in refused if unit.payload[0] != "gradients"}
        seen = set()
        for unit, reason in refused:
            lookup = unit.payload[1]
            # One reason a lookup is enough; its gradients may stay behind alone.
            if id(lookup) not in seen:
                seen.add(id(lookup))
                result.skipped.append((lookup.name, reason))
        made: Dict[str, List[int]] = collections.defaultdict(list)
        edits = {"prepare": _prepare, "pool": _pool, "gradients": _differentiate}
        for step, edit in edits.items():
            for group in groups:
                units = [u for u in group if u.payload[0] == step and id(u.payload[1]) not in broken]
                if units:
                    edit(view, units)
                    made[step].append(len(units))
        if made:
            result.modified = True
            result.changes.append(_change(made))
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        for op in view.ops("TfBoosterPoolLookups"):
            if not view.is_superseded(op) and not any(output.consumers() for output in op.outputs):
                raise RewriteError(f"Op '{op.name}' sums up lookups that nothing reads.")


def _of_references(view: GraphView) -> List[tf.Operation]:
    """What sums up rows of a reference Variable where they are: TensorFlow makes no Unique then."""
    sums = view.ops(*COMBINERS)
    return [op for op in sums if is_of_reference_variable(op.inputs[0]) and op.outputs[0].consumers()]


def _find(view: GraphView, result: PassResult) -> List[_Lookup]:
    found: Dict[tf.Operation, _Lookup] = {}
    for pooling in match_poolings(view.ops(*pooling_anchors())):
        if not pooling.result.consumers():
            continue  # Nothing reads it: a lookup of an earlier run of this pass, or one that is only fetched.
        reason = _obstacle(view, pooling, found)
        if reason:
            result.skipped.append((pooling.op.name, reason))
            continue
        try:
            lookup = _placed(view, _understood(pooling))
        except NotUnderstood as error:
            result.skipped.append((pooling.op.name, str(error)))
            continue
        lookup.gradients = [g for g in match_gradients(lookup.pooling) if g.op.outputs[0].consumers()]
        found[pooling.unique] = lookup
    lookups = list(found.values())
    users = collections.Counter(lookup.front.hash_op for lookup in lookups)
    for lookup in lookups:
        hash_op = lookup.front.hash_op
        if hash_op is not None and (users[hash_op] > 1 or _read_by_others(hash_op.outputs[0])):
            lookup.front = without_hash(lookup.front)
    return lookups


def _obstacle(view: GraphView, pooling: Pooling, found: Dict[tf.Operation, _Lookup]) -> str:
    if pooling.unique in found:
        return f"op '{pooling.unique.name}' serves another lookup too"
    if pooling.rows.dtype not in _DTYPES:
        return f"its embeddings are {pooling.rows.dtype.name}; float32 and float64 have fused ops"
    if pooling.rows.shape.rank != 2 or not pooling.rows.shape.as_list()[1]:
        return f"its embeddings have shape {pooling.rows.shape}, not [ids, dim] with a known dim"
    if view.elsewhere(pooling.op):
        return view.elsewhere(pooling.op)
    for fused in ("TfBoosterPoolLookups", "TfBoosterPoolLookupsGrad"):
        if not view.can_stand_for(pooling.op, fused, T=pooling.rows.dtype):
            return f"no GPU kernel of {fused}: it would move from the GPU to the CPU"
    return ""


def _understood(pooling: Pooling) -> _Lookup:
    weights = None if pooling.weights is None else pooling.weights.op.inputs[0]
    if weights is not None and weights.dtype != tf.float32:
        raise NotUnderstood(f"its weights are {weights.dtype.name}, not float32")
    front = match_front(pooling.unique, pooling.segment_ids, weights)
    if pooling.zeroed_by is not None:
        flags = zeroed_rows(pooling)
        if flags is None or front.fill is None or flags is not front.fill.outputs[2]:
            pooling = dataclasses.replace(pooling, result=pooling.op.outputs[0], zeroed_by=None)
    return _Lookup(front, pooling, [])


def _placed(view: GraphView, lookup: _Lookup) -> _Lookup:
    """On the GPU digits are not hashed: that stays on the host, as in TensorFlow. Strings never leave it."""
    front, unique = lookup.front, lookup.front.unique
    if view.runs_on_cpu(unique) or front.values.dtype == tf.string:
        return lookup
    if front.hash_op is not None:
        lookup.front = front = without_hash(front)
    types = {"T": front.values.dtype, "Tids": unique.inputs[0].dtype}
    if not view.can_stand_for(unique, "TfBoosterPrepareLookups", **types):
        raise NotUnderstood(f"no GPU kernel for ids of {types['T'].name}: they would move from the GPU to the CPU")
    return lookup


def _read_by_others(hashed: tf.Tensor) -> bool:
    """Whether ids go elsewhere than into the chain of a lookup, which picks and compares them."""
    return any(
        op.type not in ("Identity", "GatherV2", "GreaterEqual", "SparseFillEmptyRows", "Unique")
        for copy in copies_of(hashed)
        for op in copy.consumers()
    )


def _units(view: GraphView, lookup: _Lookup) -> List[Unit]:
    """What the lookup's ops become. Where the new op stands at the end of its chain, that end tells what is before it."""
    front, pooling = lookup.front, lookup.pooling
    device, weighted, zeroed = pooling.op.device, pooling.weights is not None, pooling.zeroed_by is not None
    rules = (front.fill is not None, front.prune_ids, front.prune_weights, front.weights is not None, front.dense)
    # For pass direct_lookups, which takes all lookups of an op or none.
    direct = not lookup.gradients and skip_identity(pooling.rows).op.type == "ResourceGather"
    starts = tuple(op for op in (front.unique, front.fill_weights, front.segment_op) if op is not None)
    kind = (front.values.dtype, front.unique.inputs[0].dtype, rules, device, direct)
    pooled = _swallowed_pooling(lookup)
    units = [
        Unit(starts, ("prepare", *kind), ("prepare", lookup)),
        Unit(pooled.ops, ("pool", pooling.rows.dtype, weighted, zeroed, device, direct), ("pool", lookup, pooled)),
    ]
    for gradient in lookup.gradients:
        key = ("gradients", pooling.rows.dtype, weighted, gradient.zeroed, device)
        gone = _swallowed_gradient(lookup, gradient)
        units.append(Unit((gradient.op,), key, ("gradients", lookup, gradient, gone)))
    return units


def _prepare(view: GraphView, units: List[Unit]) -> None:
    lookups = [unit.payload[1] for unit in units]
    # A wide and a deep part, or several towers, look the same ids up in Variables of their own: they are prepared once.
    prepared: Dict[Tuple, int] = {}
    places = [prepared.setdefault(_ids_of(lookup.front), len(prepared)) for lookup in lookups]
    fronts = [lookups[places.index(place)].front for place in range(len(prepared))]
    first = fronts[0]
    fill = first.fill is not None
    gone = [_swallowed_front(lookup.front) for lookup in lookups]
    with _inserting(view, lookups[0], gone):
        outputs = _native.ops().tf_booster_prepare_lookups(
            values=[front.values for front in fronts],
            indices=[] if first.dense else [front.indices for front in fronts],
            dense_shapes=[] if first.dense or not fill else [front.dense_shape for front in fronts],
            weights=[] if first.weights is None else [front.weights for front in fronts],
            Tids=first.unique.inputs[0].dtype,
            num_filled=len(fronts) if fill else 0,
            prune_ids=first.prune_ids,
            prune_weights=first.prune_weights,
            fill_rows=fill,
            default_ids=[front.default_id for front in fronts],
            leading_dims=[front.leading_dims for front in fronts],
            hash_buckets=[front.hash_buckets for front in fronts],
            name="tf_booster/prepare_lookups",
        )
    moves: List[Tuple[tf.Tensor, tf.Tensor]] = []
    for i, lookup in zip(places, lookups):
        unique = lookup.front.unique
        flags = outputs.row_is_empty[i] if fill else None
        weights = outputs.kept_weights[i] if first.weights is not None else None
        lookup.prepared = Prepared(outputs.ids[i], outputs.idx[i], outputs.row_splits[i], flags, weights)
        # Both or none: with the ids of one op, the places of another would be wrong.
        moves += [(copy, outputs.ids[i]) for copy in copies_of(unique.outputs[0])]
        moves.append((unique.outputs[1], outputs.idx[i]))
    view.redirect_all(moves)
    chains = [(k.front.hash_op, k.front.fill, k.front.fill_weights, k.front.unique) for k in lookups]
    view.note_originals(outputs.ids[0].op, [op for chain in chains for op in chain if op is not None])


def _ids_of(front: LookupFront) -> Tuple:
    """What a lookup's ids follow from, beside what all of a group have in common."""
    tensors = (front.values, front.indices, front.dense_shape, front.weights)
    same_if = tuple(None if tensor is None else tensor.ref() for tensor in tensors)
    return (*same_if, front.default_id, front.leading_dims, front.hash_buckets)


def _pool(view: GraphView, units: List[Unit]) -> None:
    lookups = [unit.payload[1] for unit in units]
    poolings = [lookup.pooling for lookup in lookups]
    gone = [unit.payload[2] for unit in units]
    with _inserting(view, lookups[0], gone):
        pooled = _native.ops().tf_booster_pool_lookups(
            rows=[pooling.rows for pooling in poolings],
            combiners=[pooling.combiner for pooling in poolings],
            name="tf_booster/pool_lookups",
            **_segments(lookups, poolings[0].zeroed_by is not None),
        )
    view.redirect_all([(copy, new) for p, new in zip(poolings, pooled) for copy in copies_of(p.result)])
    view.redirect_control([pooling.result.op for pooling in poolings], pooled[0].op)
    view.note_originals(pooled[0].op, [op for pooling in poolings for op in (pooling.op, pooling.result.op)])


def _differentiate(view: GraphView, units: List[Unit]) -> None:
    lookups = [unit.payload[1] for unit in units]
    gradients = [unit.payload[2] for unit in units]
    gone = [unit.payload[3] for unit in units]
    with _inserting(view, lookups[0], gone):
        made = _native.ops().tf_booster_pool_lookups_grad(
            grads=[gradient.grad for gradient in gradients],
            rows=[gradient.pooling.rows for gradient in gradients],
            combiners=[gradient.pooling.combiner for gradient in gradients],
            name="tf_booster/pool_lookups_grad",
            **_segments(lookups, gradients[0].zeroed),
        )
    view.redirect_all([(copy, new) for g, new in zip(gradients, made) for copy in copies_of(g.op.outputs[0])])
    view.note_originals(made[0].op, [gradient.op for gradient in gradients])


def _inserting(view: GraphView, lookup: _Lookup, gone: List[Swallowed]) -> ContextManager[None]:
    """Where the lookup is, and after whatever the swallowed ops wait for."""
    waits = dict.fromkeys(op for part in gone for op in part.control_inputs)
    return view.inserting(lookup.pooling.op.device, list(waits))


def _swallowed_front(front: LookupFront) -> Swallowed:
    ends = [op for op in (front.unique, front.fill, front.fill_weights, front.segment_op) if op is not None]
    return swallowed(ends, _given(front.values, front.indices, front.dense_shape, front.weights))


def _swallowed_pooling(lookup: _Lookup) -> Swallowed:
    pooling, front = lookup.pooling, lookup.front
    weights = None if pooling.weights is None else pooling.weights.op.inputs[0]
    flags = None if front.fill is None else front.fill.outputs[0]
    inputs = _given(pooling.rows, front.unique.outputs[0], pooling.segment_ids, weights, flags)
    return swallowed([pooling.result.op], inputs)


def _swallowed_gradient(lookup: _Lookup, gradient: PoolingGradient) -> Swallowed:
    pooling = gradient.pooling
    tile = None if pooling.zeroed_by is None else pooling.zeroed_by.outputs[0]
    forward = [pooling.result, pooling.op.outputs[0], *pooling.op.inputs]
    given = _given(gradient.grad, lookup.front.unique.outputs[0], pooling.segment_ids, pooling.weights, tile)
    return swallowed([gradient.op], [*given, pooling.rows, *forward])


def _given(*tensors: Optional[tf.Tensor]) -> List[tf.Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _segments(lookups: List[_Lookup], zeroed: bool) -> Dict[str, List[tf.Tensor]]:
    weights = []
    if lookups[0].pooling.weights is not None:
        weights = [
            k.pooling.weights.op.inputs[0] if k.prepared.weights is None else k.prepared.weights for k in lookups
        ]
    return {
        "idx": [lookup.prepared.idx for lookup in lookups],
        "row_splits": [lookup.prepared.row_splits for lookup in lookups],
        "zero_rows": [lookup.prepared.row_is_empty for lookup in lookups] if zeroed else [],
        "weights": weights,
    }


def _change(made: Dict[str, List[int]]) -> str:
    def part(step: str, what: str) -> str:
        return f"{what} by {len(made[step])} op{'' if len(made[step]) == 1 else 's'}"

    lookups = sum(made["pool"])
    parts: Tuple[str, ...] = (part("prepare", "ids prepared"), part("pool", "rows summed up"))
    if made["gradients"]:
        parts += (part("gradients", "gradients"),)
    return f"{lookups} sparse lookup{'' if lookups == 1 else 's'}: {', '.join(parts)}"
