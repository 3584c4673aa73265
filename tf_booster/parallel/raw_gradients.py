"""Marks gradients where they leave the backward pass, before the program clips, averages or applies them.

There the ranks' gradients can be summed so that clipping sees what one process would see. A mark is an Identity that only the program
reads: a gradient itself may be read by the rest of the backward pass too. Without several ranks nothing is marked.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster import _compat

_COLLECTION = ("tf_booster", "raw_gradients")
_NAME = "raw_gradient"
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
    if not _marking or _compat.is_function_graph(graph) or len(xs) != len(gradients):
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
    graph.add_to_collection(_COLLECTION, RawGradient(variable, gradient, losses))
    return gradient


def _variable_op(x: Any) -> Optional[tf.Operation]:
    """The op of a Variable, given as such, by its handle or by its reference."""
    tensor = getattr(x, "handle", x) if isinstance(x, tf.Variable) else x
    if isinstance(x, tf.Variable) and not isinstance(tensor, tf.Tensor):
        return x.op
    op = tensor.op if isinstance(tensor, tf.Tensor) and hasattr(tensor, "graph") else None
    return op if op is not None and op.type in ("VarHandleOp", "VariableV2", "Variable") else None
