"""Finds the part of an inference graph that is made of repeated features alone, row by row, and where its values are read by the rest."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import row_layouts
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.named_features import Sparse
from tf_booster.passes.row_kinds import (
    BATCH_ROWS,
    ONE_A_ROW,
    Fixed,
    Indices,
    MixesCodes,
    Moved,
    NotByRow,
    Rows,
    Size,
    Sizes,
)
from tf_booster.passes.row_lanes import LANE_TYPES, lanes_of
from tf_booster.passes.row_rules import HEAVY
from tf_booster.passes.row_sizes import outputs_of
from tf_booster.passes.sources import Sources


@dataclasses.dataclass
class Region:
    """What is known of the graph, and what follows from it.

    order: the live ops, each behind what is before it. members: those that can be made anew for fewer rows. kinds: of the tensors of
    features and of members' outputs. outside: by member the places of inputs that it goes on reading as they are. heavy: the tensors
    that take work to make. features: by tensor, the names of those it is made of. levels: by op, how many members of several lookups
    and ops of the rest that read the region are on the way to it. constants: by member, the first number of a shape that has to be -1. refused: (node, reason).
    """

    order: List[tf.Operation]
    members: Dict[tf.Operation, None] = dataclasses.field(default_factory=dict)
    kinds: Dict[Any, Any] = dataclasses.field(default_factory=dict)
    outside: Dict[tf.Operation, Set[int]] = dataclasses.field(default_factory=dict)
    heavy: Set[Any] = dataclasses.field(default_factory=set)
    features: Dict[Any, FrozenSet[str]] = dataclasses.field(default_factory=dict)
    levels: Dict[tf.Operation, int] = dataclasses.field(default_factory=dict)
    constants: Set[tf.Operation] = dataclasses.field(default_factory=set)
    refused: List[Tuple[str, str]] = dataclasses.field(default_factory=list)

    def is_expandable(self, tensor: tf.Tensor) -> bool:
        """Whether a row of `tensor` is one of the batch, and worth to be computed for fewer."""
        return self.kinds.get(tensor.ref()) == BATCH_ROWS and tensor.ref() in self.heavy


def find_region(view: GraphView, order: Sequence[tf.Operation], features: Mapping[str, Any]) -> Region:
    """The region of these features among the live ops `order`."""
    fixed_probes: Set[str] = set()
    while True:
        try:
            region = _Walk(view, order, features, fixed_probes).region
            region.refused += [
                (probe, "its codes reach a gather on a way that is not understood") for probe in fixed_probes
            ]
            return region
        except MixesCodes as error:
            if error.probe in fixed_probes:
                raise
            fixed_probes.add(error.probe)


class _Walk:
    """One look at each op, behind what it reads."""

    def __init__(
        self, view: GraphView, order: Sequence[tf.Operation], features: Mapping[str, Any], fixed_probes: Set[str]
    ):
        self.region = Region(list(order))
        self._sources = Sources(view.graph)
        self._fixed_probes = fixed_probes
        self._varying: Set[tf.Operation] = set()  # What has other values for other batches.
        for name, feature in features.items():
            self._start(name, feature)
        for op in order:
            self._look_at(op)

    def _start(self, name: str, feature: Any) -> None:
        if isinstance(feature, Sparse):
            entries = Rows(("feature", name))
            rank = feature.indices.shape.as_list()[1]
            shape = Sizes((ONE_A_ROW, *(Size(None, None) for _ in range(rank - 1))))
            known = [(feature.indices, Indices(entries)), (feature.values, entries), (feature.dense_shape, shape)]
        else:
            known = [(feature, BATCH_ROWS)]
        for tensor, kind in known:
            self.region.kinds[tensor.ref()] = kind
            self.region.features[tensor.ref()] = frozenset([name])

    def _look_at(self, op: tf.Operation) -> None:
        region = self.region
        given = [region.kinds.get(tensor.ref()) for tensor in op.inputs]
        before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        region.levels[op] = max((region.levels.get(other, 0) for other in before), default=0)
        if self._is_varying(op, before):
            self._varying.add(op)
        if all(kind is None or isinstance(kind, Moved) for kind in given):
            return
        try:
            kinds = self._kinds(op, given)
        except NotByRow as error:
            self._refuse(op, given, str(error))
            kinds = None
        if kinds is None:
            # It reads what is expanded; a member that waits for it is not expanded together with that.
            region.levels[op] += 1
            return
        region.members[op] = None
        made_of = [region.features[t.ref()] for t in op.inputs if t.ref() in region.features]
        heavy = op.type in HEAVY or any(t.ref() in region.heavy for t in op.inputs)
        for output, kind in zip(op.outputs, kinds):
            if output.ref() in region.features:
                continue  # A feature that is made of another one.
            region.kinds[output.ref()] = kind
            if not isinstance(kind, Moved):
                region.features[output.ref()] = frozenset().union(*made_of)
            if heavy:
                region.heavy.add(output.ref())

    def _is_varying(self, op: tf.Operation, before: Sequence[tf.Operation]) -> bool:
        if any(other in self._varying for other in before) or op.type == "PlaceholderWithDefault":
            return True
        return self._sources.is_source(op) or any(output.ref() in self.region.kinds for output in op.outputs)

    def _kinds(self, op: tf.Operation, given: List[Any]) -> Optional[List[Any]]:
        """What is known of the outputs; None if the op is of the rest. Raises NotByRow."""
        if _compat.in_control_flow(op):
            raise NotByRow("it is inside a tf.cond or a tf.while_loop")
        if self._sources.is_source(op) or _compat.calls_functions(op.type):
            raise NotByRow("it draws random numbers, changes something or calls a function")
        if op.type == "Identity":
            return list(given)
        if op.type in LANE_TYPES:
            return self._of_lanes(op, given)
        for tensor, kind in zip(op.inputs, given):
            if (kind is None and tensor.op in self._varying) or isinstance(kind, Moved):
                return None  # It reads what is of no repeated feature: here the region ends.
        if any(getattr(kind, "coded", "") for kind in given):
            raise NotByRow("it reads codes of tables")
        kinds = outputs_of(op, [None if isinstance(kind, Fixed) else kind for kind in given])
        if row_layouts.fixes_batch(op, given):
            self.region.constants.add(op)
        return kinds

    def _of_lanes(self, op: tf.Operation, given: List[Any]) -> Optional[List[Any]]:
        if op.name in self._fixed_probes:
            return None
        lanes = lanes_of(op, given)
        if lanes is None:
            return None
        self.region.refused += [(op.name, reason) for reason in lanes.refused]
        if all(isinstance(kind, Moved) for kind in lanes.kinds):
            return None
        self.region.outside[op] = lanes.outside
        self.region.levels[op] += 1
        return lanes.kinds

    def _refuse(self, op: tf.Operation, given: Sequence[Any], reason: str) -> None:
        heavy = any(
            isinstance(kind, Rows) and tensor.ref() in self.region.heavy for tensor, kind in zip(op.inputs, given)
        )
        if heavy:
            self.region.refused.append((op.name, f"{reason} ({op.type}): here its inputs are expanded to all rows"))
