"""Which tables become one, and which of their lookups and updates one op. docs/design/tables_in_graphs.md says why.

A fused table has a field for each of its tables, and rows keep what is their table's own: seed, initial values, filter,
limits, eviction, clock. So tables may differ in all of these. What must be equal is what a row is made of and how it is
updated, and the updates must be such that they always run together.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Hashable, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.checkpoint import lent_tables
from tf_booster.embedding import registry
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.table_exchange_plan import ExchangePlan, ExchangeUnits, exchanges
from tf_booster.passes.table_updates import Sameness, chain_of, update_key
from tf_booster.passes.table_uses import Lookup, TablePlan


@dataclasses.dataclass
class ProbePlan:
    """One TableProbe: the StandInIds ops whose ids it takes, each with the table in which they are looked up."""

    group: int
    members: List[Tuple[TablePlan, tf.Operation]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class GatherPlan:
    """One TableGather by codes of `probe`."""

    probe: ProbePlan
    members: List[Tuple[TablePlan, Lookup]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class FusedTable:
    """One resource for `tables`, which are its fields in their order; most often for one alone.

    trained: how many of `probes`, from the first on, feed the update.
    existing: one of the tables, where an earlier rewrite of this graph has made the resource.
    lent: that of another graph's training, to be read in its place.
    """

    tables: List[TablePlan]
    existing: Optional[registry.RewrittenTable] = None
    lent: lent_tables.Lent = lent_tables.NOTHING
    probes: List[ProbePlan] = dataclasses.field(default_factory=list)
    gathers: List[GatherPlan] = dataclasses.field(default_factory=list)
    trained: int = 0

    @property
    def name(self) -> str:
        """Of the resource: the table's own, or one that the graph decides alone."""
        first = self.tables[0].name
        return first if len(self.tables) == 1 else f"fused/{first}_and_{len(self.tables) - 1}_more"

    def field_of(self, table: TablePlan) -> int:
        """Which field of the resource `table` is."""
        if self.existing is not None:
            return table.existing.field
        place = next(place for place, other in enumerate(self.tables) if other is table)
        return self.lent.fields[place] if self.lent.fields else place

    @property
    def num_fields(self) -> int:
        """Of the resource, which is for reading only if they are more than its tables."""
        return len(self.lent.attributes.get("field_names", self.tables))

    @property
    def dim(self) -> int:
        """Columns of the embeddings."""
        return self.tables[0].spec.dim

    @property
    def device(self) -> Optional[str]:
        """What the ops on it are constrained to: see table_placement.py."""
        return self.tables[0].placement.device


@dataclasses.dataclass
class FusionPlan:
    """resources: all of them. apart: pairs of a node and the reason why it stays apart from others like it.
    exchanges, exchange: under several ranks what travels together; exchanges has probes with their resources."""

    resources: List[FusedTable]
    apart: List[Tuple[str, str]]
    exchanges: List[List[Tuple[FusedTable, ProbePlan]]] = dataclasses.field(default_factory=list)
    exchange: ExchangePlan = dataclasses.field(default_factory=ExchangePlan)


def plan_fusion(view: GraphView, tables: Sequence[TablePlan], fuse: bool, several_ranks: bool = False) -> FusionPlan:
    """Sorts tables into resources, and their lookups into ops.

    Args:
      view: of the graph.
      tables: all that the rewrite is about.
      fuse: False keeps every table and every lookup by itself.
      several_ranks: whether lookups and gradients are exchanged, which is done together all the same.
    """
    units = ExchangeUnits(view, tables) if several_ranks else None
    merged = _Merged(view, tables, units) if fuse or several_ranks else None
    owners = lent_tables.known()
    fused = _resources(tables, merged if fuse else None, owners)
    for resource in fused:
        _plan_lookups(resource, merged if fuse else None)
        if resource.existing is None:
            specs, edited = [t.spec for t in resource.tables], any(t.is_edited for t in resource.tables)
            resource.lent = lent_tables.lent(owners, view.graph, specs, resource.trained > 0, edited)
    plan = FusionPlan(fused, merged.refused if merged and fuse else [])
    if units is not None:
        plan.exchanges, plan.exchange = exchanges(fused, merged.number), units.plan
    return plan


class _Merged:
    """What the rule of all passes says of stand-ins, gathers and updates, asked once for all of them.

    Each of probe_of, gather_of, update_of: op -> number of its group; ops of one number may become one.
    """

    def __init__(self, view: GraphView, tables: Sequence[TablePlan], exchange: Optional[ExchangeUnits]):
        self.refused: List[Tuple[str, str]] = []
        self.number: Dict[tf.Operation, int] = {}
        stand_ins = dict.fromkeys(stand_in for table in tables for stand_in in table.groups)
        units = [exchange.lookup_unit(op) if exchange else Unit((op,), "probe", op) for op in stand_ins]
        units += [Unit((k.gather,), "gather", k.gather) for table in tables for k in table.lookups]
        sameness, self._keys = Sameness(), {}
        for table in tables:
            if table.update is not None:
                chain = chain_of(table.update)
                key = update_key(table.spec.dim, table.update, chain, sameness, table.placement.device)
                self._keys[table.name] = key
                units.append(Unit(chain, key, table))
        if exchange is not None:
            units += exchange.gradient_units()
        groups, refused = merge_groups(view, units)
        if exchange is not None:
            exchange.check_refused(refused)
            groups = [group for group in groups if not exchange.take(group)]
        self.updates: List[List[TablePlan]] = []
        for number, group in enumerate(groups):
            if isinstance(group[0].payload, TablePlan):
                self.updates.append([unit.payload for unit in group])
            else:
                self.number.update((unit.payload, number) for unit in group)
        for unit, reason in refused:
            if isinstance(unit.payload, TablePlan):
                self.updates.append([unit.payload])
                self.refused.append((unit.ops[0].name, f"table '{unit.payload.name}' is not fused: {reason}"))
            else:
                self.number[unit.payload] = len(groups) + len(self.number)
                self.refused.append((unit.payload.name, f"is looked up by itself: {reason}"))
        self._explain()

    def _explain(self) -> None:
        """Says of trained tables of equal dim and optimizer, apart from the first of them, why they are not one."""
        first: Dict[Hashable, TablePlan] = {}
        told = {name for name, _ in self.refused}
        for tables in sorted(self.updates, key=len, reverse=True):
            table = tables[0]
            alike = (table.spec.dim, table.update.optimizer)
            other = first.setdefault(alike, table)
            if other is not table and table.update.replaced[0].name not in told:
                reason = self._keys[table.name].difference(self._keys[other.name])
                names = f"table '{table.name}'" + (f" and {len(tables) - 1} more" if len(tables) > 1 else "")
                self.refused.append(
                    (table.update.replaced[0].name, f"{names}: not fused with '{other.name}': {reason}")
                )


def _resources(
    tables: Sequence[TablePlan], merged: Optional[_Merged], owners: Dict[str, registry.RewrittenTable]
) -> List[FusedTable]:
    """Trained tables by their updates; tables that nothing trains by dim, device, and what another graph's training has them in; tables
    that exist as they are."""
    groups: Dict[Hashable, List[TablePlan]] = {}
    group_of = {t.name: number for number, g in enumerate(merged.updates) for t in g} if merged else {}
    for table in tables:
        if table.existing is not None:
            key: Hashable = ("existing", table.existing.resource.ref())
        elif merged is None:
            key = ("alone", table.name)
        elif table.update is not None:
            key = ("trained", group_of[table.name])
        else:
            owner = owners[table.name].resource.ref() if table.name in owners else None
            key = ("read", table.spec.dim, table.placement.device, owner)
        groups.setdefault(key, []).append(table)
    for group in groups.values():
        if group[0].existing is None:
            group.sort(key=lambda table: owners[table.name].field if table.name in owners else 0)
    return [FusedTable(group, group[0].existing) for group in groups.values()]


def _plan_lookups(fused: FusedTable, merged: Optional[_Merged]) -> None:
    """Probes that feed the update come first: their groups are 0, 1, … in the order of the apply op's inputs."""
    start = 0 if fused.existing is None else fused.existing.num_groups
    found: Dict[Tuple[TablePlan, tf.Operation], ProbePlan] = {}
    for trained in (True, False):
        probes: Dict[Hashable, ProbePlan] = {}
        for table in fused.tables:
            for stand_in in table.groups:
                if (stand_in in table.update_sources) is not trained:
                    continue
                key = (table.name, stand_in) if merged is None else merged.number[stand_in]
                if key not in probes:
                    probes[key] = ProbePlan(start + len(fused.probes) + len(probes))
                probes[key].members.append((table, stand_in))
                found[table.name, stand_in] = probes[key]
        fused.probes.extend(probes.values())
        if trained:
            fused.trained = len(fused.probes)
    gathers: Dict[Hashable, GatherPlan] = {}
    for table in fused.tables:
        for lookup in table.lookups:
            probe = found[table.name, lookup.stand_in]
            key = lookup.gather if merged is None else (probe.group, merged.number[lookup.gather])
            gathers.setdefault(key, GatherPlan(probe)).members.append((table, lookup))
    fused.gathers.extend(gathers.values())
