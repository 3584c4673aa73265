"""Which marked gradients ranks sum, and which of them together; changes nothing."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, FrozenSet, Iterable, List, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel.collectives import is_users_collective
from tf_booster.parallel.raw_gradients import RawGradient, marked_in, raw_gradients
from tf_booster.passes import users_table_reductions
from tf_booster.passes.base import RewriteError
from tf_booster.passes.fetches import UPDATE, fetches_of, updating_calls
from tf_booster.passes.graph_index import GraphIndex, reached
from tf_booster.passes.graph_view import GraphView, is_undone, removed_variables, variable_handle_op
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.sources import Sources, all_called

# What keeps different ids different: partitions of a Variable take each a part of the ids, and number their own rows.
_KEEP_APART = (
    "Identity",
    "Reshape",
    "Cast",
    "DynamicPartition",
    "FloorDiv",
    "FloorMod",
    "Sub",
    "Select",
    "SelectV2",
    "ConcatV2",
)

_APPLY = ("ResourceApply", "ResourceSparseApply", "Apply", "SparseApply", "TfBoosterMulti")

_REMEDY = "take gradients outside of tf.cond and tf.while_loop, and only apply them inside."

_VALUES = ("grad", "value", "updates")  # Of an update, what is no hyperparameter.

# What a program sums gradients with.
USERS_REDUCTIONS = ("HorovodAllreduce", "HorovodGroupedAllreduce", "HorovodAllgather", "HorovodGroupedAllgather",
                    "HorovodReducescatter", "HorovodGroupedReducescatter")  # fmt: skip


@dataclasses.dataclass
class GradientPlan:
    """What the ranks' gradients become.

    dense, sparse: groups of marks that one collective sums. by_user: marks that the program reduces itself. left: the others in a program
      that trains by its own Horovod. inner: numbers of ops, in view.index(), that lead to another mark: a gradient of a gradient is of this
      rank's loss, so they go on reading what they read.
    unmarked: updates whose gradient no mark leads to, although data does. trains: whether a Variable or a table is updated by a mark.
    """

    dense: List[List[RawGradient]] = dataclasses.field(default_factory=list)
    sparse: List[List[RawGradient]] = dataclasses.field(default_factory=list)
    by_user: List[RawGradient] = dataclasses.field(default_factory=list)
    left: List[RawGradient] = dataclasses.field(default_factory=list)
    inner: Set[int] = dataclasses.field(default_factory=set)
    unmarked: List[tf.Operation] = dataclasses.field(default_factory=list)
    trains: bool = False

    @property
    def trained_by_user(self) -> bool:
        """Whether the program trains by its own Horovod."""
        return bool(self.by_user or self.left)


def plan_gradients(view: GraphView) -> GradientPlan:
    """Sorts the marks that lead to an update of a Variable. Linear in the graph, but for the number of fetches.

    Raises RewriteError for a gradient inside of a tf.cond or tf.while_loop.
    """
    for name, variable in gradients_in_functions(view):
        raise RewriteError(
            f"The gradient of Variable '{variable}' is taken inside of '{name}', where ranks cannot sum it; {_REMEDY}"
        )
    index = view.index()
    gone = set(removed_variables(view.graph))
    marks = [mark for mark in raw_gradients(view.graph) if mark.variable.name not in gone]
    all_marks = {index.number[mark.values.op] for mark in raw_gradients(view.graph)}
    all_marks |= {
        index.number[mark.gradient.indices.op] for mark in marks if isinstance(mark.gradient, tf.IndexedSlices)
    }
    initial = view.upstream_of_initializers()
    updates = [index.number[op] for t in index.types() if UPDATE.fullmatch(t) for op in index.of_types([t])]
    updates += [index.number[op] for op in updating_calls(view)]
    updates = [number for number in updates if number not in initial]
    plan = GradientPlan()
    applied = reached(updates, index.before, stop=all_marks)
    # By data alone: what merely waits for an update of another train op is no gradient of its gradient.
    plan.inner = _computed_from(index, [t.op for number in all_marks for t in index.ops[number].inputs])
    users = _users_collectives(view, applied)
    by_user = _computed_from(index, users)
    kept = [mark for mark in marks if index.number[mark.values.op] in applied]
    plan.trains = bool(kept) or len(marks) < len(raw_gradients(view.graph))
    plan.by_user = [mark for mark in kept if index.number[mark.values.op] in by_user]
    kept = [mark for mark in kept if index.number[mark.values.op] not in by_user]
    of_tables = users_table_reductions.were_left_out(view.graph)
    if plan.by_user or of_tables or _trains_by(view, updates, users, all_marks):
        plan.left, kept = kept, []
    plan.unmarked = _unmarked(view, updates, all_marks, by_user)
    keys = fetches_that_need(view, [mark.values.op for mark in kept])
    is_sparse = [isinstance(mark.gradient, tf.IndexedSlices) for mark in kept]
    plan.dense = _groups(view, [mark for mark, sparse in zip(kept, is_sparse) if not sparse], keys)
    plan.sparse = _groups(view, [mark for mark, sparse in zip(kept, is_sparse) if sparse], keys)
    return plan


def gradients_in_functions(view: GraphView) -> List[Tuple[str, str]]:
    """(op, Variable) of what calls functions that take a gradient and update by it, as tf.cond does; a program's own collectives may sum it there."""
    found = []
    bodies = _compat.functions_by_name(view.graph)
    for op in updating_calls(view):
        called = all_called(op, bodies)
        by_user = any(node.op in USERS_REDUCTIONS for body in called for node in body.node_def)
        variables = [variable for variable in map(marked_in, called) if variable]
        if variables and not by_user and not any(is_undone(tensor.op.name) for tensor in op.inputs):
            found.append((op.name, variables[0]))
    return found


def _groups(
    view: GraphView, marks: Sequence[RawGradient], keys: Dict[tf.Operation, FrozenSet[int]]
) -> List[List[RawGradient]]:
    units = []
    for mark in marks:
        ops = [mark.values.op]
        if isinstance(mark.gradient, tf.IndexedSlices):
            ops.append(mark.gradient.indices.op)
        # Whatever runs one of them runs them all, since the same fetches need them.
        units.append(Unit(tuple(ops), keys[mark.values.op], mark, together=True))
    groups, refused = merge_groups(view, units)
    for unit, reason in refused:
        raise RewriteError(
            f"Gradient '{unit.payload.values.name}' of Variable '{unit.payload.variable.name}' cannot be summed over ranks: {reason}; {_REMEDY}"
        )
    return [[unit.payload for unit in group] for group in groups]


def fetches_that_need(view: GraphView, ops: Sequence[tf.Operation]) -> Dict[tf.Operation, FrozenSet[int]]:
    """For each op the fetches that need it: those of different train ops have none in common."""
    index = view.index()
    needed: Dict[tf.Operation, Set[int]] = {op: set() for op in ops}
    after = index.after()
    for root in _roots(view):
        upstream = index.upstream([index.ops[root]])
        for op in ops:
            if index.number[op] in upstream:
                needed[op].add(root)
    for op, roots in needed.items():
        if not roots:  # A hook runs its update, as GANs' do: with whatever else has the same ends.
            roots.update(number for number in reached([index.number[op]], after) if not after[number])
    return {op: frozenset(roots) for op, roots in needed.items()}


def _roots(view: GraphView) -> List[int]:
    """The ops that the program fetches; where only train ops are known, what waits on them last, as a tf.group of two does."""
    index = view.index()
    fetches = fetches_of(view)
    named = [view.graph.get_operation_by_name(name) for name in fetches.names]
    if fetches.said_by.startswith("the Estimator"):
        return [index.number[op] for op in named]
    after = index.after()
    ends = reached([index.number[op] for op in named], after)
    ends = [
        number for number in ends if not after[number] and index.ops[number].type not in ("ReadVariableOp", "Identity")
    ]
    return sorted(ends) or [index.number[op] for op in named]


def _unmarked(view: GraphView, updates: Iterable[int], marks: Set[int], by_user: Set[int]) -> List[tf.Operation]:
    index, sources = view.index(), Sources(view.graph)
    behind = reached(marks | by_user, index.after())
    gone = set(removed_variables(view.graph))
    found = []
    for number in updates:
        op = index.ops[number]
        if number not in behind and op.type.startswith(_APPLY) and op.inputs[0].op.name not in gone:
            if any(sources.is_source(index.ops[other]) for other in index.upstream([op]) if other != number):
                found.append(op)
    return found


def _computed_from(index: GraphIndex, ops: Iterable[tf.Operation], stop: AbstractSet[int] = frozenset()) -> Set[int]:
    """The numbers of `ops` and of what they are computed from, by data edges; not what the ops `stop` are."""
    seen: Set[int] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if index.number[op] not in seen:
            seen.add(index.number[op])
            if index.number[op] not in stop:
                stack.extend(tensor.op for tensor in op.inputs)
    return seen


def _users_collectives(view: GraphView, numbers: Iterable[int]) -> List[tf.Operation]:
    """The program's own collectives; Horovod's optimizers have them in the functions of tf.conds, one in another."""
    index = view.index()
    bodies = _compat.functions_by_name(view.graph) if view.functions_with(*USERS_REDUCTIONS) else {}

    def reduces(op: tf.Operation) -> bool:
        return any(node.op in USERS_REDUCTIONS for body in all_called(op, bodies) for node in body.node_def)

    ops = [index.ops[number] for number in numbers]
    return [op for op in ops if is_users_collective(op) or (bodies and reduces(op))]


def _trains_by(view: GraphView, updates: Iterable[int], users: Sequence[tf.Operation], marks: Set[int]) -> bool:
    """Whether a trained Variable is updated by what the program's own collectives give, of its shape: means of Variables that ranks have
    trained apart for some steps, gradients that were summed up over steps. What it leaves out is each rank's own then.

    Not by one in front of a gradient, as those of a loss or of batch normalization are, nor by a number such as a learning rate."""
    users = [op for op in users if not op.type.startswith("HorovodBroadcast")]
    if not users:
        return False
    index = view.index()
    shapes = {index.number[op]: [tensor.shape for tensor in op.outputs] for op in users}
    trained = {variable_handle_op(v) or v.op: v.shape for v in tf.compat.v1.trainable_variables()}
    for op in (index.ops[number] for number in updates):
        values, wanted = op.inputs, list(trained.values())  # Of what calls functions that update.
        if index.number[op] in shapes:
            return True  # It reduces what it updates by.
        if UPDATE.fullmatch(op.type):
            wanted = [trained[op.inputs[0].op]] if op.inputs and op.inputs[0].op in trained else []
            values = [t for arg, t in zip(op.op_def.input_arg, op.inputs) if wanted and arg.name in _VALUES]
        for number in shapes.keys() & _computed_from(index, [tensor.op for tensor in values], marks):
            if any(shape.rank is None or shape in wanted for shape in shapes[number]):
                return True
    return False


def distinct_indices(indices: tf.Tensor) -> bool:
    """Whether a lookup has made `indices` distinct: they come from a Unique, through what keeps different ones different."""
    seen: List[Tuple[tf.Operation, int]] = []
    tensor = indices
    while (tensor.op, tensor.value_index) not in seen:
        seen.append((tensor.op, tensor.value_index))
        if tensor.op.type in ("Unique", "UniqueV2", "TfBoosterUnique"):
            return tensor.value_index == 0
        if tensor.op.type not in _KEEP_APART:
            return False
        if tensor.op.type == "ConcatV2" and len(tensor.op.inputs) > 2:
            return False
        tensor = tensor.op.inputs[1 if tensor.op.type.startswith("Select") else 0]
    return False
