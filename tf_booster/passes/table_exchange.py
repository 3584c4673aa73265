"""The lookups and gradients of tables that are partitioned over ranks. docs/design/several_ranks.md tells how.

A key lives on one rank. Each exchange is two all-to-alls forward, ids to their owners and rows back, and for training one backward,
gradients to the owners; all tables share them. The ops in between are in cc/tf/ops/table_exchange_ops.cc.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster import _native
from tf_booster.parallel import collectives
from tf_booster.parallel.row_weights import row_weights
from tf_booster.passes.exchange_sides import CardExchange, Gradients, HostExchange, OwnedKeys, Owner, Served
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.table_exchange_plan import ExchangePlan, Partition
from tf_booster.passes.table_fusion import FusedTable, FusionPlan, GatherPlan, ProbePlan
from tf_booster.passes.table_gradients import TableGradient
from tf_booster.passes.table_placement import HOST
from tf_booster.passes.table_probes import CodesOf, dense_ids, scope
from tf_booster.passes.table_uses import TablePlan


@dataclasses.dataclass
class _Exchanged:
    """One probe after its exchange.

    number: among the probes of the exchange. fields: of its segments. starts, served: of the whole exchange.
    """

    group: int
    number: int
    fields: List[int]
    starts: tf.Tensor
    slots: tf.Tensor
    sent: tf.Tensor
    served: Served

    @property
    def owned(self) -> OwnedKeys:
        return self.served.owned[self.number]

    @property
    def owner_codes(self) -> tf.Tensor:
        return self.served.owner_codes[self.number]

    @property
    def received(self) -> tf.Tensor:
        return self.served.received[self.number]


class ExchangedProbes(CodesOf):
    """Makes the exchanges of all lookups; has the interface of Probes."""

    def __init__(self, view: GraphView, fusion: FusionPlan, resources: Sequence[tf.Tensor], partition: Partition):
        super().__init__()
        self._view, self._partition = view, partition
        self._resource_of = {id(fused): resource for fused, resource in zip(fusion.resources, resources)}
        self._exchanged: Dict[int, _Exchanged] = {}
        weights = row_weights(view.graph)
        for members in fusion.exchanges:
            self._make(members, None if weights is None else weights.rows)

    def update_inputs(self, plan: ProbePlan) -> OwnedKeys:
        """Has keys, key_fields, counts and handles of a probe."""
        return self._exchanged[id(plan)].owned

    @staticmethod
    def codes_device(fused: FusedTable) -> Optional[str]:
        """In host memory, wherever the table is."""
        del fused
        return HOST

    def exchanged(self, plan: ProbePlan) -> _Exchanged:
        """A probe after its exchange."""
        return self._exchanged[id(plan)]

    def gather(self, fused: FusedTable, resource: tf.Tensor, plan: GatherPlan, codes: List[tf.Tensor]) -> Any:
        """The rows of `codes`, made where the caller's scopes say."""
        del resource
        probe = self._exchanged[id(plan.probe)]
        return side_of(self._view, fused).expand(
            codes, probe.served, probe.slots, probe.starts, probe.number, fused.dim, scope(fused.name)
        )

    def _make(self, members: List[Tuple[FusedTable, ProbePlan]], rows: Any) -> None:
        picked, ids_segments, segments = [], [], []
        for number, (fused, probe) in enumerate(members):
            fields = list(dict.fromkeys(fused.field_of(table) for table, _ in probe.members))
            first = len(segments)
            segments += [(number, field) for field in fields]
            for table, stand_in in probe.members:
                picked.append((stand_in.inputs[0], dense_ids(self._view, stand_in.inputs[0])))
                ids_segments.append(first + fields.index(fused.field_of(table)))
        stand_ins = list(dict.fromkeys(stand_in for _, probe in members for _, stand_in in probe.members))
        waits = dict.fromkeys(c for stand_in in stand_ins for c in stand_in.control_inputs)
        attrs = {
            "dims": [fused.dim for fused, _ in members],
            "groups": [probe.group for _, probe in members],
            "counted": [probe in fused.probes[: fused.trained] for fused, probe in members],
            "segment_probes": [number for number, _ in segments],
            "segment_fields": [field for _, field in segments],
            "ranks": self._partition.size,
            "partition": self._partition.mode,
        }
        ops = _native.ops()
        with self._view.inserting(HOST, list(waits)):
            rows = tf.constant(1.0) if rows is None else rows
            route = ops.tf_booster_table_route(
                [dense.ids() if dense else ids for ids, dense in picked],
                rows,
                ids_segments=ids_segments,
                skip_missing=[dense is not None for _, dense in picked],
                P=len(members),
                name="tf_booster/tables/route",
                **attrs,
            )
        with self._view.inserting(HOST):
            message, splits = collectives.all_to_all(route.message, route.splits, "tables", "ids")
        resources = [self._resource_of[id(fused)] for fused, _ in members]
        side = side_of(self._view, members[0][0])
        served = side.serve(resources, message, splits, self._partition.reduction, attrs)
        self._view.note_originals(route.message.op, stand_ins)
        codes = (dense.pick(self._view, of) if dense else of for of, (_, dense) in zip(route.codes, picked))
        for number, (_, probe) in enumerate(members):
            fields = [field for of, field in segments if of == number]
            self._exchanged[id(probe)] = _Exchanged(
                probe.group, number, fields, route.starts, route.slots[number], route.sent[number], served
            )
            for table, stand_in in probe.members:
                self.note(table, stand_in, next(codes))


class GradientExchange:
    """Makes the exchange of all gradients, where they leave the backward pass.

    handles: by table's name its handle. updates: by table's name the indices and the gradient that its update takes then.
    """

    def __init__(
        self,
        view: GraphView,
        fusion: FusionPlan,
        probes: ExchangedProbes,
        partition: Partition,
        handles: Mapping[str, tf.Tensor],
    ):
        self._view, self._probes, self._partition, self._handles = view, probes, partition, handles
        self._plan: ExchangePlan = fusion.exchange
        self._fused_of = {table.name: fused for fused in fusion.resources for table in fused.tables}
        self.updates: Dict[str, Tuple[tf.Tensor, tf.Tensor]] = {}
        for tables in self._plan.gradients:
            self._exchange(tables)
        for ops in self._plan.sums:
            self._add_up(ops)

    def _exchange(self, tables: List[TablePlan]) -> None:
        probes: Dict[int, _Exchanged] = {}  # id of a ProbePlan -> it.
        lanes: List[Tuple[int, int, int]] = []  # Stream, probe, segment.
        parts = [(table, part) for table in tables for part in self._plan.gradient_of[table.name].parts]
        for stream, (table, _) in enumerate(parts):
            fused = self._fused_of[table.name]
            for plan in fused.probes[: fused.trained]:
                if any(other is table for other, _ in plan.members):
                    probe = probes.setdefault(id(plan), self._probes.exchanged(plan))
                    lanes.append((stream, list(probes).index(id(plan)), probe.fields.index(fused.field_of(table))))
        used = list(probes.values())
        attrs = {
            "dims": [table.spec.dim for table, _ in parts],
            "by_row": [part.by_row for _, part in parts],
            "lane_streams": [stream for stream, _, _ in lanes],
            "lane_probes": [probe for _, probe, _ in lanes],
            "lane_segments": [segment for _, _, segment in lanes],
            "groups": [probe.group for probe in used],
            "ranks": self._partition.size,
        }
        limited = [table for table in tables if table.spec.max_rows]
        attrs["num_notes"] = 2 * len(limited)
        with self._view.inserting(HOST):
            growth = [self._growth(table) for table in limited]
            notes = tf.concat(growth, 0) if len(growth) > 1 else growth[0] if growth else tf.zeros([0], tf.int64)
            local = Gradients(
                [self._codes(table, part.indices) for table, part in parts],
                [self._view.current(part.values) for _, part in parts],
                [probe.slots for probe in used],
                [probe.sent for probe in used],
                notes,
            )
        owner = Owner(
            [probe.owner_codes for probe in used],
            [probe.received for probe in used],
            used[0].served.scales,
            {table.name: table.spec.max_rows for table in limited},
        )
        side = side_of(self._view, self._fused_of[tables[0].name])
        reduced = side.reduce(local, owner, attrs)
        for table in tables:
            places = [place for place, (of, _) in enumerate(parts) if of is table]
            with self._view.inserting(HOST):
                indices = _joined([reduced.indices[place] for place in places])
            with self._view.inserting(side.device):
                values = _joined([reduced.values[place] for place in places])
            with self._view.inserting(HOST):
                self._put(table, indices, values, reduced.reader, owner.scales)

    def _growth(self, table: TablePlan) -> tf.Tensor:
        """How many rows of a table with a limit there are on this rank, and will be more."""
        fused = self._fused_of[table.name]
        owned = [self._probes.update_inputs(plan) for plan in fused.probes[: fused.trained]]
        with self._view.inserting(fused.device):
            return _native.ops().tf_booster_table_growth(
                self._handles[table.name],
                [probe.keys for probe in owned],
                [probe.key_fields for probe in owned],
                [probe.handles for probe in owned],
                name=f"{scope(table.name)}/growth",
            )

    def _put(
        self, table: TablePlan, indices: tf.Tensor, values: tf.Tensor, send: tf.Operation, scales: tf.Tensor
    ) -> None:
        """Makes the program go on with the rows of this rank's keys."""
        gradient = self._plan.gradient_of[table.name]
        local = _reads_own_rows(gradient)
        self._view.redirect(gradient.values, values, lambda op: op is not send and op not in local)
        self.updates[table.name] = (
            indices,
            values if table.update.grad is gradient.values else self._view.current(table.update.grad),
        )
        for op in gradient.local_sums:
            self._weigh(op, scales)

    def _weigh(self, op: tf.Operation, scales: tf.Tensor) -> None:
        """A sum of squares of this rank's own rows, as they would be in the joined batch; nothing of a batch that does not count."""
        old = op.outputs[0]
        weight = tf.square(scales[self._partition.rank])
        weighed = tf.math.multiply_no_nan(old, weight, name="tf_booster/tables/weighed_sum")
        self._view.redirect(old, weighed)

    def _add_up(self, ops: List[tf.Operation]) -> None:
        own = [self._view.current(op.outputs[0]) for op in ops]
        readers = [set(tensor.consumers()) for tensor in own]  # Without what is made here to add them up.
        with self._view.inserting(HOST):
            numbers = [tf.cast(tensor, tf.float32) if tensor.dtype == tf.bool else tensor for tensor in own]
            summed = collectives.all_reduce_packed(numbers, "other", "sums_over_table_gradients")
            wanted = {"All": self._partition.size, "Any": 1}  # Of so many ranks it must hold.
            summed = [total > wanted[op.type] - 0.5 if op.type in wanted else total for op, total in zip(ops, summed)]
        for tensor, total, of_tensor in zip(own, summed, readers):
            self._view.redirect(tensor, total, of_tensor.__contains__)

    def _codes(self, table: TablePlan, indices: tf.Tensor) -> tf.Tensor:
        """A lookup's indices, which may be its codes themselves."""
        return self._probes.codes(table, indices.op) if indices.op in table.groups else self._view.current(indices)


def side_of(view: GraphView, fused: FusedTable) -> Union[HostExchange, CardExchange]:
    """How tables like `fused` exchange: all of a graph are in host memory, or on the card."""
    return HostExchange(view) if fused.device == HOST else CardExchange(view, fused.device)


def _joined(parts: List[tf.Tensor]) -> tf.Tensor:
    return parts[0] if len(parts) == 1 else tf.concat(parts, 0)


def _reads_own_rows(gradient: TableGradient) -> set:
    """The ops that go on reading this rank's rows: the local sums, and the squares in front of them."""
    return {*gradient.local_sums, *(op.inputs[0].op for op in gradient.local_sums if op.type != "L2Loss")}
