"""Functions with the bodies of tf.functions that they call in place of the calls, as TensorFlow inlines them."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Sequence

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs, prune

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
PARSE = "ParseExampleV2"
_UNKNOWN = "unknown"  # What a function does that is not in the graph.
# Attributes of functions that say nothing about what they compute.
_HARMLESS = ("_construction_context", "_input_shapes", "_noinline", "_tf_data_function")


def function_of(op: Any, functions: Dict[str, Any]) -> DatasetFunction:
    """The function of a dataset op, or of a node, with what it calls. Raises Refused, as inlined() does."""
    node = op if hasattr(op, "attr") else op.node_def
    attr = node.attr["predicate" if node.op == "FilterDataset" else "f"]
    name = attr.func.name
    if name not in functions:
        raise Refused(f"its function {name} is not in the graph")
    return DatasetFunction(inlined(functions[name], functions))


def runs(op: tf.Operation, op_types: Sequence[str], functions: Dict[str, Any]) -> bool:
    """Whether a function that the op runs has an op of these types, or runs one that has."""
    return _Inliner(functions).runs(op.node_def, op_types)


def inlined(definition: Any, functions: Dict[str, Any]) -> Any:
    """`definition` with the bodies of functions that parse, or have no state, in place of the calls of them.

    Calls of what has a state and does not parse stay: the state belongs to the function, however often it is called.

    Args:
      functions: the FunctionDefs that it may call, by name.

    Raises:
      Refused: a parse is in a function that is not simply called.
    """
    return _Inliner(functions).inlined(definition, ())


class _Inliner:
    def __init__(self, functions: Dict[str, Any]) -> None:
        self._functions = functions
        self._types: Dict[str, FrozenSet[str]] = {}

    def inlined(self, definition: Any, outer: Any) -> Any:
        """`outer`: names of the functions on the way here, which TensorFlow does not let call themselves."""
        calls = [node for node in definition.node_def if self._is_wanted(node)]
        if not calls:
            return definition
        made = type(definition)()
        made.CopyFrom(definition)
        del made.node_def[:]
        taken = {node.name for node in definition.node_def} | {a.name for a in definition.signature.input_arg}
        renamed: Dict[str, str] = {}
        after: Dict[str, List[str]] = {}
        for node in definition.node_def:
            if node not in calls:
                made.node_def.add().CopyFrom(node)
                continue
            name = node.attr["f"].func.name
            if name in outer:
                raise Refused(f"its function calls {name}, which calls itself")
            body = self.inlined(self._functions[name], (*outer, name))
            _add_body(made, node, body, taken, renamed, after)
        for node in made.node_def:
            node.input[:] = _renamed(node.input, renamed, after)
        for output, tensor in list(made.ret.items()):
            made.ret[output] = _last(tensor, renamed)
        _wait_for_bodies(made, after)
        prune(made)
        return made

    def runs(self, node: Any, op_types: Sequence[str]) -> bool:
        """Whether a function that the node runs has one of these, or runs one that has."""
        called = [name for name in _called(node) if name in self._functions]
        return any(not self._types_of(name).isdisjoint(op_types) for name in called)

    def _is_wanted(self, node: Any) -> bool:
        parses = self.runs(node, [PARSE])
        if node.op not in _CALLS:
            if parses:
                raise Refused(f"it parses in a function that its {node.op} ('{node.name}') runs")
            return False
        name = node.attr["f"].func.name
        if name not in self._functions:
            return False
        why = _obstacle(node, self._functions[name])
        if why and parses:
            raise Refused(f"it parses in the function {name}, which {why}")
        return not why and (parses or not any(map(_has_state, self._types_of(name))))

    def _types_of(self, name: str) -> FrozenSet[str]:
        """The types of all ops that run when the function does."""
        if name not in self._types:
            self._types[name] = frozenset()  # Of one that calls itself.
            found = set()
            for node in self._functions[name].node_def:
                found.add(node.op)
                for called in _called(node):
                    found |= self._types_of(called) if called in self._functions else {_UNKNOWN}
            self._types[name] = frozenset(found)
        return self._types[name]


def _has_state(op_type: str) -> bool:
    if op_type in _CALLS or "Dataset" in op_type:  # Datasets are called stateful, but it is their iterators that are.
        return False
    return op_type == _UNKNOWN or _compat.is_stateful(op_type)


def _called(node: Any) -> List[str]:
    return [f.name for attr in node.attr.values() for f in [attr.func, *attr.list.func] if f.name]


def _obstacle(call: Any, function: Any) -> str:
    """Why the call is more than its body; "" if it is not."""
    if call.attr["executor_type"].s:
        return f"has an executor of its own, {call.attr['executor_type'].s.decode()}"
    for name, value in function.attr.items():
        if (
            name not in _HARMLESS
            and value.WhichOneof("value") is not None
            and not (value.HasField("b") and not value.b)
        ):
            return f"asks for more than to be run, {name}"
    arguments = [*function.signature.input_arg, *function.signature.output_arg]
    if function.signature.attr or any(a.number_attr or a.type_attr or a.type_list_attr for a in arguments):
        return "has arguments of any type"
    return ""


def _add_body(
    made: Any, call: Any, body: Any, taken: set, renamed: Dict[str, str], after: Dict[str, List[str]]
) -> None:
    prefix = call.name
    while any(f"{prefix}/{node.name}" in taken for node in body.node_def):
        prefix += "_"
    data = data_inputs(call)
    control = [name for name in call.input if name.startswith("^")]
    inputs = dict(zip((argument.name for argument in body.signature.input_arg), data))

    def outside(tensor: str) -> str:
        if tensor.startswith("^"):
            return "^" + prefix + "/" + tensor[1:]
        return inputs.get(tensor) or f"{prefix}/{tensor}"

    for node in body.node_def:
        new = made.node_def.add()
        new.CopyFrom(node)
        new.name = f"{prefix}/{node.name}"
        new.device = node.device or call.device
        new.input[:] = [outside(name) for name in node.input]
        if node.op != "Const":
            new.input.extend(name for name in control if name not in new.input)
        taken.add(new.name)
    for i, output in enumerate(body.signature.output_arg):
        renamed[f"{call.name}:output:{i}"] = outside(body.ret[output.name])
    ends = [*body.control_ret.values(), *(body.ret[output.name].split(":")[0] for output in body.signature.output_arg)]
    after[call.name] = list(dict.fromkeys(f"{prefix}/{end}" for end in ends if end not in inputs))


def _last(tensor: str, renamed: Dict[str, str]) -> str:
    while tensor in renamed:
        tensor = renamed[tensor]
    return tensor


def _renamed(names: Any, renamed: Dict[str, str], after: Dict[str, List[str]]) -> List[str]:
    data = [_last(name, renamed) for name in names if not name.startswith("^")]
    waits, stack = [], [name[1:] for name in names if name.startswith("^")]
    while stack:
        name = stack.pop(0)
        if name in after:
            stack.extend(after[name])
        else:
            waits.append(f"^{name}")
    return [*data, *dict.fromkeys(waits)]


def _wait_for_bodies(made: Any, after: Dict[str, List[str]]) -> None:
    """What had to run where the call was a control output of the function: all that the body had to run."""
    waits: Dict[str, str] = {}
    for output, name in made.control_ret.items():
        ends = _renamed([f"^{name}"], {}, after)
        for i, end in enumerate(ends):
            waits[output if i == 0 else f"{output}_{i}"] = end[1:]
    made.control_ret.clear()
    made.control_ret.update(waits)
    made.signature.control_output[:] = sorted(waits)
