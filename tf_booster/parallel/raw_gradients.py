"""Marks gradients where they leave the backward pass, before the program clips, averages or applies them.

There the ranks' gradients can be summed so that clipping sees what one process would see. A mark is an Identity that only the program
reads: a gradient itself may be read by the rest of the backward pass too. Without several ranks nothing is marked.

In a branch of a tf.cond, which is a function, a mark says by attributes what it is: no collective can be there, but the branch may become part of the graph.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster import _compat

_COLLECTION = ("tf_booster", "raw_gradients")
_NAME = "raw_gradient"
# An attribute of a mark in a function: the Variable's op, the mark's own name, that of its indices or "", and what was differentiated.
_IN_FUNCTION = "_tf_booster_gradient_of"
_OF_GRAPH = (
    "^"  # Before the name of what was differentiated, where it is a tensor of the graph and not of the function.
)
_marking = True


class RawGradient(NamedTuple):
    """One marked gradient.

    variable: the op of the Variable that it belongs to: VarHandleOp, or VariableV2 for a reference Variable. Of a table, its stand-in's.
    gradient: what the program got: an Identity's output, or IndexedSlices whose values and indices are such.
    losses: what was differentiated.
    """

    variable: tf.Operation
    gradient: Union[tf.Tensor, tf.IndexedSlices]
    losses: Tuple[tf.Tensor, ...]

    @property
    def values(self) -> tf.Tensor:
        """The gradient, or the values of its slices."""
        return self.gradient.values if isinstance(self.gradient, tf.IndexedSlices) else self.gradient


def raw_gradients(graph: tf.Graph) -> List[RawGradient]:
    """The marked gradients of `graph`, in the order in which they were made."""
    return graph.get_collection(_COLLECTION)


@contextlib.contextmanager
def unmarked() -> Iterator[None]:
    """Gradients that are taken inside are not marked; not for use by several threads at once."""
    global _marking
    was, _marking = _marking, False
    try:
        yield
    finally:
        _marking = was


def marked_in(function: Any) -> Optional[str]:
    """The name of a Variable whose gradient is taken in the body of `function`; None if none is."""
    marks = (node.attr[_IN_FUNCTION].list.s[0] for node in function.node_def if _IN_FUNCTION in node.attr)
    return next((name.decode() for name in marks), None)


def note_imported(graph: tf.Graph, ops: Sequence[tf.Operation]) -> None:
    """Makes those of `ops`, which were the body of a function, marks of `graph` that were marks there.

    Raises ValueError where what was differentiated is not known.
    """
    for op in ops:
        told = _compat.string_list_attr(op, _IN_FUNCTION)
        if not told:
            continue
        if len(told) == 1:
            raise ValueError(f"The gradient of Variable '{told[0]}' is of a loss in another tf.cond around its own.")
        variable, own, rows, *losses = told
        scope = op.name[: len(op.name) - len(own)]
        gradient: Any = op.outputs[0]
        if rows:
            gradient = tf.IndexedSlices(gradient, graph.get_tensor_by_name(f"{scope}{rows}:0"))
        names = [name[1:] if name.startswith(_OF_GRAPH) else scope + name for name in losses]
        differentiated = tuple(graph.get_tensor_by_name(name) for name in names)
        mark = RawGradient(graph.get_operation_by_name(variable), gradient, differentiated)
        graph.add_to_collection(_COLLECTION, mark)


def is_mark(op: tf.Operation) -> bool:
    """Whether `op` looks like a mark; raw_gradients() has those that are."""
    return op.type == "Identity" and op.name.rpartition("/")[2].startswith(_NAME)


def mark_helper(original: Any) -> Any:
    """Wraps gradients_util._GradientsHelper, in which tf.gradients and the optimizers' compute_gradients end."""

    @functools.wraps(original)
    def _GradientsHelper(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
        return _marked(original(ys, xs, *args, **kwargs), ys, xs)

    return _GradientsHelper


def mark_tape(original: Any) -> Any:
    """Wraps GradientTape.gradient, in which minimize(callable) ends."""

    @functools.wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, target, sources, *args, **kwargs)
        if tf.executing_eagerly():
            return result
        marked = _marked(_leaves(result), target, _leaves(sources))
        return tf.nest.pack_sequence_as(sources, marked)

    return gradient


def _leaves(structure: Any) -> List[Any]:
    return tf.nest.flatten(structure, expand_composites=False)


def _marked(gradients: Sequence[Any], ys: Any, xs: Any) -> List[Any]:
    graph = tf.compat.v1.get_default_graph()
    xs = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    in_function = _compat.is_function_graph(graph)
    if not _marking or (in_function and not _compat.is_branch(graph)) or len(xs) != len(gradients):
        return gradients
    losses = tuple(y for y in tf.nest.flatten(ys) if isinstance(y, tf.Tensor))
    return [_mark(graph, gradient, x, losses) for gradient, x in zip(gradients, xs)]


def _mark(graph: tf.Graph, gradient: Any, x: Any, losses: Tuple[tf.Tensor, ...]) -> Any:
    variable = _variable_op(x)
    if variable is None or not isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        indices = tf.identity(gradient.indices, name=_NAME + "_indices")
        gradient = tf.IndexedSlices(tf.identity(gradient.values, name=_NAME), indices, gradient.dense_shape)
    else:
        gradient = tf.identity(gradient, name=_NAME)
    if _compat.is_function_graph(graph):
        _describe(gradient, variable, losses)
    else:
        graph.add_to_collection(_COLLECTION, RawGradient(variable, gradient, losses))
    return gradient


def _describe(gradient: Any, variable: tf.Operation, losses: Sequence[tf.Tensor]) -> None:
    """Writes the attribute. What is differentiated in a function between this one and the graph has no name in either."""
    values, rows = (
        (gradient.values, gradient.indices.op.name) if isinstance(gradient, tf.IndexedSlices) else (gradient, "")
    )
    names: List[str] = []
    for loss in losses:
        if loss.graph is not values.graph and _compat.is_function_graph(loss.graph):
            _compat.set_string_list_attr(values.op, _IN_FUNCTION, [variable.name])
            return
        names.append(loss.name if loss.graph is values.graph else _OF_GRAPH + loss.name)
    _compat.set_string_list_attr(values.op, _IN_FUNCTION, [variable.name, values.op.name, rows, *names])


def _variable_op(x: Any) -> Optional[tf.Operation]:
    """The op of a Variable, given as such, by its handle or by its reference."""
    tensor = getattr(x, "handle", x) if isinstance(x, tf.Variable) else x
    if isinstance(x, tf.Variable) and not isinstance(tensor, tf.Tensor):
        return x.op
    op = tensor.op if isinstance(tensor, tf.Tensor) and hasattr(tensor, "graph") else None
    return op if op is not None and op.type in ("VarHandleOp", "VariableV2", "Variable") else None
