"""Makes the ops of a cluster twice: compiled for padded rows, and as TensorFlow runs them for batches that are too small for that.

The program's own ops stay as they are, for who fetches them by name.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView, add_control_input, add_copy
from tf_booster.passes.xla_padding_plan import Cluster
from tf_booster.passes.xla_rows import RowOps

SCOPE = "tf_booster/padded"
# Constants of so many numbers are made anew inside; larger ones every compilation would keep.
_FEW_NUMBERS = 1024


def pad(view: GraphView, rows: RowOps, cluster: Cluster, name: str, all_rows: Dict[Any, tf.Tensor]) -> None:
    """Puts what is compiled in the place of `cluster`. all_rows: what stands for exits of clusters that were edited before, by ref; gets
    those of this one. name: of the cluster, for XLA."""
    exits = [ref.deref() for ref in cluster.exits]
    given = [all_rows.get(tensor.ref(), tensor) for tensor in cluster.entries]
    ops = _native.ops()
    device = cluster.ops[0].device or None
    with view.inserting(device):
        padded, sizes, pads = ops.tf_booster_pad_rows(
            values=given,
            times=[rows.rows(tensor).times for tensor in cluster.entries],
            fewest=cluster.fewest,
            name=f"{SCOPE}/rows",
        )
        branches = [tf.raw_ops.Switch(data=tensor, pred=pads, name=f"{SCOPE}/switch") for tensor in padded]
    small, large = (
        _copies(view, rows, cluster, dict(zip(_refs(cluster.entries), inputs)), compiled)
        for inputs, compiled in (([b.output_false for b in branches], None), ([b.output_true for b in branches], name))
    )
    with view.inserting(device):
        taken = ops.tf_booster_take_first_rows(
            values=[_copy_of(tensor, large) for tensor in exits],
            rows=sizes,
            times=[rows.rows(tensor).times for tensor in exits],
            name=f"{SCOPE}/all_rows",
        )
        for tensor, of_large in zip(exits, taken):
            merged = tf.raw_ops.Merge(inputs=[_copy_of(tensor, small), of_large], name=f"{SCOPE}/merge").output
            merged.set_shape(tensor.shape)
            all_rows[tensor.ref()] = merged
            view.redirect(tensor, merged, set(cluster.exits[tensor.ref()]).__contains__)


def _copies(
    view: GraphView, rows: RowOps, cluster: Cluster, given: Mapping[Any, tf.Tensor], scope: Optional[str]
) -> Dict[tf.Operation, tf.Operation]:
    """Copies of the ops, by these, that read `given` in place of the entries; for XLA with `scope`, else for TensorFlow alone."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(view.graph.graph_def_versions)
    members = set(cluster.ops)
    constants: Dict[tf.Operation, None] = {}
    from_outside: Dict[str, tf.Tensor] = {}
    for op in cluster.ops:
        node = add_copy(graph_def, op)
        for place, tensor in enumerate(op.inputs):
            if rows.reads_size(op, place):
                node.input.append(_add_shape(graph_def, op))
            elif tensor.op in members:
                node.input.append(tensor.name)
            elif _is_small_constant(tensor):
                constants[tensor.op] = None
                node.input.append(tensor.name)
            else:
                name = f"{op.name}/from_outside_{place}:0"
                from_outside[name] = given.get(tensor.ref(), tensor)
                node.input.append(name)
    for op in constants:
        add_copy(graph_def, op)
    with view.inserting(None):
        names = [node.name for node in graph_def.node]
        made = tf.graph_util.import_graph_def(graph_def, input_map=from_outside, name=SCOPE, return_elements=names)
    if scope is None:
        for op in made:
            view.keep_from_compilation(op)
    else:
        _compile(view, made, given, scope)
    by_name = dict(zip(names, made))
    return {op: by_name[op.name] for op in cluster.ops}


def _compile(view: GraphView, ops: List[tf.Operation], given: Mapping[Any, tf.Tensor], scope: str) -> None:
    """Has XLA compile `ops` as one. A constant would run in either branch, and TensorFlow would make a cluster of it alone; so they wait."""
    with view.inserting(ops[0].device or None):
        branch = tf.identity(next(iter(given.values())), name=f"{SCOPE}/large").op
    for op in [branch, *ops]:
        view.mark_for_compilation(op, scope)
        if op.type == "Const":
            add_control_input(op, branch)


def _add_shape(graph_def: Any, reshape: tf.Operation) -> str:
    """A constant for the shape that a Reshape has of any number of rows; its name."""
    shape = [-1, *reshape.outputs[0].shape.as_list()[1:]]
    node = graph_def.node.add(name=f"{reshape.name}/tf_booster_shape", op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape, reshape.inputs[1].dtype))
    node.attr["dtype"].type = reshape.inputs[1].dtype.as_datatype_enum
    return f"{node.name}:0"


def _is_small_constant(tensor: tf.Tensor) -> bool:
    op = tensor.op
    return op.type == "Const" and not op.control_inputs and (tensor.shape.num_elements() or 0) <= _FEW_NUMBERS


def _copy_of(tensor: tf.Tensor, copies: Mapping[tf.Operation, tf.Operation]) -> tf.Tensor:
    return copies[tensor.op].outputs[tensor.value_index]


def _refs(tensors: List[tf.Tensor]) -> List[Any]:
    return [tensor.ref() for tensor in tensors]
