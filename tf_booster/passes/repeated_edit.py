"""Makes a region anew for the distinct rows of its features, and has the rest read what is expanded of it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.expanded_rows import all_rows
from tf_booster.passes.graph_view import GraphView, add_control_input, add_copy
from tf_booster.passes.named_features import Sparse
from tf_booster.passes.repeated_plan import Plan
from tf_booster.passes.repeated_region import Region
from tf_booster.passes.row_kinds import Moved
from tf_booster.passes.static_integers import static_integers

SCOPE = "tf_booster/repeated"


class Few:
    """The distinct rows of features. few: by tensor of a feature, its rows that are distinct; row_of: for each row which of these it is."""

    def __init__(self, view: GraphView, features: Mapping[str, Any]):
        dense = {name: feature for name, feature in features.items() if not isinstance(feature, Sparse)}
        sparse = {name: feature for name, feature in features.items() if isinstance(feature, Sparse)}
        ops = _native.ops()
        self.few: Dict[Any, tf.Tensor] = {}
        with view.inserting(None):
            first_rows, self.row_of = ops.tf_booster_repeated_rows(
                dense=list(dense.values()),
                values=[feature.values for feature in sparse.values()],
                indices=[feature.indices for feature in sparse.values()],
                dense_shapes=[feature.dense_shape for feature in sparse.values()],
                names=[*dense, *sparse],
                name=f"{SCOPE}/rows",
            )
            if dense:
                taken = ops.tf_booster_take_rows(values=list(dense.values()), rows=first_rows, name=f"{SCOPE}/features")
                self.few.update((feature.ref(), few) for feature, few in zip(dense.values(), taken))
            for feature in sparse.values():
                taken = ops.tf_booster_take_sparse_rows(*feature, rows=first_rows, name=f"{SCOPE}/sparse_feature")
                self.few.update((tensor.ref(), few) for tensor, few in zip(feature, taken))


def used_features(region: Region, plan: Plan, features: Mapping[str, Any]) -> Dict[str, Any]:
    """Those features that a copy reads itself: others would only tell rows apart."""
    read = {
        tensor.ref()
        for op in plan.copied
        for place, tensor in enumerate(op.inputs)
        if not _is_as_it_was(region, op, place, tensor)
    }
    return {name: feature for name, feature in features.items() if any(t.ref() in read for t in _tensors(feature))}


def _tensors(feature: Any) -> Sequence[tf.Tensor]:
    return feature if isinstance(feature, Sparse) else [feature]


def _is_as_it_was(region: Region, op: tf.Operation, place: int, tensor: tf.Tensor) -> bool:
    """Whether a copy goes on reading this input for all rows, or reads another shape in its place."""
    if place == 1 and op in region.constants:
        return True
    return place in region.outside.get(op, ()) and not isinstance(region.kinds.get(tensor.ref()), Moved)


def copy_region(view: GraphView, region: Region, plan: Plan, few: Few) -> Dict[tf.Operation, tf.Operation]:
    """Copies of the ops of the plan, which read few rows, by the ops that they are copies of."""
    copied = set(plan.copied)
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(view.graph.graph_def_versions)
    given: Dict[str, tf.Tensor] = {}
    for op in plan.copied:
        node = add_copy(graph_def, op)
        for place, tensor in enumerate(op.inputs):
            name = tensor.name
            if place == 1 and op in region.constants:
                name = f"{op.name}/rows_are_few:0"
                given[name] = _free_shape(view, op)
            elif _is_as_it_was(region, op, place, tensor):
                name = f"{op.name}/as_it_was_{place}:0"
                given[name] = tensor
            elif tensor.op not in copied or tensor.ref() in few.few:
                given[name] = few.few.get(tensor.ref(), tensor)
            node.input.append(name)
    with view.inserting(None):
        made = tf.graph_util.import_graph_def(
            graph_def, input_map=given, name=SCOPE, return_elements=[op.name for op in plan.copied]
        )
    copies = dict(zip(plan.copied, made))
    for op, copy in copies.items():
        for other in op.control_inputs:
            add_control_input(copy, other)
    return copies


def _free_shape(view: GraphView, reshape: tf.Operation) -> tf.Tensor:
    """The shape of a Reshape that had the batch's size in it as a constant."""
    shape = static_integers(reshape.inputs[1]) or []
    with view.inserting(None):
        return tf.constant([-1, *shape[1:]], reshape.inputs[1].dtype, name=f"{SCOPE}/shape")


def expand(
    view: GraphView, region: Region, plan: Plan, few: Few, copies: Mapping[tf.Operation, tf.Operation]
) -> Dict[Any, tf.Tensor]:
    """Gives the rest all rows of what the copies compute, and what they give of other features. Returns what is expanded, by tensor."""
    by_level: Dict[int, List[tf.Tensor]] = {}
    for ref in plan.expanded:
        # Not all by one op: what an early value leads to may be needed for a late one, by an op that serves several lookups.
        by_level.setdefault(region.levels[ref.deref().op], []).append(ref.deref())
    expanded: Dict[Any, tf.Tensor] = {}
    for tensors in by_level.values():
        few_rows = [copy_of(tensor, copies) for tensor in tensors]
        for tensor, full in zip(tensors, all_rows(view, few_rows, few.row_of, f"{SCOPE}/all_rows")):
            full.set_shape(tensor.shape)
            expanded[tensor.ref()] = full
    for ref, readers in plan.expanded.items():
        view.redirect(ref.deref(), expanded[ref], set(readers).__contains__)
    for ref, readers in plan.moved.items():
        view.redirect(ref.deref(), copy_of(ref.deref(), copies), set(readers).__contains__)
    return expanded


def copy_of(tensor: tf.Tensor, copies: Mapping[tf.Operation, tf.Operation]) -> tf.Tensor:
    """The same output of the copy."""
    return copies[tensor.op].outputs[tensor.value_index]
