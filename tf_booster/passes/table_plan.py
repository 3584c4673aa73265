"""What the hash-table pass is about to do, worked out and checked before the first edit."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.parallel import ranks
from tf_booster.passes.base import RewriteError
from tf_booster.passes.code_flow import CodeFlow, Use
from tf_booster.passes.code_refusals import DENSIFIES, inside_control_flow, names_of, refused_use, table_name_attr
from tf_booster.passes.graph_view import GraphView, variable_handle_op
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.optimizer_matching import UnsupportedUpdate, match_updates
from tf_booster.passes.sources import all_called, called_functions
from tf_booster.passes.table_fusion import FusionPlan, plan_fusion
from tf_booster.passes.table_placement import Placement, Placer
from tf_booster.passes.table_settings import check_stand_in, table_of, table_spec
from tf_booster.passes.table_uses import Lookup, TablePlan
from tf_booster.passes.variable_uses import SummaryInput, follow, variable_uses

STAND_IN_IDS = "TfBoosterStandInIds"
STAND_IN_TABLE = "TfBoosterStandInTable"


@dataclasses.dataclass
class RewritePlan:
    """All tables of a graph, and which of a StandInIds op's consumers read the probe of which table.

    fusion: the resources that the tables become, each of one table or of several, and what is exchanged between ranks.
    gradient_summaries: inputs of summaries that show a table's gradient as a dense tensor -> the table's name.
    """

    tables: List[TablePlan]
    fusion: FusionPlan
    gradient_summaries: Dict[SummaryInput, str]
    routes: Dict[Tuple[tf.Operation, tf.Operation], TablePlan]  # (StandInIds op, consumer of its codes) -> table
    idle: List[tf.Operation]  # StandInIds ops whose codes reach no table; only their shape can matter.


def plan_rewrite(
    view: GraphView, default_seed: Optional[int], fuse: bool = True, several_ranks: bool = False, device: str = "auto"
) -> RewritePlan:
    """Finds the tables of the graph, their lookups and updates, and which of them become one (none if not `fuse`).

    device: the option.


    Raises RewriteError for whatever a table cannot serve.
    """
    _refuse_functions(view)
    stand_ins = [op for op in view.ops(STAND_IN_IDS) if op.outputs[0].consumers()]
    for op in stand_ins:
        if _compat.in_control_flow(op):
            raise inside_control_flow(table_name_attr(op), op.name)
    flow = CodeFlow(stand_ins)
    shown, gradient_summaries = _gradient_summaries(flow)
    plans = _Planner(view, flow, default_seed, Placer(device, several_ranks)).plan()
    accepted = shown.union(*(_taken_over(plan) for plan in plans))
    handle_ops = {plan.handle_op for plan in plans}
    slot_ops = {slot.handle_op for plan in plans if plan.update for slot in plan.update.slots if slot.handle_op}
    for use in flow.uses:
        # Other uses of a stand-in itself, like ResourceGatherNd, are for variable_uses to name.
        if use.op not in accepted and not _reads_slot(use, slot_ops) and use.op.inputs[0].op not in handle_ops:
            raise refused_use(use, flow)
    for use in flow.foreign_inputs():
        raise RewriteError(
            f"Table '{names_of(flow, use.op.outputs)}': op '{use.op.name}' ({use.op.type}) mixes looked-up ids with the values of "
            f"'{use.op.inputs[use.index].name}'; put the ids together before they are looked up."
        )
    for plan in plans:
        if plan.handle_op is not None and plan.existing is None:
            plan.uses = variable_uses(plan.name, plan.handle_op, _taken_over(plan))
    used = {op for plan in plans for op in plan.groups}
    idle = [op for op in stand_ins if op not in used]
    routes = _routes(flow, plans, stand_ins)
    fusion = plan_fusion(view, plans, fuse, several_ranks)
    return RewritePlan(plans, fusion, gradient_summaries, routes, idle)


def handles(view: GraphView) -> Set[tf.Operation]:
    """The Variables that stand for tables, of `tf_booster.get_hash_table` and of feature columns."""
    registered = {variable_handle_op(table.variable) for table in registry.tables(view.graph).values()}
    uses = CodeFlow(view.ops(STAND_IN_IDS)).uses
    looked_up = {use.op.inputs[0].op for use in uses if use.op.type == "ResourceGather" and use.index == 1}
    return {op for op in registered | looked_up if op is not None}


class _Planner:
    """Plans table by table."""

    def __init__(self, view: GraphView, flow: CodeFlow, default_seed: Optional[int], placer: Placer):
        self._view, self._flow, self._default_seed, self._placer = view, flow, default_seed, placer
        self._registered = registry.tables(view.graph)
        self._rewritten = registry.rewritten(view.graph)

    def plan(self) -> List[TablePlan]:
        lookups = self._lookups()
        requests: Dict[str, List[tf.Operation]] = {}
        for op in self._view.ops(STAND_IN_TABLE):
            if op.outputs[0].consumers():
                requests.setdefault(table_name_attr(op), []).append(op)
        names = {table_of(handle_op): handle_op for handle_op in lookups}
        for name, table in self._registered.items():
            if name not in self._rewritten:
                handle_op = None if table.variable is None else table.variable.handle.op
                if handle_op is not None or name in requests:
                    names.setdefault(name, handle_op)
        for name in requests:
            names.setdefault(name, None)
        return [self._plan_table(name, h, lookups.get(h, []), requests.get(name, [])) for name, h in names.items()]

    def _lookups(self) -> Dict[tf.Operation, List[Lookup]]:
        """VarHandleOp -> its lookups by codes."""
        found: Dict[tf.Operation, List[Lookup]] = {}
        for use in self._flow.uses:
            op = use.op
            if op.type != "ResourceGather" or use.index != 1 or op.inputs[0].op.type != "VarHandleOp":
                continue
            handle_op = op.inputs[0].op
            sources = self._flow.sources(op.inputs[1])
            table = table_of(handle_op)
            if _compat.in_control_flow(op):
                raise inside_control_flow(table, op.name)
            if len(sources) > 1:
                raise RewriteError(
                    f"Table '{table}': op '{op.name}' looks up ids that come from several lookups; put the ids together first, "
                    "and look them up once."
                )
            if op.get_attr("batch_dims") != 0:
                raise RewriteError(
                    f"Table '{table}': op '{op.name}' has batch_dims {op.get_attr('batch_dims')}; wanted 0."
                )
            found.setdefault(handle_op, []).append(Lookup(op, next(iter(sources))))
        return found

    def _plan_table(
        self, name: str, handle_op: Optional[tf.Operation], lookups: List[Lookup], requests: List[tf.Operation]
    ) -> TablePlan:
        existing = self._rewritten.get(name)
        if handle_op is not None:
            check_stand_in(name, handle_op)
        if existing is None:
            spec = table_spec(self._view, name, handle_op, [k.stand_in for k in lookups], self._default_seed)
        else:
            spec = existing.spec
        plan = TablePlan(spec, handle_op, lookups, handle_requests=requests, existing=existing)
        if existing is None:
            plan.placement = self._placer.place(name, handle_op)
        else:
            plan.placement = Placement(existing.resource.op.device or None, existing.kind)
        if handle_op is not None and existing is None:
            self._plan_update(plan)
        plan.groups = tuple(dict.fromkeys([*plan.update_sources, *(lookup.stand_in for lookup in lookups)]))
        return plan

    def _plan_update(self, plan: TablePlan) -> None:
        try:
            updates = match_updates(plan.name, plan.handle_op)
        except UnsupportedUpdate as error:
            raise RewriteError(str(error)) from error
        if len(updates) > 1:
            raise RewriteError(
                f"Table '{plan.name}': it is updated in {len(updates)} places, by '{updates[0].replaced[0].name}' and "
                f"'{updates[1].replaced[0].name}'; give each table to one optimizer, called once."
            )
        if not updates:
            return
        (plan.update,) = updates
        sources = self._flow.sources(plan.update.indices)
        plan.update_sources = tuple(dict.fromkeys(k.stand_in for k in plan.lookups if k.stand_in in sources))
        if not sources or len(sources) != len(plan.update_sources):
            raise RewriteError(
                f"Table '{plan.name}': the gradient that op '{plan.update.replaced[0].name}' applies does not come from lookups of "
                f"this table alone; {_remedy(self._view, plan.update.indices.op)}."
            )


def _remedy(view: GraphView, indices: tf.Operation) -> str:
    """How to give a table a gradient with these `indices`, which are of no lookup."""
    index, functions = view.index(), view.functions_with("HorovodAllgather", "HorovodGroupedAllgather")
    before = [index.ops[number] for number in index.upstream([indices])]
    if any(op.type == "HorovodAllgather" or not functions.keys().isdisjoint(called_functions(op)) for op in before):
        if ranks.current().size == 1 and ranks.horovod_size() > 1:
            return (
                f"the program's own Horovod reduces it over {ranks.horovod_size()} ranks, but each process has its tables for itself: call "
                "tf.enable_gpu_booster() without horovod=False, in programs that horovodrun, python -m tf_booster.run or mpirun starts"
            )
        return (
            "the program's own Horovod reduces what it has made of it: have hvd.DistributedOptimizer reduce it by itself (without "
            "groups=), and change it, as by clipping, behind that optimizer's compute_gradients"
        )
    bodies = _compat.functions_by_name(view.graph)
    called = (body.signature.name for op in before for body in all_called(op, bodies))
    if not functions.keys().isdisjoint(called):
        return (
            "hvd.DistributedOptimizer was made outside of the model function, where TensorFlow is eager, and reduces all gradients in one function: "
            "make it in the model function or, for a canned Estimator, in a function: optimizer=lambda: hvd.DistributedOptimizer(...)"
        )
    return "take it with the optimizer's compute_gradients or with tf.gradients"


def _taken_over(plan: TablePlan) -> set:
    """The ops that the rewrite replaces."""
    return {k.gather for k in plan.lookups} | set(plan.update.replaced if plan.update else ())


def _reads_slot(use: Use, slot_ops: set) -> bool:
    """Keras's chains gather their slots' rows by the codes; they are cut off with the update that they belong to."""
    if use.op.type not in ("GatherV2", "ResourceGather") or use.index != 1:
        return False
    source = skip_identity(use.op.inputs[0]).op
    return (source.inputs[0].op if source.type == "ReadVariableOp" else source) in slot_ops


def _routes(
    flow: CodeFlow, plans: List[TablePlan], stand_ins: List[tf.Operation]
) -> Dict[Tuple[tf.Operation, tf.Operation], TablePlan]:
    """Which table's probe each direct consumer of a StandInIds op reads."""
    table_of_op = {op: plan for plan in plans for op in _taken_over(plan)}
    users_of: Dict[tf.Operation, List[TablePlan]] = {}
    for plan in plans:
        for op in plan.groups:
            users_of.setdefault(op, []).append(plan)
    routes = {}
    for stand_in in stand_ins:
        users = users_of.get(stand_in, [])
        for consumer in dict.fromkeys(stand_in.outputs[0].consumers()):
            inputs = [i for i, t in enumerate(consumer.inputs) if t is stand_in.outputs[0]]
            ends = {end for i in inputs for end in flow.reaches(consumer, i)}
            reached = [plan for plan in users if any(table_of_op.get(end) is plan for end in ends)]
            if len(reached) > 1:
                raise RewriteError(
                    f"Tables '{reached[0].name}' and '{reached[1].name}': op '{consumer.name}' ({consumer.type}) hands the same "
                    "looked-up ids to both; look the ids up in each table by itself."
                )
            if users:
                routes[stand_in, consumer] = (reached or users)[0]
    return routes


def _gradient_summaries(flow: CodeFlow) -> Tuple[Set[tf.Operation], Dict[SummaryInput, str]]:
    """The ops that make a table's gradient dense for nothing but summaries, and these summaries' inputs.

    Raises RewriteError where something else takes the dense gradient.
    """
    shown: Set[tf.Operation] = set()
    summaries: Dict[SummaryInput, str] = {}
    for use in flow.uses:
        if use.op.type in DENSIFIES:
            inputs: List[SummaryInput] = []
            if follow(use.op, inputs):
                raise refused_use(use, flow)
            shown.add(use.op)
            summaries.update(dict.fromkeys(inputs, names_of(flow, [use.op.inputs[use.index]])))
    return shown, summaries


def _refuse_functions(view: GraphView) -> None:
    for function, node in view.functions_with(STAND_IN_IDS, STAND_IN_TABLE).items():
        raise inside_control_flow(tf.compat.as_str(node.attr["table_name"].s), f"{node.name}' of function '{function}")
