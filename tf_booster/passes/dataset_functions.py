"""Functions of datasets, as FunctionDefs: what is computed from what."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional, Set

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

    def behind_identities(self, tensor: str) -> str:
        """The tensor, or argument, that `tensor` is a copy of."""
        node = self.nodes.get(tensor.split(":")[0])
        while node is not None and node.op == "Identity":
            tensor = node.input[0]
            node = self.nodes.get(tensor.split(":")[0])
        return tensor

    def producer(self, tensor: str) -> Optional[Any]:
        """The node that makes `tensor`, looked for behind Identities; None for an argument."""
        return self.nodes.get(self.behind_identities(tensor).split(":")[0])

    def is_argument(self, tensor: str, index: int) -> bool:
        """Whether `tensor` is the argument of that number."""
        source = self.behind_identities(tensor)
        return source in self.arguments and self.arguments.index(source) == index

    def result(self) -> Optional[Any]:
        """The node that makes the function's one result; None if there are more results, or an argument is returned."""
        outputs = self.definition.signature.output_arg
        return self.producer(self.definition.ret[outputs[0].name]) if len(outputs) == 1 else None

    def result_type(self, name: str) -> tf.DType:
        """The type of the result of that name."""
        return tf.as_dtype(next(o.type for o in self.definition.signature.output_arg if o.name == name))

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

    def arguments_of(self, name: str) -> Set[str]:
        """The arguments that the node, or argument, of that name is made of."""
        found, seen, stack = set(), set(), [name]
        while stack:
            name = stack.pop().split(":")[0]
            if name in self.arguments:
                found.add(name)
            elif name not in seen:
                seen.add(name)
                stack.extend(data_inputs(self.nodes[name]))
        return found

    def readers(self, name: str) -> List[Any]:
        """The nodes that read a node or an argument."""
        return [n for n in self.definition.node_def if any(i.split(":")[0] == name for i in data_inputs(n))]


def dtype_of(node: Any, name: str = "T") -> Optional[tf.DType]:
    """What the attribute `name` of a NodeDef says; None where it has none, or several, as a loop has."""
    return tf.as_dtype(node.attr[name].type) if name in node.attr and node.attr[name].type else None


def data_inputs(node: Any) -> List[str]:
    """A node's inputs without those that only say when it runs."""
    return [name for name in node.input if not name.startswith("^")]


def prune(definition: Any) -> None:
    """Takes away the nodes of a FunctionDef that neither its results nor its effects need. TensorFlow does not run them either."""
    used: List[str] = [*definition.ret.values(), *definition.control_ret.values()]
    nodes, reached = {node.name: node for node in definition.node_def}, set()
    while used:
        name = used.pop().lstrip("^").split(":")[0]
        if name in nodes and name not in reached:
            reached.add(name)
            used.extend(nodes[name].input)
    set_messages(definition.node_def, [node for node in definition.node_def if node.name in reached])


def rename(definition: Any, names: Dict[str, str]) -> None:
    """Has the nodes of a FunctionDef, and its results, read other tensors, by name."""
    for node in definition.node_def:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)
    for result, name in list(definition.ret.items()):
        definition.ret[result] = names.get(name, name)


def set_messages(repeated: Any, messages: List[Any]) -> None:
    """Has a repeated field hold copies of `messages`, which may be its own."""
    kept = [type(message).FromString(message.SerializeToString()) for message in messages]
    del repeated[:]
    repeated.extend(kept)


def named_by_content(definition: Any, what: str) -> Any:
    """A new FunctionDef with a name that no other function has: a graph may have several of its kind."""
    digest = hashlib.sha1(definition.SerializeToString(deterministic=True)).hexdigest()
    definition.signature.name = f"tf_booster_{what}_{digest[:16]}"
    return definition


class Refused(Exception):
    """Why a pipeline stays TensorFlow's."""
