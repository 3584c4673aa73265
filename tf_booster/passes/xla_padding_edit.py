"""Makes the ops of clusters twice: compiled for padded rows, and as TensorFlow runs them for batches that are too small for that.

The program's own ops stay as they are, for who fetches them by name.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView, add_copy
from tf_booster.passes.xla_padding_plan import Cluster
from tf_booster.passes.xla_rows import RowOps

SCOPE = "tf_booster/padded"
# Constants of so many numbers are made anew inside; larger ones every compilation would keep.
_FEW_NUMBERS = 1024


def pad(view: GraphView, rows: RowOps, clusters: Sequence[Cluster], scopes: Sequence[str]) -> None:
    """Puts what is compiled, and what is chosen at each run, in the place of `clusters`, each behind those that it reads. scopes: of XLA."""
    new = _NewOps(view, rows)
    for number, cluster in enumerate(clusters):
        new.add(str(number), cluster)
    made = new.make()
    for number, scope in enumerate(scopes):
        for name in new.compiled[str(number)]:
            view.mark_for_compilation(made[name], scope)
        for name in new.plain[str(number)]:
            view.keep_from_compilation(made[name])
    for cluster in clusters:
        for ref, readers in cluster.exits.items():
            merged = made[new.merged[ref]].outputs[0]
            merged.set_shape(ref.deref().shape)
            view.redirect(ref.deref(), merged, set(readers).__contains__)


class _NewOps:
    """All new ops of a graph: TensorFlow takes time for the whole graph to add some of them.

    compiled, plain: names of the copies for XLA and of the others, by cluster. merged: of the ops that stand for exits, by ref.
    """

    def __init__(self, view: GraphView, rows: RowOps):
        self._view, self._rows = view, rows
        self._graph_def = tf.compat.v1.GraphDef()
        self._graph_def.versions.CopyFrom(view.graph.graph_def_versions)
        self._from_outside: Dict[str, tf.Tensor] = {}
        self._device = ""
        self.compiled: Dict[str, List[str]] = {}
        self.plain: Dict[str, List[str]] = {}
        self.merged: Dict[Any, str] = {}

    def make(self) -> Dict[str, tf.Operation]:
        """Adds them to the graph; by their names here."""
        names = [node.name for node in self._graph_def.node]
        with self._view.inserting(None):
            made = tf.graph_util.import_graph_def(
                self._graph_def, input_map=self._from_outside, name=SCOPE, return_elements=names
            )
        return dict(zip(names, made))

    def add(self, name: str, cluster: Cluster) -> None:
        """The ops of a cluster, and those around it."""
        self._device = cluster.ops[0].device
        exits = [ref.deref() for ref in cluster.exits]
        count = len(cluster.entries)
        rows = self._add(f"{name}/rows", "TfBoosterPadRows", [self._outside(tensor) for tensor in cluster.entries])
        rows.attr["T"].list.type.extend(tensor.dtype.as_datatype_enum for tensor in cluster.entries)
        rows.attr["times"].list.i.extend(self._times(cluster.entries))
        rows.attr["fewest"].i = cluster.fewest
        branches: Tuple[Dict[Any, str], Dict[Any, str]] = ({}, {})
        for i, tensor in enumerate(cluster.entries):
            switch = f"{name}/switch_{i}"
            self._add(switch, "Switch", [f"{rows.name}:{i}", f"{rows.name}:{count + 1}"], T=tensor.dtype)
            for way, branch in enumerate(branches):
                branch[tensor.ref()] = f"{switch}:{way}"
        # A constant would run in either branch, and TensorFlow would make a cluster of it alone; so they wait for this.
        first = cluster.entries[0]
        waits = self._add(f"{name}/branch", "Identity", [branches[1][first.ref()]], T=first.dtype)
        self.plain[name] = self._copies(f"{name}/small", cluster, branches[0], "")
        self.compiled[name] = [waits.name, *self._copies(f"{name}/large", cluster, branches[1], f"^{waits.name}")]
        large = [f"{name}/large/{tensor.name}" for tensor in exits]
        taken = self._add(f"{name}/all_rows", "TfBoosterTakeFirstRows", [*large, f"{rows.name}:{count}"])
        taken.attr["T"].list.type.extend(tensor.dtype.as_datatype_enum for tensor in exits)
        taken.attr["times"].list.i.extend(self._times(exits))
        for i, tensor in enumerate(exits):
            merged = self.merged[tensor.ref()] = f"{name}/merge_{i}"
            both = [f"{name}/small/{tensor.name}", f"{taken.name}:{i}"]
            self._add(merged, "Merge", both, T=tensor.dtype).attr["N"].i = 2

    def _copies(self, prefix: str, cluster: Cluster, given: Mapping[Any, str], waits: str) -> List[str]:
        """Copies of the ops that read `given` in place of the entries; their names, and those of what only they read."""
        members, names = set(cluster.ops), []
        constants: Dict[tf.Operation, None] = {}
        for op in cluster.ops:
            node = add_copy(self._graph_def, op)
            node.name = f"{prefix}/{op.name}"
            names.append(node.name)
            for place, tensor in enumerate(op.inputs):
                if self._rows.reads_size(op, place):
                    names.append(self._add_shape(f"{node.name}/tf_booster_shape", op, waits))
                    node.input.append(f"{names[-1]}:0")
                elif tensor.op in members or _is_small_constant(tensor):
                    node.input.append(f"{prefix}/{tensor.name}")
                    if tensor.op not in members:
                        constants[tensor.op] = None
                else:
                    node.input.append(given.get(tensor.ref()) or self._outside(tensor))
        for op in constants:
            node = add_copy(self._graph_def, op)
            node.name = f"{prefix}/{op.name}"
            names.append(node.name)
            node.input.extend([waits] if waits else [])
        return names

    def _add(self, name: str, op_type: str, inputs: Sequence[str], **types: tf.DType) -> Any:
        node = self._graph_def.node.add(name=name, op=op_type, device=self._device)
        node.input.extend(inputs)
        for attr, dtype in types.items():
            node.attr[attr].type = dtype.as_datatype_enum
        return node

    def _add_shape(self, name: str, reshape: tf.Operation, waits: str) -> str:
        """A constant for the shape that a Reshape has of any number of rows; its name."""
        shape, dtype = [-1, *reshape.outputs[0].shape.as_list()[1:]], reshape.inputs[1].dtype
        node = self._add(name, "Const", [waits] if waits else [], dtype=dtype)
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape, dtype))
        return name

    def _outside(self, tensor: tf.Tensor) -> str:
        """The name for a tensor of the graph, or for what stands for an exit of a cluster that was added before."""
        if tensor.ref() in self.merged:
            return f"{self.merged[tensor.ref()]}:0"
        name = f"outside/{tensor.name}"
        self._from_outside[name] = tensor
        return name

    def _times(self, tensors: Sequence[tf.Tensor]) -> List[int]:
        return [self._rows.rows(tensor).times for tensor in tensors]


def _is_small_constant(tensor: tf.Tensor) -> bool:
    op = tensor.op
    return op.type == "Const" and not op.control_inputs and (tensor.shape.num_elements() or 0) <= _FEW_NUMBERS
