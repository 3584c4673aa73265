"""What a program fetches from a graph at each step: whatever is upstream of that runs, and is what the report counts.

An Estimator's model function says it: train_op and loss when it trains, loss and metrics when it evaluates, predictions when
it predicts. Where no Estimator is, the collection TRAIN_OP has what v1 optimizers made; failing that, the ops that write to
Variables are taken, and failing those all ops that nothing reads.
"""

from __future__ import annotations

import dataclasses
import re
import weakref
from typing import AbstractSet, Any, Dict, Iterable, List, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView, inputs_before, originals, removed_variables
from tf_booster.passes.sources import functions_in

_noted: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> Fetches.

UPDATE = re.compile(
    r"Resource(Sparse)?Apply\w+|ResourceScatter\w+|(Sparse)?Apply[A-Z]\w+|Scatter(Nd)?(Add|Sub|Mul|Div|Min|Max|Update)"
    r"|Assign(Add|Sub)?(VariableOp)?|TfBooster\w*Apply\w*"
)


@dataclasses.dataclass(frozen=True)
class Fetches:
    """names: of ops. forward: those of them that need no gradients, like the loss. said_by: where this is known from."""

    names: Tuple[str, ...]
    forward: Tuple[str, ...]
    said_by: str


def note_spec(graph: tf.Graph, spec: Any) -> None:
    """Remembers what an Estimator will fetch by the EstimatorSpec `spec`."""
    modes = tf.estimator.ModeKeys
    if spec.mode == modes.TRAIN:
        kind, forward, others = "train_op and loss", _ops(spec.loss), _ops(spec.train_op)
    elif spec.mode == modes.EVAL:
        kind, forward, others = "loss and metrics", _ops(spec.loss), _ops(spec.eval_metric_ops)
    else:
        kind, forward, others = "predictions", _ops(spec.predictions), []
    names = tuple(dict.fromkeys(op.name for op in [*others, *forward]))
    _noted[graph] = Fetches(names, tuple(op.name for op in forward), f"the Estimator's {kind}")


def fetches_are_estimators(graph: tf.Graph) -> bool:
    """Whether an Estimator has said what it will fetch from `graph`."""
    return graph in _noted


def fetches_of(view: GraphView) -> Fetches:
    """What is fetched from the graph, as well as that can be known."""
    noted = _noted.get(view.graph)
    if noted is not None:
        return noted
    train_ops, losses = (
        # A function's graph, such as a tf.cond's, shares the collections; what is made in it cannot be fetched.
        [op for op in _ops(view.graph.get_collection(key)) if op.graph is view.graph]
        for key in (tf.compat.v1.GraphKeys.TRAIN_OP, tf.compat.v1.GraphKeys.LOSSES)
    )
    if train_ops:
        return Fetches(_names(train_ops), _names(losses), "the collection TRAIN_OP")
    index = view.index()
    initial = view.upstream_of_initializers()
    written = updates(view, initial)
    if written:
        return Fetches(_names(written), _names(losses), "the ops that write to Variables")
    read = {number for before in index.before for number in before}
    # What edited ops read before, and ops that passes made, were left over by passes; an end itself a fused op only stands for.
    once = {name.lstrip("^").partition(":")[0] for names in inputs_before(view.graph).values() for name in names}
    ends = [
        op
        for number, op in enumerate(index.ops)
        if number not in read and number not in initial and op.name not in once and not originals(op)
    ]
    return Fetches(_names(ends), (), "the ops that nothing reads")


def updates(view: GraphView, initial: AbstractSet[int]) -> List[tf.Operation]:
    """The ops that write to Variables, but for those that initialize or restore them; `initial`: view.upstream_of_initializers()."""
    index = view.index()
    tables = set(removed_variables(view.graph))  # What initialized these is no update either.
    return [
        op
        for op_type in index.types()
        if UPDATE.fullmatch(op_type)
        for op in index.of_types([op_type])
        if index.number[op] not in initial and not restores(op) and not (op.inputs and op.inputs[0].op.name in tables)
    ]


def updating_calls(view: GraphView) -> List[tf.Operation]:
    """The ops that call functions in which Variables are written, as a tf.cond around apply_gradients does."""
    bodies = {body.signature.name: body.node_def for body in _compat.function_definitions(view.graph)}
    writing = {name for name, nodes in bodies.items() if any(UPDATE.fullmatch(node.op) for node in nodes)}
    known = 0
    while writing and known != len(writing):
        known = len(writing)
        writing |= {name for name, nodes in bodies.items() if any(_calls(node, writing) for node in nodes)}
    if not writing:
        return []
    types = [op_type for op_type in view.index().types() if _compat.calls_functions(op_type)]
    return [op for op in view.ops(*types) if _calls(op.node_def, writing)]


def _calls(node: Any, functions: AbstractSet[str]) -> bool:
    return any(name in functions for attr in node.attr.values() for name in functions_in(attr))


def executed(view: GraphView, names: Iterable[str]) -> List[int]:
    """Numbers, in view.index(), of all that runs when the ops `names` are fetched, each after what is before it."""
    index = view.index()
    return in_order([index.number[op] for op in roots_of(view, names)], index.before)


def roots_of(view: GraphView, names: Iterable[str]) -> List[tf.Operation]:
    """The ops that run when the ops `names` are fetched: the fused op in the place of one that it stands for."""
    index = view.index()
    replaced: Dict[str, tf.Operation] = {}
    for op_type in index.types():
        if op_type.startswith("TfBooster"):
            for op in index.of_types([op_type]):
                replaced.update((name, op) for name in originals(op))
    return [replaced.get(name) or view.graph.get_operation_by_name(name) for name in names]


def executed_ops(view: GraphView) -> AbstractSet[tf.Operation]:
    """All ops that what is fetched needs, each after what is before it: the others are left of what passes have replaced."""
    index = view.index()
    return dict.fromkeys(index.ops[number] for number in executed(view, fetches_of(view).names)).keys()


def in_order(roots: Sequence[int], before: Sequence[Tuple[int, ...]]) -> List[int]:
    """`roots` and all before them, each number once, after what is before it; of a loop's back edges those to what is under way do not count."""
    order: List[int] = []
    seen = set()
    for root in roots:
        stack = [] if root in seen else [(root, iter(before[root]))]
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    stack.append((other, iter(before[other])))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def restores(op: tf.Operation) -> bool:
    """Whether `op` writes what a Saver read from a checkpoint."""
    value = op.inputs[1].op if len(op.inputs) > 1 else op
    while value.type in ("Identity", "Reshape"):
        value = value.inputs[0].op
    return value.type == "RestoreV2"


def _names(ops: Iterable[tf.Operation]) -> Tuple[str, ...]:
    return tuple(dict.fromkeys(op.name for op in ops))


def _ops(structure: Any) -> List[tf.Operation]:
    found = []
    for item in tf.nest.flatten(structure, expand_composites=True):
        if isinstance(item, (tf.Operation, tf.Tensor)) and not hasattr(item, "numpy"):
            found.append(item if isinstance(item, tf.Operation) else item.op)
    return found
