"""What the hash-table pass is about to do, worked out and checked before the first edit."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.embedding.initializers import from_initial_value_op
from tf_booster.embedding.table_spec import TableSpec
from tf_booster.passes.base import RewriteError
from tf_booster.passes.code_flow import CodeFlow, Use
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.optimizer_matching import SparseUpdate, UnsupportedUpdate, match_updates
from tf_booster.passes.variable_uses import SummaryInput, VariableUses, follow, is_call, variable_uses

STAND_IN_IDS = "TfBoosterStandInIds"
STAND_IN_TABLE = "TfBoosterStandInTable"

# What tf.convert_to_tensor makes of tf.IndexedSlices: rows summed up at the places that the codes would name.
_DENSIFIES = ("UnsortedSegmentSum", "ScatterNd")


@dataclasses.dataclass(frozen=True)
class Lookup:
    """A gather on the stand-in by codes of `stand_in` (a StandInIds op)."""

    gather: tf.Operation
    stand_in: tf.Operation


@dataclasses.dataclass
class TablePlan:
    """One table's part of the rewrite.

    handle_op: VarHandleOp of the stand-in Variable; None for a table that nothing looks up.
    groups: the StandInIds ops that become probes of this table -> their group. Those of the update come first.
    update_sources: the StandInIds ops whose codes are among the update's indices, in the order of their groups.
    existing: the table, where an earlier rewrite of this graph has made it.
    """

    spec: TableSpec
    handle_op: Optional[tf.Operation]
    lookups: List[Lookup] = dataclasses.field(default_factory=list)
    groups: Dict[tf.Operation, int] = dataclasses.field(default_factory=dict)
    update: Optional[SparseUpdate] = None
    update_sources: Tuple[tf.Operation, ...] = ()
    uses: VariableUses = dataclasses.field(default_factory=VariableUses)
    handle_requests: List[tf.Operation] = dataclasses.field(default_factory=list)
    existing: Optional[registry.RewrittenTable] = None

    @property
    def name(self) -> str:
        """The table's name in the graph and in checkpoints."""
        return self.spec.name


@dataclasses.dataclass
class RewritePlan:
    """All tables of a graph, and which of a StandInIds op's consumers read the probe of which table.

    gradient_summaries: inputs of summaries that show a table's gradient as a dense tensor -> the table's name.
    """

    tables: List[TablePlan]
    gradient_summaries: Dict[SummaryInput, str]
    routes: Dict[Tuple[tf.Operation, tf.Operation], TablePlan]  # (StandInIds op, consumer of its codes) -> table


def plan_rewrite(view: GraphView, default_seed: Optional[int]) -> RewritePlan:
    """Finds the tables of the graph, their lookups and updates.

    Raises RewriteError for whatever a table cannot serve.
    """
    _refuse_functions(view)
    stand_ins = [op for op in view.ops(STAND_IN_IDS) if op.outputs[0].consumers()]
    for op in stand_ins:
        if _compat.in_control_flow(op):
            raise _inside_control_flow(_table_name_attr(op), op.name)
    flow = CodeFlow(stand_ins)
    shown, gradient_summaries = _gradient_summaries(flow)
    plans = _Planner(view, flow, default_seed).plan()
    accepted = shown.union(*(_taken_over(plan) for plan in plans))
    handle_ops = {plan.handle_op for plan in plans}
    slot_ops = {slot.handle_op for plan in plans if plan.update for slot in plan.update.slots if slot.handle_op}
    for use in flow.uses:
        # Other uses of a stand-in itself, like ResourceGatherNd, are for variable_uses to name.
        if use.op not in accepted and not _reads_slot(use, slot_ops) and use.op.inputs[0].op not in handle_ops:
            raise _refused_use(use, flow)
    for use in flow.foreign_inputs():
        raise RewriteError(
            f"Table '{_names(flow, use.op.outputs)}': op '{use.op.name}' ({use.op.type}) mixes looked-up ids with the values of "
            f"'{use.op.inputs[use.index].name}'; put the ids together before they are looked up."
        )
    for plan in plans:
        if plan.handle_op is not None and plan.existing is None:
            plan.uses = variable_uses(plan.name, plan.handle_op, _taken_over(plan))
    return RewritePlan(plans, gradient_summaries, _routes(flow, plans, stand_ins))


class _Planner:
    """Plans table by table."""

    def __init__(self, view: GraphView, flow: CodeFlow, default_seed: Optional[int]):
        self._view, self._flow, self._default_seed = view, flow, default_seed
        self._registered = registry.tables(view.graph)
        self._rewritten = registry.rewritten(view.graph)
        self._columns = registry.columns(view.graph)

    def plan(self) -> List[TablePlan]:
        lookups = self._lookups()
        requests: Dict[str, List[tf.Operation]] = {}
        for op in self._view.ops(STAND_IN_TABLE):
            if op.outputs[0].consumers():
                requests.setdefault(_table_name_attr(op), []).append(op)
        names = {_table_of(handle_op): handle_op for handle_op in lookups}
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
            table = _table_of(handle_op)
            if _compat.in_control_flow(op):
                raise _inside_control_flow(table, op.name)
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
            _check_stand_in(name, handle_op)
        plan = TablePlan(self._spec(name, handle_op, lookups, existing), handle_op, lookups, handle_requests=requests)
        plan.existing = existing
        if handle_op is not None and existing is None:
            self._plan_update(plan)
        first_group = 0 if existing is None else existing.num_probes
        order = dict.fromkeys([*plan.update_sources, *(lookup.stand_in for lookup in lookups)])
        plan.groups = {stand_in: first_group + place for place, stand_in in enumerate(order)}
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
                "this table alone; take it with the optimizer's compute_gradients or with tf.gradients."
            )

    def _spec(
        self,
        name: str,
        handle_op: Optional[tf.Operation],
        lookups: List[Lookup],
        existing: Optional[registry.RewrittenTable],
    ) -> TableSpec:
        if existing is not None:
            return existing.spec
        if name in self._registered:
            spec = self._registered[name].spec
        elif handle_op is not None:
            spec = self._column_spec(name, handle_op, lookups)
        else:
            raise RewriteError(
                f"Table '{name}': nothing in this graph made it; make it with tf_booster.get_hash_table."
            )
        graph_seed = self._view.graph.seed
        seed = next(s for s in (spec.seed, self._default_seed, graph_seed, 0) if s is not None)
        return dataclasses.replace(spec, seed=int(seed))

    def _column_spec(self, name: str, handle_op: tf.Operation, lookups: List[Lookup]) -> TableSpec:
        """The spec of a table whose Variable a feature column's user (embedding_column, linear_model) made."""
        what = f"Table '{name}'"
        try:
            read = from_initial_value_op(_initial_value(name, handle_op).op, what)
        except ValueError as error:
            raise RewriteError(str(error)) from error
        settings = [self._columns[k.stand_in.name] for k in lookups if k.stand_in.name in self._columns]
        first = settings[0] if settings else None
        for other in settings[1:]:
            if _own(other) != _own(first):
                raise RewriteError(
                    f"{what}: columns '{first.key}' and '{other.key}' share it, but want other settings: {_own(first)} and "
                    f"{_own(other)}; give both the same."
                )
        return TableSpec(
            name=name,
            dim=int(_shape_of(handle_op)[1]),
            initializer=read.spec,
            seed=first.seed if first and first.seed is not None else read.seed,
            trainable=self._view.in_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, handle_op),
            **(_own(first) if first else {}),
        )


def _gradient_summaries(flow: CodeFlow) -> Tuple[Set[tf.Operation], Dict[SummaryInput, str]]:
    """The ops that make a table's gradient dense for nothing but summaries, and these summaries' inputs.

    Raises RewriteError where something else takes the dense gradient.
    """
    shown: Set[tf.Operation] = set()
    summaries: Dict[SummaryInput, str] = {}
    for use in flow.uses:
        if use.op.type in _DENSIFIES:
            inputs: List[SummaryInput] = []
            if follow(use.op, inputs):
                raise _refused_use(use, flow)
            shown.add(use.op)
            summaries.update(dict.fromkeys(inputs, _names(flow, [use.op.inputs[use.index]])))
    return shown, summaries


def _own(settings: registry.ColumnSettings) -> Dict[str, Any]:
    return {name: getattr(settings, name) for name in ("min_frequency", "eviction", "max_rows")}


def _table_of(handle_op: tf.Operation) -> str:
    """The table's name is the Variable's; partitioners (here always into one part) add /part_0."""
    suffix = "/part_0"
    return handle_op.name[: -len(suffix)] if handle_op.name.endswith(suffix) else handle_op.name


def _table_name_attr(op: tf.Operation) -> str:
    return tf.compat.as_str(op.get_attr("table_name"))


def _shape_of(handle_op: tf.Operation) -> List[Optional[int]]:
    return tf.TensorShape(handle_op.get_attr("shape")).as_list()


def _check_stand_in(table: str, handle_op: tf.Operation) -> None:
    dtype, shape = handle_op.get_attr("dtype"), _shape_of(handle_op)
    job = tf.DeviceSpec.from_string(handle_op.device).job
    if job not in (None, "localhost"):
        raise RewriteError(
            f"Table '{table}': it is placed on job '{job}', but a hash table lives in one process; train without parameter servers "
            "(unset TF_CONFIG)."
        )
    if dtype != tf.float32:
        raise RewriteError(
            f"Table '{table}': its Variable is {tf.as_dtype(dtype).name}; a hash table's rows are float32."
        )
    if len(shape) != 2 or shape[0] != 1 or not shape[1]:
        raise RewriteError(
            f"Table '{table}': its Variable has shape {shape}, wanted [1, dim]; take the partitioner off it."
        )


def _initial_value(table: str, handle_op: tf.Operation) -> tf.Tensor:
    for op in handle_op.outputs[0].consumers():
        if op.type == "AssignVariableOp" and op.name == f"{handle_op.name}/Assign":
            return op.inputs[1]
    raise RewriteError(
        f"Table '{table}': the op that initialises its Variable is not in the graph; make the Variable in it."
    )


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
    routes = {}
    for stand_in in stand_ins:
        users = [plan for plan in plans if stand_in in plan.groups]
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


def _names(flow: CodeFlow, tensors: Any) -> str:
    sources = {op for tensor in tensors for op in flow.sources(tensor)}
    return "', '".join(sorted({_table_name_attr(op) for op in sources}))


def _refused_use(use: Use, flow: CodeFlow) -> RewriteError:
    op, tensor = use.op, use.op.inputs[use.index]
    start = f"Table '{_names(flow, [tensor])}': op '{op.name}' ({op.type})"
    if is_call(op):
        return RewriteError(
            f"{start} takes the looked-up ids into a tf.cond, a tf.while_loop or a tf.function; look ids up outside, and pass the "
            "embeddings in."
        )
    if op.type in _DENSIFIES:
        return RewriteError(
            f"{start} turns the table's sparse gradient into a dense tensor, and a table has no fixed rows. Adding an l2_loss of "
            "the whole table does this: regularise the looked-up embeddings. So does tf.convert_to_tensor: keep tf.IndexedSlices, "
            "as tf.clip_by_norm and tf.clip_by_global_norm do."
        )
    if not tf.compat.v1.resource_variables_enabled():
        return RewriteError(
            f"{start} takes the looked-up ids to what is probably a reference Variable, which cannot stand for a table; call "
            "tf.compat.v1.enable_resource_variables() at the start of the program (after disable_v2_behavior)."
        )
    columns = op.type in ("OneHot", "SparseReorder") or op.type.startswith("SparseCross")
    return RewriteError(
        f"{start} computes with looked-up ids, which before the rewrite only stand for them; compute with the ids before they go "
        "into the lookup or the column."
        + (" An indicator_column or crossed_column wants a categorical_column_with_hash_bucket." if columns else "")
    )


def _inside_control_flow(table: str, op_name: str) -> RewriteError:
    return RewriteError(
        f"Table '{table}': the lookup '{op_name}' is inside a tf.cond, a tf.while_loop or a tf.function; look ids up outside, and pass "
        "the embeddings in."
    )


def _refuse_functions(view: GraphView) -> None:
    for function, node in view.functions_with(STAND_IN_IDS, STAND_IN_TABLE).items():
        raise _inside_control_flow(tf.compat.as_str(node.attr["table_name"].s), f"{node.name}' of function '{function}")
