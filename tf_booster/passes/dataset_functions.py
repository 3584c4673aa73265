"""Functions of datasets, as FunctionDefs: what is computed from what."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow as tf


class DatasetFunction:
    """A FunctionDef with its nodes by name."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self.nodes: Dict[str, Any] = {node.name: node for node in definition.node_def}
        self.arguments: List[str] = [argument.name for argument in definition.signature.input_arg]

    def of_type(self, *types: str) -> List[Any]:
        """The nodes of these types."""
        return [node for node in self.definition.node_def if node.op in types]

    def producer(self, tensor: str) -> Optional[Any]:
        """The node that makes `tensor`, looked for behind Identities; None for an argument."""
        while True:
            node = self.nodes.get(tensor.split(":")[0])
            if node is None or node.op != "Identity":
                return node
            tensor = node.input[0]

    def is_argument(self, tensor: str, index: int) -> bool:
        """Whether `tensor` is the argument of that number."""
        while tensor not in self.arguments:
            node = self.nodes[tensor.split(":")[0]]
            if node.op != "Identity":
                return False
            tensor = node.input[0]
        return self.arguments.index(tensor) == index

    def result(self) -> Optional[Any]:
        """The node that makes the function's one result; None if there are more results, or an argument is returned."""
        outputs = self.definition.signature.output_arg
        return self.producer(self.definition.ret[outputs[0].name]) if len(outputs) == 1 else None

    def constant(self, tensor: str) -> Optional[np.ndarray]:
        """The value of a constant, or of a reshaped one; None for anything else."""
        node = self.producer(tensor)
        if node is None:
            return None
        if node.op == "Const":
            return tf.make_ndarray(node.attr["value"].tensor)
        if node.op == "Reshape":
            value, shape = (self.constant(i) for i in data_inputs(node))
            return None if value is None or shape is None else value.reshape(shape)
        return None

    def readers(self, name: str) -> List[Any]:
        """The nodes that read a node or an argument."""
        return [n for n in self.definition.node_def if any(i.split(":")[0] == name for i in data_inputs(n))]


def data_inputs(node: Any) -> List[str]:
    """A node's inputs without those that only say when it runs."""
    return [name for name in node.input if not name.startswith("^")]


class Refused(Exception):
    """Why a pipeline stays TensorFlow's."""


def function_of(op: Any, functions: Dict[str, Any]) -> DatasetFunction:
    """The function of a dataset op, or of a node. Raises Refused."""
    attr = op.attr["f"] if hasattr(op, "attr") else op.get_attr("f")
    name = attr.func.name if hasattr(attr, "func") else attr.name
    if name not in functions:
        raise Refused(f"its function {name} is not in the graph")
    return DatasetFunction(functions[name])
