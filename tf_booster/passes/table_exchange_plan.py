"""What of partitioned tables is exchanged together: one round of collectives for all that can be in one."""

from __future__ import annotations

import dataclasses
from typing import Dict, Hashable, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.embedding.table_spec import EVICTION_ORDERS, EvictionSpec
from tf_booster.passes.base import RewriteError
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Refusal, Unit
from tf_booster.passes.table_gradients import TableGradient, has_unique, plan_gradient
from tf_booster.passes.table_updates import chain_of, waiting
from tf_booster.passes.table_uses import TablePlan


@dataclasses.dataclass(frozen=True)
class Partition:
    """How tables are spread: this rank out of `size`, the owner of a key by `mode` (partition.h), gradients by `reduction`."""

    rank: int = 0
    size: int = 1
    mode: str = "hash"
    reduction: str = "average"


def own_limit(eviction: EvictionSpec, partition: Partition) -> int:
    """The argument of an eviction on this rank: of a number of rows its share."""
    if eviction.policy not in EVICTION_ORDERS or partition.size == 1:
        return eviction.limit
    return max(1, eviction.limit // partition.size + (partition.rank < eviction.limit % partition.size))


def eviction_note(name: str, eviction: EvictionSpec, partition: Partition) -> str:
    """What of an eviction is not as in one process; "" if nothing."""
    if eviction.policy not in EVICTION_ORDERS or partition.size == 1:
        return ""
    return (
        f"table '{name}': eviction to {eviction.limit} rows is not exact: each of {partition.size} ranks keeps its share of "
        f"{own_limit(eviction, partition)}, and evicts the first by '{eviction.policy}' of its own rows"
    )


def sightings_note(table: TablePlan, partition: Partition) -> str:
    """What of the counting of sightings is not as in one process; "" if nothing."""
    if partition.size == 1 or not any(has_unique(stand_in.inputs[0]) for stand_in in table.update_sources):
        return ""
    return (
        f"table '{table.name}': the program makes ids distinct itself, and each of {partition.size} ranks its own: frequencies, and with them "
        "min_frequency and 'lfu', count an id once for each rank in a step, where one process counts it once"
    )


@dataclasses.dataclass
class ExchangePlan:
    """All of a graph's exchanges.

    gradient_of: by table's name. gradients: tables whose gradients travel together. sums: ops whose results are added up together.
    """

    gradient_of: Dict[str, TableGradient] = dataclasses.field(default_factory=dict)
    gradients: List[List[TablePlan]] = dataclasses.field(default_factory=list)
    sums: List[List[tf.Operation]] = dataclasses.field(default_factory=list)


class ExchangeUnits:
    """The units, for the merging rule, of lookups and gradients that are exchanged.

    What always runs together is one exchange: all that an Estimator fetches; else what trains in updates that the same ops wait for. So
    a program that feeds one of its placeholders and fetches what depends on it alone must feed the others of a training step too.
    """

    def __init__(self, view: GraphView, tables: Sequence[TablePlan]):
        self.plan = ExchangePlan()
        self._view = view
        self._step = _step_of(view)
        self._chains = {table.name: chain_of(table.update) for table in tables if table.update is not None}
        self._trained = [table for table in tables if table.update is not None]
        self._when: Dict[tf.Operation, Set[Hashable]] = {}
        for table in self._trained:
            for stand_in in table.update_sources:
                self._when.setdefault(stand_in, set()).add(self._runs_with(table))

    def lookup_unit(self, stand_in: tf.Operation) -> Unit:
        """Of the ids of one lookup."""
        when = frozenset(["step"] if self._in_step(stand_in) else self._when.get(stand_in, ()))
        return Unit((stand_in,), ("probe", when), stand_in, together=bool(when) and all(when))

    def gradient_units(self) -> List[Unit]:
        """Of each trained table its gradient, and the sums over it. Raises RewriteError for what plan_gradient() refuses."""
        units: List[Unit] = []
        known: Set[tf.Operation] = set()
        for table in self._trained:
            gradient = self.plan.gradient_of[table.name] = plan_gradient(self._view, table, self._chains[table.name])
            when = self._runs_with(table)
            units.append(Unit((gradient.values.op,), ("gradient", when), table, together=bool(when)))
            for op in gradient.sums:
                if op not in known:
                    units.append(Unit((op,), ("sum", when), op, together=bool(when)))
                    known.add(op)
        return units

    def take(self, group: List[Unit]) -> bool:
        """Notes a group of the units above, and whether it is one."""
        kind = group[0].key[0] if isinstance(group[0].key, tuple) and not hasattr(group[0].key, "_fields") else None
        if kind == "gradient":
            self.plan.gradients.append([unit.payload for unit in group])
        elif kind == "sum":
            self.plan.sums.append([unit.payload for unit in group])
        return kind in ("gradient", "sum")

    def check_refused(self, refused: Sequence[Refusal]) -> None:
        """Raises RewriteError for a gradient that cannot be exchanged."""
        for unit, reason in refused:
            if unit.key[0] in ("gradient", "sum"):
                raise RewriteError(f"Op '{unit.ops[0].name}' cannot be exchanged between ranks: {reason}.")

    def _runs_with(self, table: TablePlan) -> Hashable:
        """What an update of the same always runs together with; false where that is not known."""
        return "step" if self._in_step(table.update.replaced[0]) else waiting(self._chains[table.name])

    def _in_step(self, op: tf.Operation) -> bool:
        return self._step is not None and self._view.index().number[op] in self._step


def _step_of(view: GraphView) -> Optional[Set[int]]:
    """Numbers of the ops that run at every step, where an Estimator says what it fetches."""
    fetches = fetches_of(view)
    return set(executed(view, fetches.names)) if fetches.said_by.startswith("the Estimator") else None


Exchanged = Tuple[object, object]  # A FusedTable and one of its ProbePlans.


def exchanges(fused: Sequence, number: Dict[tf.Operation, int]) -> List[List[Exchanged]]:
    """The probes of all resources that share a round. number: of each StandInIds op, that of its group."""
    found: Dict[int, List[Exchanged]] = {}
    for resource in fused:
        for probe in resource.probes:
            found.setdefault(number[probe.members[0][1]], []).append((resource, probe))
    return list(found.values())
