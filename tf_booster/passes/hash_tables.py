"""The pass that puts hash tables in place of their stand-ins. docs/design/tables_in_graphs.md tells the whole story."""

from __future__ import annotations

from typing import Optional

from tf_booster.checkpoint import savers
from tf_booster.embedding import registry
from tf_booster.parallel import ranks, shared_graphs, whole_tables
from tf_booster.parallel.loss_reduction import AVERAGE, loss_reduction
from tf_booster.passes import table_edit, table_plan, users_table_reductions
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView, removed_variables, variable_handle_op
from tf_booster.passes.table_exchange_plan import Partition
from tf_booster.passes.table_placement import DEFAULT_ROOMS, RowRooms
from tf_booster.passes.table_plan import STAND_IN_IDS, STAND_IN_TABLE, RewritePlan, plan_rewrite


class HashTables(Pass):
    """Finds the lookups and updates of tables and makes them table ops.

    Args:
      seed: of tables that have none of their own; None takes the graph's.
      check_numerics: whether NaN and infinity in a gradient are an error.
      gradient_reduction: "average" or "sum" over ranks, for losses that no canned head made.
      fuse: whether tables that are alike become one, and their lookups and updates one op each.
      device: the option: where tables live.
      rooms: where rows of tables are.
    """

    name = "hash_tables"
    seeks = "lookup in a hash table"
    essential = True  # What stands in for a table raises when it runs.

    def __init__(
        self,
        seed: Optional[int] = None,
        check_numerics: bool = False,
        gradient_reduction: str = AVERAGE,
        fuse: bool = True,
        device: str = "auto",
        rooms: RowRooms = DEFAULT_ROOMS,
    ):
        self._seed, self._check_numerics, self._reduction = seed, check_numerics, gradient_reduction
        self._fuse, self._device, self._rooms = fuse, device, rooms

    def requires(self, view: GraphView) -> bool:
        """Whether the graph has lookups, or tables, that are not rewritten yet."""
        known = registry.rewritten(view.graph)
        if any(name not in known for name in registry.tables(view.graph)) or _live_stand_ins(view):
            return True
        return bool(view.functions_with(STAND_IN_IDS, STAND_IN_TABLE))

    def run(self, view: GraphView) -> PassResult:
        """Raises RewriteError, before any edit, for what a table cannot serve."""
        result = PassResult(self.name)
        place = shared_graphs.place(view.graph)
        users_reduction = None
        users_own = place.size > 1 or (ranks.has_horovod() and ranks.horovod_size() == 1)
        if place.size > 1:
            users_reduction, done = users_table_reductions.leave_out(view)
            result.skipped += done
        elif users_own:
            result.skipped += users_table_reductions.leave_out_of_one(view)
        if users_own:
            result.skipped += users_table_reductions.leave_out_broadcasts(view, table_plan.handles(view))
        plan = plan_rewrite(view, self._seed, self._fuse, several_ranks=place.size > 1, device=self._device)
        if place.size > 1:
            _check_requests(plan)
        fresh = [table for table in plan.tables if table.existing is None]
        replaced = table_edit.replaced_variables(fresh, [None] * len(fresh))
        if users_own:
            slots = {slot for table in replaced for slot in table.slots}
            users_table_reductions.leave_out_broadcasts(view, slots)
        try:
            savers.check_built_savers(view, replaced)
        except ValueError as error:
            raise RewriteError(str(error)) from error
        reduction = users_reduction or loss_reduction(view.graph, self._reduction).kind
        partition = Partition(place.rank, place.size, place.partition, reduction)
        table_edit.execute(view, plan, self._check_numerics, partition, self._rooms, result)
        result.skipped.extend(plan.fusion.apart)
        result.skipped.extend((t.name, t.placement.reason) for t in plan.tables if t.placement.reason)
        return result

    def ensures(self, view: GraphView) -> None:
        """No stand-in is used any more, and no Variable of a table is in a collection."""
        left = _live_stand_ins(view)
        if left:
            raise RewriteError(f"Op '{left[0].name}' ({left[0].type}) is still in use after the rewrite.")
        gone = set(removed_variables(view.graph))
        for name in view.graph.get_all_collection_keys():
            for item in view.graph.get_collection(name):
                handle_op = variable_handle_op(item)
                if handle_op is not None and handle_op.name in gone:
                    raise RewriteError(
                        f"Variable '{handle_op.name}' is still in collection '{name}' after the rewrite."
                    )


def _check_requests(plan: RewritePlan) -> None:
    """Raises RewriteError for what cannot be asked of a table that is divided over ranks."""
    for table in plan.tables:
        for request in table.handle_requests:
            for op in request.outputs[0].consumers():
                if op.type in whole_tables.OF_KEYS:
                    raise RewriteError(whole_tables.refusal(table.name, whole_tables.OF_KEYS[op.type]))


def _live_stand_ins(view: GraphView) -> list:
    return [op for op in view.ops(STAND_IN_IDS, STAND_IN_TABLE) if op.outputs[0].consumers()]
