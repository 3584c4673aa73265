"""Lists the ops of TensorFlow graphs that TensorFlow has no GPU kernel for. Needs TensorFlow's GPU build, and no GPU.

    python tools/gpu_kernel_gaps.py MODEL_DIR_OR_FILE...

A folder stands for the graph.pbtxt that an Estimator writes there; a file is a GraphDef (.pbtxt, .pb) or a MetaGraphDef (.meta).

An op is `between` if it reads what a GPU op made and a GPU op reads what it makes: its tensors travel to the host and back. So it is
if it updates a Variable that GPU ops read: TensorFlow then keeps the Variable on the host, and with it every lookup. It is `before` if it reads from the host alone (input, strings, hashing: the tensor travels once), `after` if nothing on the GPU reads it
(summaries, metrics, saving). Kernels that a GPU build has for the GPU but that keep their tensors in host memory, as those of shapes
do, count as GPU ops where they run, and as the host where they stand between.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from typing import Dict, List, Optional, Set, Tuple

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.framework import kernels as kernel_registry

v1 = tf.compat.v1
Gap = Tuple[str, str, str]  # Op type, dtypes, where it stands.


def read_graph(path: str) -> tf.Graph:
    """The graph in a model_dir, a GraphDef or a MetaGraphDef."""
    if os.path.isdir(path):
        path = os.path.join(path, "graph.pbtxt")
    graph = tf.Graph()
    with graph.as_default():
        if path.endswith(".meta"):
            v1.train.import_meta_graph(path)
            return graph
        definition = v1.GraphDef()
        with open(path, "rb") as f:
            if path.endswith(".pbtxt"):
                text_format.Parse(f.read().decode(), definition)
            else:
                definition.ParseFromString(f.read())
        tf.import_graph_def(definition, name="")
    return graph


_NO_NUMBERS = (tf.resource, tf.variant, tf.string)
_kernels: Dict[str, list] = {}


def gpu_kernel(op: tf.Operation) -> Optional[object]:
    """The KernelDef that TensorFlow uses for `op` on a GPU; None if it has none."""
    if op.type not in _kernels:
        found = kernel_registry.get_registered_kernels_for_op(op.type).kernel
        _kernels[op.type] = [k for kind in ("GPU", "DEFAULT") for k in found if k.device_type == kind]
    for kernel in _kernels[op.type]:
        if all(_allows(op, constraint) for constraint in kernel.constraint):
            return kernel
    return None


def _allows(op: tf.Operation, constraint: object) -> bool:
    value = op.get_attr(constraint.name)
    wanted = set(constraint.allowed_values.list.type)
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(not isinstance(v, tf.DType) or v.as_datatype_enum in wanted for v in values)


def _expanded(args: object, op: tf.Operation) -> List[str]:
    """The name of the argument that each tensor belongs to."""
    names = []
    for arg in args:
        if arg.number_attr:
            count = op.get_attr(arg.number_attr)
        else:
            count = len(op.get_attr(arg.type_list_attr)) if arg.type_list_attr else 1
        names += [arg.name] * count
    return names


class Placement:
    """What runs on the GPU, and which tensors are in its memory, if TensorFlow puts all it can there."""

    def __init__(self, graph: tf.Graph) -> None:
        self.on_gpu: Set[tf.Operation] = set()
        self._device_tensors: Set[object] = set()
        self._host_inputs: Set[Tuple[str, int]] = set()
        for op in graph.get_operations():
            kernel = gpu_kernel(op)
            if kernel is None or (tf.DeviceSpec.from_string(op.device).device_type if op.device else None) == "CPU":
                continue
            self.on_gpu.add(op)
            host = set(kernel.host_memory_arg)
            for tensor, name in zip(op.outputs, _expanded(op.op_def.output_arg, op)):
                # Constants are wherever they are wanted.
                if name not in host and op.type != "Const" and tensor.dtype not in _NO_NUMBERS:
                    self._device_tensors.add(tensor.ref())
            self._host_inputs |= {
                (op.name, i) for i, name in enumerate(_expanded(op.op_def.input_arg, op)) if name in host
            }

    def reads_device(self, op: tf.Operation) -> bool:
        """Whether an input of `op` is in the GPU's memory."""
        return any(tensor.ref() in self._device_tensors for tensor in op.inputs)

    def read_by_device(self, op: tf.Operation) -> bool:
        """Whether a GPU op wants an output of `op` in the GPU's memory."""
        return any(
            consumer in self.on_gpu and (consumer.name, i) not in self._host_inputs
            for output in op.outputs
            if output.dtype not in _NO_NUMBERS
            for consumer in output.consumers()
            for i, tensor in enumerate(consumer.inputs)
            if tensor is output
        )

    def shares_variable(self, op: tf.Operation) -> bool:
        """Whether `op` works on a Variable that GPU ops work on too."""
        handles = [tensor for tensor in op.inputs if tensor.dtype == tf.resource and tensor.op.type == "VarHandleOp"]
        return any(consumer in self.on_gpu for handle in handles for consumer in handle.consumers())


def gaps(graph: tf.Graph) -> collections.Counter[Gap]:
    """How often each op without GPU kernel occurs."""
    placement = Placement(graph)
    found: collections.Counter = collections.Counter()
    for op in graph.get_operations():
        if op in placement.on_gpu or op.type == "Placeholder" or gpu_kernel(op):
            continue
        reads = placement.reads_device(op)
        read = placement.read_by_device(op) or placement.shares_variable(op)
        place = "between" if reads and read else "after" if reads else "before" if read else "host only"
        types = sorted({t.dtype.base_dtype.name for t in [*op.inputs, *op.outputs]})
        found[op.type, "/".join(types), place] += 1
    return found


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", help="folders with graph.pbtxt, or .pbtxt, .pb, .meta files")
    paths = parser.parse_args(arguments).graphs
    if not any(k.device_type == "GPU" for k in kernel_registry.get_registered_kernels_for_op("MatMul").kernel):
        print(
            "This TensorFlow has no GPU kernels at all; run this with the GPU build (pip install tensorflow==2.15.1)."
        )
        return 1
    total: collections.Counter = collections.Counter()
    graphs: Dict[Gap, int] = collections.Counter()
    for path in paths:
        found = gaps(read_graph(path))
        total.update(found)
        graphs.update(found.keys())
    print(f"{'place':10} {'op':34} {'ops':>5} {'graphs':>6}  dtypes")
    order = ["between", "before", "after", "host only"]
    for gap, count in sorted(total.items(), key=lambda entry: (order.index(entry[0][2]), entry[0])):
        kind, types, place = gap
        print(f"{place:10} {kind:34} {count:5} {graphs[gap]:6}  {types}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
