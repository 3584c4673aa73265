"""Iterators of a graph: which of them tensors are computed from, and how their datasets become others, with flags beside the elements.

Python holds the tensors of an iterator's elements, and an op's number of outputs is settled. So there is another iterator, and what reads
the old one's tensors, or is fetched by them, gets the new one's; the old initializer makes the new iterator.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.parallel import dataset_graph
from tf_booster.passes import one_shot_iterators
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_view import GraphView

_MOVED = ("tf_booster", "moved_elements")  # A graph's collection of (old tensor, new tensor).
_SCOPE = "tf_booster/rank_input"

# The dataset to read, and the one whose first element is repeated where that is empty; None: one that can be made up.
Parts = Tuple[tf.Tensor, Optional[tf.Tensor]]


class NotDivisible(ValueError):
    """`why` an iterator must stay as it is, with the remedy: how the program can divide it."""

    def __init__(self, why: str, remedy: str):
        super().__init__(f"{why}; {remedy}")
        self.why = why


class NoSource(NotDivisible):
    """There is no data that could be divided."""


@dataclasses.dataclass(frozen=True)
class Source:
    """An iterator, and the ops that get its elements. initializer: the MakeIterator; None for a one-shot iterator."""

    iterator: tf.Operation
    elements: Tuple[tf.Operation, ...]
    initializer: Optional[tf.Operation]


@dataclasses.dataclass(frozen=True)
class Flags:
    """Of one op that gets elements: its new op, and live and has_next (see RepeatLast), float32 scalars."""

    element: tf.Operation
    live: tf.Tensor
    has_next: tf.Tensor


def source_of(iterator: tf.Operation, elements: List[tf.Operation]) -> Source:
    """Raises NotDivisible for an iterator with other datasets than one, or whose dataset is not in the graph."""
    called = f"the iterator '{iterator.name}'"
    for op in elements:
        if op.type not in ("IteratorGetNext", "IteratorGetNextSync"):
            raise NotDivisible(f"{called} is read by '{op.name}' ({op.type})", "read it by get_next()")
    if iterator.type == "OneShotIterator":
        return Source(iterator, tuple(elements), None)
    if iterator.type not in ("Iterator", "IteratorV2"):
        raise NotDivisible(
            f"{called} ({iterator.type}) is chosen when it runs", "give each dataset its shard: dataset.shard(N, rank)"
        )
    makers = [op for op in iterator.outputs[0].consumers() if op.type == "MakeIterator"]
    if len(makers) != 1:
        raise NotDivisible(
            f"{called} reads {len(makers)} datasets in turn", "give each its shard: dataset.shard(N, rank)"
        )
    if not dataset_graph.is_dataset(makers[0].inputs[0].op):
        raise NotDivisible(f"{called} is made of no dataset of this graph", "give it a shard: dataset.shard(N, rank)")
    return Source(iterator, tuple(elements), makers[0])


def change(view: GraphView, source: Source, by: Callable[[tf.Operation], Parts]) -> List[Flags]:
    """Has `source` read, up to its end and then on, what `by` makes of its last dataset.

    Raises:
      NotDivisible: a one-shot iterator whose function is not known.
    """
    types = source.elements[0].get_attr("output_types")
    shapes = [tf.TensorShape(shape) for shape in source.elements[0].get_attr("output_shapes")]
    types_too = [*types, tf.float32, tf.float32]
    shapes_too = [*shapes, tf.TensorShape([]), tf.TensorShape([])]

    def repeated(last: tf.Operation) -> tf.Tensor:
        part, fallback = by(last)
        if fallback is None:
            fallback = _made_up(types, shapes, part)
        return _native.ops().tf_booster_repeat_last_dataset(
            part, fallback, output_types=types_too, output_shapes=shapes_too, name=f"{_SCOPE}/repeat_last"
        )

    with view.inserting("/cpu:0"):
        attrs = {
            "output_types": tf.compat.v1.AttrValue(list=_types(types_too)),
            "output_shapes": tf.compat.v1.AttrValue(list=_shapes(shapes_too)),
        }
        name = tf.compat.as_str(source.iterator.get_attr("shared_name"))
        if name:
            attrs["shared_name"] = tf.compat.v1.AttrValue(s=f"{name}_of_rank".encode())
        if source.initializer is None:
            factory = _changed_factory(view, source.iterator, repeated)
            attrs[one_shot_iterators.FACTORY] = tf.compat.v1.AttrValue(func=_function(factory))
        iterator = dataset_graph.node_like(source.iterator, [], attrs, _SCOPE)
        if source.initializer is not None:
            maker = source.initializer
            dataset = repeated(maker.inputs[0].op)
            view.redirect(maker.inputs[0], dataset, lambda op: op is maker)
            view.redirect(maker.inputs[1], iterator, lambda op: op is maker)
        view.graph.add_to_collection(one_shot_iterators.REPLACED, source.iterator.name)
        return [_element(view, op, iterator, types_too, shapes_too) for op in source.elements]


def follow(graph: tf.Graph) -> None:
    """What was made since of the old elements reads the new ones, too: hooks make ops of tensors that they hold."""
    moved = graph.get_collection(_MOVED)
    if moved:
        GraphView(graph).redirect_all(moved)


def current(graph: tf.Graph, tensor: tf.Tensor) -> tf.Tensor:
    """The new element's component for an old one's; any other tensor as it is."""
    return next((new for old, new in graph.get_collection(_MOVED) if old is tensor), tensor)


def _element(view: GraphView, op: tf.Operation, iterator: tf.Tensor, types: List, shapes: List) -> Flags:
    with tf.control_dependencies(op.control_inputs):
        outputs = tf.raw_ops.IteratorGetNext(
            iterator=iterator, output_types=types, output_shapes=shapes, name=f"{_SCOPE}/next"
        )
    new = outputs[0].op
    moves = list(zip(op.outputs, outputs[:-2]))
    view.redirect_all(moves)
    view.redirect_control([op], new)
    # Should the old op run all the same, it fails for its number of components, and takes no element from the others.
    view.redirect(op.inputs[0], iterator, lambda reader: reader is op)
    for pair in moves:
        view.graph.add_to_collection(_MOVED, pair)
    _compat.fetch_in_place_of(op, new)
    return Flags(new, *outputs[-2:])


def _changed_factory(view: GraphView, iterator: tf.Operation, repeated: Callable[[tf.Operation], tf.Tensor]) -> str:
    def change_body(body: GraphView, result: tf.Operation) -> PassResult:
        with body.graph.as_default():
            dataset = result.inputs[0]
            body.redirect(dataset, repeated(dataset.op), lambda op: op is result)
        return PassResult("", modified=True)

    name, result = one_shot_iterators.changed_factory(view, iterator, change_body, "_of_rank")
    if name is None:
        raise NotDivisible(
            f"the iterator '{iterator.name}': its dataset is not known: {result.skipped[0][1]}",
            "give it a shard: dataset.shard(N, rank)",
        )
    return name


def _made_up(types: List[tf.DType], shapes: List[tf.TensorShape], otherwise: tf.Tensor) -> tf.Tensor:
    """One row of zeros and empty strings."""
    if tf.variant in types:  # A sparse tensor's form is not known here.
        return otherwise
    sizes = [[size or 1 for size in shape.as_list()] if shape.rank else [1] * (shape.rank is None) for shape in shapes]
    zeros = [tf.zeros(size, dtype) for size, dtype in zip(sizes, types)]
    return _compat.variant_of_dataset(tf.data.Dataset.from_tensors(tuple(zeros)))


def _function(name: str) -> tf.compat.v1.NameAttrList:
    return tf.compat.v1.NameAttrList(name=name)


def _types(types: List[tf.DType]) -> tf.compat.v1.AttrValue.ListValue:
    return tf.compat.v1.AttrValue.ListValue(type=[dtype.as_datatype_enum for dtype in types])


def _shapes(shapes: List[tf.TensorShape]) -> tf.compat.v1.AttrValue.ListValue:
    return tf.compat.v1.AttrValue.ListValue(shape=[shape.as_proto() for shape in shapes])
