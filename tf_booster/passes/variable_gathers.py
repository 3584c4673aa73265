"""The pass that makes one op of the lookups of many ordinary Variables: ResourceGather by ResourceGather.

The shapes that gradients of gathers are given are computed by five ops each, of numbers that are known; they become constants.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Set, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView, update_input
from tf_booster.passes.matching import REFERENCE_VARIABLE, is_of_reference_variable, readers
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.shape_tricks import copies_of, keeps_shape
from tf_booster.passes.swallowed import swallowed

DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64)
_WRITES = ("ResourceApply", "ResourceSparseApply", "ResourceScatter", "AssignAdd", "AssignSub", "TfBoosterMultiApply")


class VariableGathers(Pass):
    """Merges ResourceGathers of Variables."""

    name = "variable_gathers"
    seeks = "lookups of several Variables (tf.nn.embedding_lookup, tf.gather)"

    def requires(self, view: GraphView) -> bool:
        """Whether rows of Variables are looked up."""
        return any(op.outputs[0].consumers() for op in view.ops("ResourceGather")) or bool(_of_references(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves alone what is inside of control flow, and gathers that have nobody to merge with."""
        result = PassResult(self.name)
        live = executed_ops(view)
        units = []
        for op in view.ops("ResourceGather"):
            if not op.outputs[0].consumers():
                continue
            reason = _obstacle(view, op)
            if reason:
                result.skipped.append((op.name, reason))
            else:
                key = (op.get_attr("dtype"), op.inputs[1].dtype, op.device, _is_summed_up_alone(op, live))
                units.append(Unit((op,), key))
        result.skipped += [(op.name, REFERENCE_VARIABLE) for op in _of_references(view)]
        groups, refused = merge_groups(view, units)
        result.skipped.extend((unit.ops[0].name, reason) for unit, reason in refused)
        constants: Dict[Tuple[Tuple[int, ...], tf.DType, str], tf.Tensor] = {}
        shortened = sum(_shorten_gradient(view, unit.ops[0], constants) for group in groups for unit in group)
        merged = [group for group in groups if len(group) > 1]
        for group in merged:
            _merge(view, [unit.ops[0] for unit in group])
        if merged:
            gathers = sum(len(group) for group in merged)
            result.changes.append(
                f"{gathers} lookups of Variables by {len(merged)} op{'' if len(merged) == 1 else 's'}"
            )
        if shortened:
            result.changes.append(f"shapes of {shortened} gradients of lookups are constants")
        result.modified = bool(result.changes)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        for op in view.ops("TfBoosterMultiGather"):
            if not any(output.consumers() for output in op.outputs):
                raise RewriteError(f"Op '{op.name}' gathers rows that nothing reads.")


def _of_references(view: GraphView) -> List[tf.Operation]:
    gathers = view.ops("Gather", "GatherV2")
    return [op for op in gathers if is_of_reference_variable(op.inputs[0]) and op.outputs[0].consumers()]


def _obstacle(view: GraphView, op: tf.Operation) -> str:
    if _compat.in_control_flow(op):
        return "it is inside a tf.cond or a tf.while_loop"
    if op.get_attr("batch_dims") != 0:
        return f"its batch_dims is {op.get_attr('batch_dims')}, not 0"
    if op.inputs[0].op.type != "VarHandleOp":
        return f"its Variable comes from op '{op.inputs[0].op.name}' ({op.inputs[0].op.type})"
    if tf.as_dtype(op.get_attr("dtype")) not in DTYPES:
        return f"its rows are {tf.as_dtype(op.get_attr('dtype')).name}"
    if view.elsewhere(op):
        return view.elsewhere(op)
    types = {"dtype": tf.as_dtype(op.get_attr("dtype")), "Tindices": op.inputs[1].dtype}
    if not view.can_stand_for(op, "TfBoosterMultiGather", **types):
        return f"no GPU kernel for rows of {types['dtype'].name}: it would move from the GPU to the CPU"
    if _is_written(op.inputs[0]) and any(consumer.type != "Identity" for consumer in op.outputs[0].consumers()):
        # Fetched beside the train op, the old op would read the Variable before or after the update, as it happens.
        return "its result itself may be fetched, while its Variable is trained; tf.nn.embedding_lookup gives a copy to fetch"
    return ""


def _is_summed_up_alone(gather: tf.Operation, live: Set[tf.Operation]) -> bool:
    """Whether its rows only go into sums of sparse lookups, as in predictions: pass direct_lookups takes all gathers of an op or none."""
    if gather.inputs[1].op.type != "TfBoosterPrepareLookups":
        return False
    return all(op.type == "TfBoosterPoolLookups" for op in readers(gather.outputs[0]) if op in live)


def _is_written(handle: tf.Tensor) -> bool:
    return any(op.type.startswith(_WRITES) for op in handle.consumers())


def _merge(view: GraphView, gathers: List[tf.Operation]) -> None:
    gone = swallowed(gathers, [tensor for op in gathers for tensor in op.inputs])
    with view.inserting(gathers[0].device, gone.control_inputs):
        rows = _native.ops().tf_booster_multi_gather(
            resources=[op.inputs[0] for op in gathers],
            indices=[op.inputs[1] for op in gathers],
            dtype=gathers[0].outputs[0].dtype,
            name="tf_booster/multi_gather",
        )
    view.redirect_all([(copy, new) for op, new in zip(gathers, rows) for copy in copies_of(op.outputs[0])])
    view.redirect_control(gathers, rows[0].op)
    view.note_originals(rows[0].op, gathers)


def _shorten_gradient(view: GraphView, gather: tf.Operation, constants: Dict) -> int:
    """Gives the reshapes of the gradient of `gather` constant shapes, or leaves them out. Returns 1 if there were any."""
    shortened = 0
    for shape in _shapes_made_of_size(gather.inputs[1]):
        for reshape in dict.fromkeys(shape.consumers()):
            if reshape.type != "Reshape" or reshape.inputs[1] is not shape or _compat.in_control_flow(reshape):
                continue
            known = reshape.outputs[0].shape
            if known.rank is None or None in known.as_list()[1:] or 0 in known.as_list()[1:]:
                continue
            if keeps_shape(reshape) and not reshape.control_inputs:
                shortened += view.redirect(reshape.outputs[0], reshape.inputs[0])
            else:
                update_input(reshape, 1, _constant(view, constants, known.as_list()[1:], shape.dtype, reshape.device))
                shortened += 1
    return 1 if shortened else 0


def _shapes_made_of_size(ids: tf.Tensor) -> Iterable[tf.Tensor]:
    """[size of ids] and [size of ids, …]: what the gradient of a gather by `ids` is reshaped to."""
    for size in ids.consumers():
        if size.type == "Size":
            for vector in size.outputs[0].consumers():
                if vector.type == "ExpandDims":
                    yield vector.outputs[0]
                    for whole in vector.outputs[0].consumers():
                        if whole.type == "ConcatV2" and whole.inputs[0] is vector.outputs[0]:
                            yield whole.outputs[0]


def _constant(view: GraphView, known: Dict, dims: List[int], dtype: tf.DType, device: str) -> tf.Tensor:
    """[-1, *dims]; the first dimension follows from the number of elements."""
    key = (tuple(dims), dtype, device)
    if key not in known:
        with view.inserting(device):
            known[key] = tf.constant([-1, *dims], dtype, name="tf_booster/gradient_shape")
    return known[key]
