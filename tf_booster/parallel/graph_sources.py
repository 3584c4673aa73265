"""Where the data of tensors come from: iterators that can be divided among ranks, or what cannot, by name and with the remedy."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence

import tensorflow as tf

from tf_booster.parallel.graph_iterators import NoSource, NotDivisible, Source, source_of
from tf_booster.passes.graph_view import GraphView

_GETS_ELEMENTS = re.compile(r"\w*Iterator\w*GetNext\w*")
_ITERATORS = re.compile(r"\w*Iterator(V2|V3)?|IteratorFromStringHandle\w*")
_STREAMS = (
    (re.compile(r"\w*Dequeue\w*"), "it comes from the queue '{0}', which threads fill"),
    (re.compile(r"Reader(Read|Restore)\w*"), "it comes from the reader '{0}'"),
    (re.compile(r"\w*Unstage\w*"), "it comes from a staging area by '{1}'"),
)
_PYTHON = re.compile(r"(Eager)?PyFunc\w*")
_REMEDY = "divide it by rank there, as by x[rank::N]"


def sources_of(view: GraphView, tensors: Sequence[tf.Tensor]) -> List[Source]:
    """The iterators that `tensors` are computed from, in the order in which they were made.

    Raises:
      NotDivisible: they also come from elsewhere; NoSource: from nowhere.
    """
    index = view.index()
    ops = [index.ops[number] for number in sorted(index.upstream({tensor.op: None for tensor in tensors}))]
    for op in ops:
        for pattern, said in _STREAMS:
            if pattern.fullmatch(op.type):
                raise NotDivisible(said.format(op.inputs[0].op.name if op.inputs else "", op.name), _REMEDY)
    fed = [op.name for op in ops if op.type in ("Placeholder", "PlaceholderV2") and _may_have_rows(op.outputs[0])]
    if fed:
        raise NotDivisible(f"the program feeds {_some(fed)}", "feed each rank rows of its own, as x[rank::N]")
    elements: Dict[tf.Operation, List[tf.Operation]] = {}
    for op in ops:
        if _GETS_ELEMENTS.fullmatch(op.type):
            elements.setdefault(op.inputs[0].op, []).append(op)
    inside = [op.name for op in ops if _ITERATORS.fullmatch(op.type) and op not in elements]
    if inside:
        raise NotDivisible(
            f"the iterator {_some(inside)} is read inside of a function", "read it outside, by get_next()"
        )
    if not elements:
        python = [op.name for op in ops if _PYTHON.fullmatch(op.type)]
        why = f"Python code makes it, in {_some(python)}" if python else "it is read from no iterator"
        raise NoSource(why, _REMEDY)
    return [source_of(iterator, of_it) for iterator, of_it in elements.items()]


def _may_have_rows(tensor: tf.Tensor) -> bool:
    return tensor.shape.rank != 0 and tensor.dtype != tf.bool


def _some(names: List[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:3]) + (", …" if len(names) > 3 else "")
