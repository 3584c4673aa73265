"""The pass that has sparse lookups read rows of Variables where they lie, where nobody needs the distinct ids or their rows.

A step that trains needs both: updates want each id once. A graph that predicts or evaluates only sums rows up; finding distinct ids and gathering their rows takes
up to half of its time and more. TensorFlow's Grappler does the same to its own ops.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, NamedTuple, Optional, Sequence, Set

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_lookups import lists_of
from tf_booster.passes.matching import readers, skip_identity
from tf_booster.passes.swallowed import swallowed

_POOLS = ("TfBoosterPoolLookups", "TfBoosterJoinedPoolLookups")
_GATHERS = ("ResourceGather", "TfBoosterMultiGather")
_PREPARE, _MADE = "TfBoosterPrepareLookups", "TfBoosterPoolVariables"


class _Lookup(NamedTuple):
    """One lookup of a pooling op: the Variable's handle, what gathers its rows, what prepares its ids, and which of them these are."""

    handle: tf.Tensor
    gathered: tf.Tensor
    prepare: tf.Operation
    place: int


class _Sides(NamedTuple):
    """The tensors that an op reads, and those that it makes."""

    inputs: List[tf.Tensor]
    outputs: List[tf.Tensor]


class DirectLookups(Pass):
    """Makes one op of gathers of Variables and the sums of their rows; the same bits."""

    name = "direct_lookups"
    seeks = "sparse lookups of Variables that are summed up and nothing else, as in predictions"

    def requires(self, view: GraphView) -> bool:
        """Whether lookups are summed up."""
        return any(output.consumers() for op in view.ops(*_POOLS) for output in op.outputs)

    def run(self, view: GraphView) -> PassResult:
        """Leaves ops that sum up other rows too, those of hash tables say, and ids or rows that something else reads."""
        result = PassResult(self.name)
        live = executed_ops(view)
        found: Dict[tf.Operation, List[_Lookup]] = {}
        for pool in view.ops(*_POOLS):
            if pool in live and view.can_stand_for(pool, _MADE, T=pool.outputs[0].dtype):
                lookups = _lookups(pool)
                direct = [lookup for lookup in lookups if lookup is not None]
                if len(direct) == len(lookups):
                    found[pool] = direct
        _keep_closed(found, live)
        prepares = dict.fromkeys(lookup.prepare for lookups in found.values() for lookup in lookups)
        ids = {prepare: _prepare_all_ids(view, prepare) for prepare in prepares}
        for pool, lookups in found.items():
            _read_directly(view, pool, lookups, [ids[lookup.prepare][lookup.place] for lookup in lookups])
        if found:
            count = sum(map(len, found.values()))
            result.changes.append(
                f"{count} lookup{'s' * (count > 1)} read in Variables by {len(found)} op{'s' * (len(found) > 1)}"
            )
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _lookups(pool: tf.Operation) -> List[Optional[_Lookup]]:
    """Of each lookup of `pool`, whether its rows are a Variable's at the distinct ids that were prepared with its places; else None."""
    count, inputs = pool.get_attr("N"), list(pool.inputs)
    # An op of many lookups makes a list of its tensors each time that it is asked for them.
    sides: Dict[tf.Operation, _Sides] = {}
    lists = (inputs[first : first + count] for first in (0, count, 2 * count))
    return [_lookup(pool, sides, *tensors) for tensors in zip(*lists)]


def _lookup(
    pool: tf.Operation, sides: Dict[tf.Operation, _Sides], rows: tf.Tensor, idx: tf.Tensor, row_splits: tf.Tensor
) -> Optional[_Lookup]:
    gathered = skip_identity(rows)
    gather, prepare = gathered.op, idx.op
    if gather.type not in _GATHERS or prepare.type != _PREPARE or not prepare.get_attr("distinct"):
        return None
    if gather.type == "ResourceGather" and gather.get_attr("batch_dims") != 0:
        return None
    for op in (gather, prepare):
        if op not in sides:
            sides[op] = _Sides(list(op.inputs), list(op.outputs))
    given, made = sides[gather].inputs, sides[prepare].outputs
    handle, ids = given[gathered.value_index], given[len(given) // 2 + gathered.value_index]
    place = idx.value_index - prepare.get_attr("N")
    ours = skip_identity(ids) is made[place] and row_splits.op is prepare
    alike = handle.op.type == "VarHandleOp" and gather.device == prepare.device == pool.device
    return _Lookup(handle, gathered, prepare, place) if ours and alike else None


def _keep_closed(found: Dict[tf.Operation, List[_Lookup]], live: Set[tf.Operation]) -> None:
    """Takes those out of `found` whose rows, ids or places an op reads that a step runs and that does not go with them."""
    apart: List[tf.Operation] = list(found)
    while apart:
        gathers = {lookup.gathered.op for lookups in found.values() for lookup in lookups}
        prepares = {lookup.prepare for lookups in found.values() for lookup in lookups}
        closed = {op for op in gathers if _read_by(op.outputs, found.keys(), live)}
        for op in prepares:
            count, outputs = op.get_attr("N"), list(op.outputs)
            if _read_by(outputs[:count], gathers, live) and _read_by(outputs[count : 2 * count], found.keys(), live):
                closed.add(op)
        apart = [
            pool
            for pool, lookups in found.items()
            if not all({lookup.gathered.op, lookup.prepare} <= closed for lookup in lookups)
        ]
        for pool in apart:
            del found[pool]


def _read_by(tensors: Sequence[tf.Tensor], ops: AbstractSet[tf.Operation], live: Set[tf.Operation]) -> bool:
    """Whether of the ops that a step runs only `ops` read any of the tensors."""
    return all(reader in ops or reader not in live for tensor in tensors for reader in readers(tensor))


def _prepare_all_ids(view: GraphView, prepare: tf.Operation) -> List[tf.Tensor]:
    """Makes an op that prepares ids as `prepare` does, but keeps the id of each place; returns these ids."""
    count = prepare.get_attr("N")
    kinds = (count, *map(prepare.get_attr, ("num_sparse", "num_shapes", "num_weights")))
    inputs = iter(prepare.inputs)
    values, indices, dense_shapes, weights = ([next(inputs) for _ in range(size)] for size in kinds)
    same = (
        "Tids",
        "num_filled",
        "prune_ids",
        "prune_weights",
        "fill_rows",
        "default_ids",
        "leading_dims",
        "hash_buckets",
    )
    with view.inserting(prepare.device, prepare.control_inputs):
        made = _native.ops().tf_booster_prepare_lookups(
            values=values,
            indices=indices,
            dense_shapes=dense_shapes,
            weights=weights,
            distinct=False,
            name="tf_booster/prepare_lookups",
            **{name: prepare.get_attr(name) for name in same},
        )
    new = made.ids[0].op
    view.redirect_all(list(zip(prepare.outputs[2 * count :], new.outputs[2 * count :])))
    view.stand_in(new, [prepare])
    return list(made.ids)


def _read_directly(view: GraphView, pool: tf.Operation, lookups: List[_Lookup], ids: List[tf.Tensor]) -> None:
    """Puts one op in the place of `pool` and of the gathers before it."""
    _, _, row_splits, zero_rows, weights = lists_of(pool)
    joined = pool.type != _POOLS[0]
    others = list(pool.inputs[-pool.get_attr("num_others") :]) if joined and pool.get_attr("num_others") else []
    handles = [lookup.handle for lookup in lookups]
    places = [tensor for prepare in {lookup.prepare for lookup in lookups} for tensor in prepare.outputs]
    gone = swallowed([pool], [*handles, *ids, *row_splits, *zero_rows, *weights, *others, *places])
    with view.inserting(pool.device, gone.control_inputs):
        if len({tensor.dtype for tensor in ids}) > 1:  # Buckets are int32, identities and hashes int64.
            ids = [tf.cast(tensor, tf.int64) for tensor in ids]
        made = _native.ops().tf_booster_pool_variables(
            resources=handles,
            ids=ids,
            row_splits=row_splits,
            zero_rows=zero_rows,
            weights=weights,
            others=others,
            T=pool.outputs[0].dtype,
            num_apart=pool.get_attr("num_apart") if joined else len(lookups),
            combiners=pool.get_attr("combiners"),
            order=pool.get_attr("order") if joined else [],
            name="tf_booster/direct_lookups",
        )
    new = made.joined.op
    view.redirect_all(list(zip(pool.outputs, new.outputs if joined else made.apart)))
    old = [pool, *dict.fromkeys(lookup.gathered.op for lookup in lookups)]
    view.stand_in(new, old)
