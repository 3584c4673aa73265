"""The pass that makes one op of the lookups in tables that several Variables hold each, as a partitioner makes them.

tf.nn.embedding_lookup divides the ids by some twenty ops, gathers from each part by one, and stitches the rows together; the gradient takes them apart
again. `TfBoosterPartitionedGather` finds an id's part itself. Pass variable_updates does the same for the updates.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Set, Union

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import REFERENCE_VARIABLE, is_of_reference_variable, skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.partitions import Partition, are_places, partition_of
from tf_booster.passes.shape_tricks import copies_of
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.variable_gathers import DTYPES


@dataclasses.dataclass(frozen=True)
class _Lookup:
    stitch: tf.Operation
    partition: Partition


class PartitionedLookups(Pass):
    """Merges the lookups of partitioned Variables."""

    name = "partitioned_lookups"
    seeks = "lookups of partitioned Variables"

    def requires(self, view: GraphView) -> bool:
        """Whether rows are stitched together from several gathers."""
        return bool(_stitches(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves alone what is inside of control flow, and parts on several devices."""
        result = PassResult(self.name)
        units = []
        for stitch in _stitches(view):
            found = _match(view, stitch)
            if isinstance(found, str):
                result.skipped.append((stitch.name, found))
            else:
                gather = found.partition.gathers[0]
                key = (gather.get_attr("dtype"), found.partition.ids.dtype, gather.device)
                # Before 2.14 each gather has an Identity behind it.
                between = dict.fromkeys(tensor.op for tensor in stitch.inputs[stitch.get_attr("N") :])
                units.append(Unit((*dict.fromkeys([*found.partition.gathers, *between]), stitch), key, found))
        groups, refused = merge_groups(view, units)
        result.skipped.extend((unit.payload.stitch.name, reason) for unit, reason in refused)
        for group in groups:
            _merge(view, [unit.payload for unit in group])
        if groups:
            lookups = [unit.payload for group in groups for unit in group]
            parts = sum(len(lookup.partition.gathers) for lookup in lookups)
            ops = f"{len(groups)} op{'' if len(groups) == 1 else 's'}"
            result.changes.append(f"{len(lookups)} lookups of partitioned Variables, of {parts} parts, by {ops}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, "TfBoosterPartitionedGather")


def _stitches(view: GraphView) -> List[tf.Operation]:
    return [
        op
        for op in view.ops("ParallelDynamicStitch")
        if op.outputs[0].consumers() and not view.is_superseded(op) and _gathers(op)
    ]


def _gathers(stitch: tf.Operation) -> Set[tf.Operation]:
    """The gathers whose rows are stitched together."""
    values = [skip_identity(tensor).op for tensor in stitch.inputs[stitch.get_attr("N") :]]
    return {op for op in values if op.type in ("ResourceGather", "GatherV2")}


def _match(view: GraphView, stitch: tf.Operation) -> Union[_Lookup, str]:
    """The lookup that ends in `stitch`, or why it is left."""
    parts = stitch.get_attr("N")
    gathers = [skip_identity(tensor).op for tensor in stitch.inputs[parts:]]
    if any(op.type == "GatherV2" and is_of_reference_variable(op.inputs[0]) for op in gathers):
        return REFERENCE_VARIABLE
    if any(op.type != "ResourceGather" for op in gathers):
        return "what it stitches together are not rows of Variables alone"
    divided = gathers[0].inputs[1].op
    partition = partition_of(divided)
    if partition is None:
        return "it is not understood how its ids are divided among parts"
    if list(partition.gathers) != gathers or list(divided.outputs) != [op.inputs[1] for op in gathers]:
        return "what it stitches together are not the rows of all parts, in their order"
    places = stitch.inputs[0].op
    if list(places.outputs) != list(stitch.inputs[:parts]) or not are_places(places, partition):
        return "its rows are not in the order of the ids"
    return _obstacle(view, stitch, partition) or _Lookup(stitch, partition)


def _obstacle(view: GraphView, stitch: tf.Operation, partition: Partition) -> Optional[str]:
    gather = partition.gathers[0]
    types = {"dtype": tf.as_dtype(gather.get_attr("dtype")), "Tindices": partition.ids.dtype}
    if any(_compat.in_control_flow(op) for op in (stitch, *partition.gathers)):
        return "it is inside a tf.cond or a tf.while_loop"
    if any(op.get_attr("batch_dims") != 0 for op in partition.gathers):
        return "batch_dims of its gathers is not 0"
    if types["dtype"] not in DTYPES:
        return f"its rows are {types['dtype'].name}"
    if len({device for op in partition.gathers for device in (op.device, op.inputs[0].op.device)}) > 1:
        return "its parts are on several devices"
    if view.elsewhere(gather):
        return view.elsewhere(gather)
    if not view.can_stand_for(gather, "TfBoosterPartitionedGather", **types):
        return f"no GPU kernel for rows of {types['dtype'].name}: it would move from the GPU to the CPU"
    return None


def _merge(view: GraphView, lookups: List[_Lookup]) -> None:
    partitions = [lookup.partition for lookup in lookups]
    ends = [op for lookup in lookups for op in (*lookup.partition.gathers, lookup.stitch)]
    handles = [handle for partition in partitions for handle in partition.handles]
    gone = swallowed(ends, [*handles, *(partition.ids for partition in partitions)])
    first = partitions[0].gathers[0]
    with view.inserting(first.device, gone.control_inputs):
        rows = _native.ops().tf_booster_partitioned_gather(
            resources=handles,
            indices=[partition.ids for partition in partitions],
            parts=[len(partition.gathers) for partition in partitions],
            mod=[partition.mod for partition in partitions],
            dtype=first.outputs[0].dtype,
            name="tf_booster/partitioned_gather",
        )
    view.redirect_all(
        [(copy, new) for lookup, new in zip(lookups, rows) for copy in copies_of(lookup.stitch.outputs[0])]
    )
    # Who holds the rows of a part, or the stitched ones, gets what the new op has read, before the update like it.
    for partition, new in zip(partitions, rows):
        with view.inserting(first.device):
            parts = tf.dynamic_partition(new, partition.choice, len(partition.gathers), name="tf_booster/rows_of_parts")
        view.redirect_all([(gather.outputs[0], part) for gather, part in zip(partition.gathers, parts)])
    view.stand_in(rows[0].op, ends)
