"""Finds a computation in a graph by having the installed TensorFlow build it once more.

A gradient is dozens of ops, which differ between TensorFlow's versions. A template is what its own Python code makes in a graph of its own, of placeholders
for what may be any tensor; a part of another graph matches if it is the same ops, with the same attributes and constants.
"""

from __future__ import annotations

import copy
import dataclasses
import weakref
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.passes.matching import skip_identity

_LARGEST_CONSTANT = 256  # Elements; computations that templates are of have shapes and axes.

_facts: weakref.WeakKeyDictionary = (
    weakref.WeakKeyDictionary()
)  # Operation -> its attributes. One is compared with many templates.


@dataclasses.dataclass(frozen=True)
class Match:
    """holes: by its name what stands for each placeholder. ops: those of the graph that are the template's, whatever they wait for. before: what hands the
    holes on to them."""

    holes: Dict[str, tf.Tensor]
    ops: Tuple[tf.Operation, ...]
    before: FrozenSet[tf.Operation]


class Template:
    """What `build` makes of placeholders of these dtypes and shapes.

    Args:
      holes: by name the dtype and shape of what may be any tensor.
      build: gives the last tensor of the computation, from the placeholders by name.
    """

    def __init__(self, holes: Dict[str, Tuple[tf.DType, Sequence[Optional[int]]]], build: Callable[..., tf.Tensor]):
        graph, names, ends = _built(holes, lambda **made: {"": build(**made)})
        self._set(graph, names, ends[""])

    @classmethod
    def several(
        cls,
        holes: Dict[str, Tuple[tf.DType, Sequence[Optional[int]]]],
        build: Callable[..., Dict[str, tf.Tensor]],
    ) -> Dict[str, Template]:
        """Of several tensors that `build` gives by name, as those of one gradient: building it takes longer than to look for it.

        Each has the holes that it is computed from.
        """
        graph, names, ends = _built(holes, build)
        found = {}
        for name, end in ends.items():
            found[name] = cls.__new__(cls)
            found[name]._set(graph, names, end)  # pylint: disable=protected-access
        return found

    def _set(self, graph: tf.Graph, names: Dict[object, str], end: tf.Tensor) -> None:
        self._graph = graph
        self._end = skip_identity(end)
        self._sizes: Mapping[int, int] = {}
        self._names: Dict[object, str] = {}
        self._types: Set[str] = set()
        work, seen = [self._end], {self._end.op}
        while work:
            tensor = work.pop()
            if tensor.ref() in names:
                self._names[tensor.ref()] = names[tensor.ref()]
                continue
            self._types.add(tensor.op.type)
            for before in tensor.op.inputs:
                if before.op not in seen:
                    seen.add(before.op)
                    work.append(before)

    def where(self, sizes: Mapping[int, int]) -> Template:
        """The same template with other sizes in the places of these, in all integers of its constants: what it is built of takes long, and is the same for all sizes
        that TensorFlow's code does not tell from each other."""
        found = copy.copy(self)
        found._sizes = dict(sizes)  # pylint: disable=protected-access
        return found

    @property
    def types(self) -> FrozenSet[str]:
        """The types of its ops."""
        return frozenset(self._types)

    @property
    def end_type(self) -> str:
        """The type of the last op."""
        return self._end.op.type

    def match(self, end: tf.Tensor) -> Optional[Match]:
        """The computation of `end`, or None if it is another one. Identities are looked through."""
        found: Dict[object, tf.Tensor] = {}
        holes: Dict[str, tf.Tensor] = {}
        ops: Dict[tf.Operation, None] = {}
        before: Set[tf.Operation] = set()
        work: List[Tuple[tf.Tensor, tf.Tensor]] = [(self._end, end)]
        while work:
            ours, given = work.pop()
            ours, theirs = skip_identity(ours), skip_identity(given)
            known = found.setdefault(ours.ref(), theirs)
            if known is not theirs:
                return None
            name = self._names.get(ours.ref())
            if name is not None:
                holes[name] = theirs
                before.add(given.op)
                continue
            if theirs.op in ops and ours.value_index == theirs.value_index:
                continue
            if ours.value_index != theirs.value_index or not _alike(ours.op, theirs.op, self._sizes):
                return None
            ops[theirs.op] = None
            work.extend(zip(ours.op.inputs, theirs.op.inputs))
        if holes.keys() != set(self._names.values()):
            return None
        return Match(holes, tuple(ops), frozenset(before))


def _built(
    holes: Dict[str, Tuple[tf.DType, Sequence[Optional[int]]]], build: Callable[..., Dict[str, tf.Tensor]]
) -> Tuple[tf.Graph, Dict[object, str], Dict[str, tf.Tensor]]:
    graph = tf.Graph()
    with graph.as_default():
        made = {name: tf.compat.v1.placeholder(dtype, shape) for name, (dtype, shape) in holes.items()}
        ends = build(**made)
    return graph, {placeholder.ref(): name for name, placeholder in made.items()}, ends


def _alike(ours: tf.Operation, theirs: tf.Operation, sizes: Mapping[int, int]) -> bool:
    if ours.type != theirs.type or len(ours.inputs) != len(theirs.inputs):
        return False
    if ours.type != "Const":
        return _attributes(ours) == _attributes(theirs)
    a, b = _attributes(ours), _attributes(theirs)
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    for size, instead in sizes.items() if a.dtype.kind == "i" else ():
        a = np.where(a == size, instead, a)
    return bool(np.array_equal(a, b))


def _attributes(op: tf.Operation) -> Any:
    """What compares equal for ops of one type that have the same attributes. Of a constant its array; None if that is large."""
    if op not in _facts:
        attributes = op.node_def.attr
        if op.type == "Const":
            value = attributes["value"].tensor
            small = tf.TensorShape(value.tensor_shape).num_elements() <= _LARGEST_CONSTANT
            _facts[op] = tf.make_ndarray(value) if small else None
        else:
            _facts[op] = tuple(attributes[name].SerializeToString() for name in _names_of(op))
    return _facts[op]


_names: Dict[str, Tuple[str, ...]] = {}  # By the type of an op.


def _names_of(op: tf.Operation) -> Tuple[str, ...]:
    if op.type not in _names:
        _names[op.type] = tuple(attr.name for attr in op.op_def.attr)
    return _names[op.type]
