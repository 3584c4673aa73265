"""The lookups of tables that live in this process as a whole: a TableProbe for the ids, a TableGather for the rows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sparse_source import PickedIds, picked_ids
from tf_booster.passes.table_fusion import FusedTable, GatherPlan, ProbePlan
from tf_booster.passes.table_uses import TablePlan


def scope(name: str) -> str:
    """The name scope of the ops on a table."""
    return f"tf_booster/{name}"


def dense_ids(view: GraphView, ids: tf.Tensor) -> Optional[PickedIds]:
    """Where `ids` were picked from a dense feature, so that codes of the whole feature do as well.

    Then PrepareLookups takes these as they are, and nobody makes the ids sparse: on a GPU each such feature would wait
    for the number of its ids.
    """
    found = picked_ids(ids)
    return found if found is not None and all(map(view.is_plain, found.ops)) else None


class CodesOf:
    """Which tensor stands for the codes of which lookup."""

    @staticmethod
    def lookup_device(fused: FusedTable) -> Optional[str]:
        """Where rows of `fused` are made."""
        return fused.device

    @staticmethod
    def codes_device(fused: FusedTable) -> Optional[str]:
        """Where codes of `fused` are made."""
        return fused.device

    def __init__(self) -> None:
        self._codes: Dict[Tuple[str, tf.Operation], tf.Tensor] = {}
        self._first: Dict[tf.Operation, tf.Operation] = {}

    def note(self, table: TablePlan, stand_in: tf.Operation, codes: tf.Tensor) -> None:
        """`codes` are the codes of the ids of `stand_in` in lookups of `table`."""
        self._codes[table.name, stand_in] = codes
        self._first.setdefault(stand_in, codes.op)

    def codes(self, table: TablePlan, stand_in: tf.Operation) -> tf.Tensor:
        """What stands for the output of `stand_in` in lookups of `table`."""
        return self._codes[table.name, stand_in]

    def first(self, stand_in: tf.Operation) -> tf.Operation:
        """An op to wait for in the place of `stand_in`."""
        return self._first[stand_in]


class Probes(CodesOf):
    """Makes the TableProbe ops of all resources."""

    def __init__(self, view: GraphView, fused: Sequence[FusedTable], resources: Sequence[tf.Tensor]):
        super().__init__()
        self._view = view
        self._ops: Dict[int, Any] = {}  # id of a ProbePlan -> outputs.
        for each, resource in zip(fused, resources):
            for probe in each.probes:
                self._make(each, resource, probe)

    def update_inputs(self, plan: ProbePlan) -> Any:
        """Has keys, key_fields, counts and handles of a probe."""
        return self._ops[id(plan)]

    def gather(self, fused: FusedTable, resource: tf.Tensor, plan: GatherPlan, codes: List[tf.Tensor]) -> Any:
        """The rows of `codes`, made where the caller's scopes say."""
        probe = self._ops[id(plan.probe)]
        return _native.ops().tf_booster_table_gather(
            resource,
            codes,
            probe.keys,
            probe.key_fields,
            probe.handles,
            dim=fused.dim,
            name=f"{scope(fused.name)}/gather",
        )

    def _make(self, fused: FusedTable, resource: tf.Tensor, plan: ProbePlan) -> None:
        stand_ins = list(dict.fromkeys(stand_in for _, stand_in in plan.members))
        waits = dict.fromkeys(c for stand_in in stand_ins for c in stand_in.control_inputs)
        picked = [dense_ids(self._view, stand_in.inputs[0]) for _, stand_in in plan.members]
        with self._view.inserting(fused.device, list(waits)):
            probe = _native.ops().tf_booster_table_probe(
                resource,
                [found.ids() if found else stand_in.inputs[0] for found, (_, stand_in) in zip(picked, plan.members)],
                fields=[fused.field_of(table) for table, _ in plan.members],
                skip_missing=[found is not None for found in picked],
                group=plan.group,
                name=f"{scope(fused.name)}/probe_{plan.group}",
            )
        self._view.note_originals(probe.keys.op, stand_ins)
        self._ops[id(plan)] = probe
        for (table, stand_in), codes, found in zip(plan.members, probe.codes, picked):
            self.note(table, stand_in, found.pick(self._view, codes) if found else codes)
