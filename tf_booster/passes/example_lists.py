"""Functions of maps that parse lists of Examples in messages, as TF-Ranking's ExampleListWithContext: one op of ours reads both.

TensorFlow's DecodeProtoV2 copies every Example of a batch, the lists are cut or padded to one length, which copies them again, and
then they are parsed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2

from tf_booster.passes import live_datasets
from tf_booster.passes.batch_maps import BatchMap
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs, prune, set_messages
from tf_booster.passes.dataset_steps import MAPS, element
from tf_booster.passes.inlined_functions import PARSE

DECODE = "DecodeProtoV2"
_OWN_OP = "TfBoosterParseExampleLists"
_BYTES = (
    descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
)
_CONDITIONS = ("If", "StatelessIf")


@dataclasses.dataclass(frozen=True)
class _Dimension:
    """A dimension of the tensor of lists: 0 the batch, 1 the longest list."""

    axis: int


_Extent = Union[int, _Dimension]


@dataclasses.dataclass(frozen=True)
class _Parsed:
    """What is parsed. examples: the number of the field, among those that `decode` gives, whose lists `parse` parses."""

    parse: Any
    decode: Any
    examples: int
    list_size: Optional[int]  # None: as many as the longest list has.
    between: Sequence[Any]  # The nodes between both.

    @property
    def lists(self) -> str:
        """The tensor of lists."""
        return f"{self.decode.name}:values:{self.examples}"


@dataclasses.dataclass(frozen=True)
class ListPipeline:
    """A map, `end`, in whose place `maps` is put, on the same batches of messages."""

    end: tf.Operation
    maps: Sequence[BatchMap]

    def describe(self) -> str:
        """What changes."""
        return "messages are decoded and the lists of Examples in them parsed by one faster op"


def match(map_op: tf.Operation, function: DatasetFunction, functions: Dict[str, Any]) -> ListPipeline:
    """The map that can be put in place of `map_op`, whose function decodes messages and parses. Raises Refused."""
    if map_op.type not in MAPS:
        raise Refused(f"{map_op.type} decodes its messages one by one; write batch(…).map(…)")
    messages = element(map_op.inputs[0].op) if live_datasets.is_dataset(map_op.inputs[0].op) else []
    if len(messages) != 1 or messages[0] is None or messages[0].rank != 1:
        raise Refused("what its function gets is not one batch of messages")
    live_datasets.check_above(map_op)
    return ListPipeline(map_op, [BatchMap(map_op, of_lists(function, messages[0][0], functions))])


def of_lists(function: DatasetFunction, batch: Optional[int], functions: Dict[str, Any]) -> Any:
    """A FunctionDef that computes what `function` does, which decodes messages and parses lists of Examples in them.

    batch: how many messages it gets, if that is known. functions: those that `function` may call.

    Raises:
      Refused: it does more with the lists than to parse them, cut or padded to one length.
    """
    parsed = _parsed(function, batch, functions)
    numbers, repeated = _fields(parsed.decode)
    if not repeated[parsed.examples]:
        raise Refused("the Examples that it parses are no list in their message")
    size = _size_node(parsed)
    own = _own_node(parsed, f"{size.name}:output:0", numbers, repeated)
    made = type(function.definition)()
    made.CopyFrom(function.definition)
    made.signature.name += "_of_lists"
    shapes = [node.name for node in made.node_def if _takes_shape(function, node, parsed)]
    replaced = [node.name for node in (parsed.decode, *parsed.between)]
    nodes = [size]
    for node in made.node_def:
        if node.name == own.name:
            nodes.append(own)
        elif node.name not in replaced:
            nodes.append(_shape_of_lists(node, own.name) if node.name in shapes else node)
    renamed = {f"{name}:output:0": f"{name}:y:0" for name in shapes}
    renamed[f"{parsed.decode.name}:sizes:0"] = f"{own.name}:sizes:0"
    others = [i for i in range(len(numbers)) if i != parsed.examples]
    renamed.update({f"{parsed.decode.name}:values:{i}": f"{own.name}:values:{n}" for n, i in enumerate(others)})
    for node in nodes:
        waits = [f"^{own.name}" if name[1:] in replaced else name for name in node.input if name.startswith("^")]
        node.input[:] = [*(renamed.get(name, name) for name in data_inputs(node)), *dict.fromkeys(waits)]
    set_messages(made.node_def, nodes)
    for output, tensor in list(made.ret.items()):
        made.ret[output] = renamed.get(tensor, tensor)
    for output, name in list(made.control_ret.items()):
        made.control_ret[output] = own.name if name in replaced else name
    _check_order(made, own.name)
    prune(made)
    return made


def _parsed(function: DatasetFunction, batch: Optional[int], functions: Dict[str, Any]) -> _Parsed:
    found = [parsed for parse in function.of_type(PARSE) for parsed in _lists_of(function, parse, batch, functions)]
    if len(found) != 1:
        raise Refused(
            f"it parses {len(found)} lists of Examples in the messages that it decodes, as they are, cut or padded to one length;"
            " wanted one"
        )
    parsed = found[0]
    if any(function.constant(name) is None for name in data_inputs(parsed.parse)[1:]):
        raise Refused("keys, default values or names of its parse are not constants")
    if function.constant(data_inputs(parsed.parse)[1]).size:
        raise Refused("its parse names the Examples")
    for tensor, readers in ((parsed.lists, parsed.between), *((n.name, [parsed.parse]) for n in parsed.between)):
        _check_readers(function, tensor, parsed, [*readers, *parsed.between])
    return parsed


def _lists_of(function: DatasetFunction, parse: Any, batch: Optional[int], functions: Dict[str, Any]) -> List[_Parsed]:
    """What `parse` parses, if it is lists in messages."""
    flat = function.producer(data_inputs(parse)[0])
    if flat is None or flat.op != "Reshape" or not _is(function.constant(data_inputs(flat)[1]), [-1]):
        return []
    tensor = function.behind_identities(data_inputs(flat)[0])
    node = function.nodes.get(tensor.split(":")[0])
    if node is not None and node.op == DECODE:
        return [_Parsed(parse, node, _number(tensor), None, [flat])]
    if node is None or node.op not in _CONDITIONS:
        return []
    for name in data_inputs(node)[1:]:
        tensor = function.behind_identities(name)
        decode = function.nodes.get(tensor.split(":")[0])
        if decode is not None and decode.op == DECODE:
            size = _Lengths(function, node, tensor, batch, functions).list_size()
            return [] if size is None else [_Parsed(parse, decode, _number(tensor), size, [node, flat])]
    return []


def _number(tensor: str) -> int:
    return int(tensor.rsplit(":", 1)[1])


class _Scope:
    """A function's tensors, and where those come from that it is called with."""

    def __init__(self, function: DatasetFunction, outside: Optional[Dict[str, Tuple[_Scope, str]]] = None) -> None:
        self._function = function
        self._outside = outside or {}

    def resolved(self, tensor: str) -> Tuple[_Scope, str]:
        """The tensor that `tensor` is a copy of, and the scope that it is in."""
        tensor = self._function.behind_identities(tensor)
        if tensor not in self._outside:
            return self, tensor
        scope, name = self._outside[tensor]
        return scope.resolved(name)

    def node(self, tensor: str, *op_types: str) -> Tuple[_Scope, Optional[Any]]:
        """The node that makes it, if that has one of these types."""
        scope, name = self.resolved(tensor)
        node = scope._function.nodes.get(name.split(":")[0])
        return scope, node if node is not None and node.op in op_types else None

    def constant(self, tensor: str) -> Optional[np.ndarray]:
        scope, name = self.resolved(tensor)
        return scope._function.constant(name)


class _Lengths:
    """What a condition does to lists: whether it cuts or pads them to one length."""

    def __init__(
        self, function: DatasetFunction, node: Any, lists: str, batch: Optional[int], functions: Dict[str, Any]
    ) -> None:
        self._node = node
        self._batch = batch
        self._outer = _Scope(function)
        self._lists = lists
        self._functions = functions

    def list_size(self) -> Optional[int]:
        """The length; None if it does something else."""
        scope, greater = self._outer.node(self._node.input[0], "Greater")
        if greater is None or self._extent(scope, greater.input[0]) != _Dimension(1):
            return None
        size = self._extent(scope, greater.input[1])
        cut, cut_by = self._branch("then_branch", "Slice")
        padded, padded_by = self._branch("else_branch", "Pad", "PadV2")
        if not isinstance(size, int) or size < 1 or cut_by is None or padded_by is None:
            return None
        if self._vector(cut, cut_by.input[1]) != [0, 0] or self._vector(cut, cut_by.input[2]) not in (
            [_Dimension(0), size],
            [-1, size],
            [self._batch, size],
        ):
            return None
        return size if self._is_padding(padded, padded_by, size) else None

    def _branch(self, attr: str, *op_types: str) -> Tuple[_Scope, Optional[Any]]:
        """The node of these types that a branch's one result is, made of the lists."""
        name = self._node.attr[attr].func.name
        if name not in self._functions:
            return self._outer, None
        body = DatasetFunction(self._functions[name])
        inputs = zip(body.arguments, data_inputs(self._node)[1:])
        scope = _Scope(body, {argument: (self._outer, tensor) for argument, tensor in inputs})
        outputs = body.definition.signature.output_arg
        if len(outputs) != 1 or body.definition.control_ret:
            return scope, None
        scope, node = scope.node(body.definition.ret[outputs[0].name], *op_types)
        return scope, node if node is not None and self._are_lists(scope, node.input[0]) else None

    def _are_lists(self, scope: _Scope, tensor: str) -> bool:
        return scope.resolved(tensor) == (self._outer, self._lists)

    def _is_padding(self, scope: _Scope, node: Any, size: int) -> bool:
        if node.op == "PadV2" and not _is(scope.constant(node.input[2]), b""):
            return False
        outer, pack = scope.node(node.input[1], "Pack")
        if pack is None or pack.attr["axis"].i != 0 or len(data_inputs(pack)) != 2:
            return False
        rows, columns = data_inputs(pack)
        inner, of_columns = outer.node(columns, "Pack")
        if self._vector(outer, rows) != [0, 0] or of_columns is None or len(data_inputs(of_columns)) != 2:
            return False
        before, behind = data_inputs(of_columns)
        last, missing = inner.node(behind, "Sub")
        return (
            self._extent(inner, before) == 0
            and missing is not None
            and [self._extent(last, name) for name in data_inputs(missing)] == [size, _Dimension(1)]
        )

    def _extent(self, scope: _Scope, tensor: str) -> Optional[_Extent]:
        """A constant, or a dimension of the lists."""
        value = scope.constant(tensor)
        if value is not None:
            return int(value) if value.shape == () and value.dtype.kind == "i" else None
        scope, node = scope.node(tensor, "StridedSlice")
        if node is None or [node.attr[f"{name}_mask"].i for name in _MASKS] != [1, 0, 0, 0, 0]:
            return None
        begin, end, strides = (scope.constant(name) for name in data_inputs(node)[1:])
        outer, shape = scope.node(node.input[0], "Shape")
        if shape is None or not self._are_lists(outer, shape.input[0]) or begin is None or begin.shape != (1,):
            return None
        axis = int(begin[0])
        return _Dimension(axis) if _is(end, [axis + 1]) and _is(strides, [1]) and axis in (0, 1) else None

    def _vector(self, scope: _Scope, tensor: str) -> Optional[List[Optional[_Extent]]]:
        value = scope.constant(tensor)
        if value is not None:
            return value.tolist() if value.ndim == 1 else None
        scope, pack = scope.node(tensor, "Pack")
        if pack is None or pack.attr["axis"].i != 0:
            return None
        return [self._extent(scope, name) for name in data_inputs(pack)]


_MASKS = ("shrink_axis", "begin", "end", "ellipsis", "new_axis")


def _is(value: Optional[np.ndarray], wanted: Any) -> bool:
    return value is not None and value.tolist() == wanted


def _check_readers(function: DatasetFunction, tensor: str, parsed: _Parsed, allowed: Sequence[Any]) -> None:
    """Raises Refused where something but these, or what asks for the shape of the lists, reads `tensor`, a tensor or all of a node."""
    names = {node.name for node in allowed}
    stack = [tensor]
    while stack:
        tensor = stack.pop()

        def reads(name: str, read: str = tensor) -> bool:
            return name == read if ":" in read else name.split(":")[0] == read

        if any(reads(name) for name in function.definition.ret.values()):
            raise Refused("it returns serialized Examples beside parsing them")
        for node in function.definition.node_def:
            if node.name in names or not any(reads(name) for name in data_inputs(node)):
                continue
            if node.op == "Identity":
                stack.append(node.name)
            elif not _takes_shape(function, node, parsed):
                raise Refused(f"{node.op} ('{node.name}') reads the serialized Examples beside the parse")


def _takes_shape(function: DatasetFunction, node: Any, parsed: _Parsed) -> bool:
    return node.op == "Shape" and function.behind_identities(node.input[0]) == parsed.lists


def _shape_of_lists(node: Any, own: str) -> Any:
    """A node in place of the Shape `node`."""
    dtype = node.attr["out_type"].type or tf.int32.as_datatype_enum
    made = tf.compat.v1.NodeDef(name=node.name, op="Cast", device=node.device)
    made.input.extend([f"{own}:examples_shape:0", *(name for name in node.input if name.startswith("^"))])
    made.attr["SrcT"].type = tf.int32.as_datatype_enum
    made.attr["DstT"].type = dtype
    return made


def _size_node(parsed: _Parsed) -> Any:
    node = tf.compat.v1.NodeDef(name=f"{parsed.parse.name}/tf_booster_list_size", op="Const")
    node.attr["dtype"].type = tf.int64.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(parsed.list_size or -1, tf.int64))
    return node


def _own_node(parsed: _Parsed, size: str, numbers: Sequence[int], repeated: Sequence[bool]) -> Any:
    parse, decode = parsed.parse, parsed.decode
    node = tf.compat.v1.NodeDef(name=parse.name, op=_OWN_OP, device=parse.device)
    waits = [name for n in (decode, *parsed.between, parse) for name in n.input if name.startswith("^")]
    inner = {f"^{n.name}" for n in (decode, *parsed.between)}
    node.input.extend([decode.input[0], size, *data_inputs(parse)[2:]])
    node.input.extend(name for name in dict.fromkeys(waits) if name not in inner)
    node.attr["field_numbers"].list.i.extend(numbers)
    node.attr["repeated"].list.b.extend(repeated)
    node.attr["examples"].i = parsed.examples
    node.attr["num_values"].i = len(numbers) - 1
    for name in ("Tdense", "num_sparse", "sparse_types", "ragged_value_types", "ragged_split_types", "dense_shapes"):
        node.attr[name].CopyFrom(parse.attr[name])
    return node


def _fields(decode: Any) -> Tuple[List[int], List[bool]]:
    """Number of each decoded field, and whether it is repeated. Raises Refused for one that is not bytes."""
    attr = decode.attr
    source = attr["descriptor_source"].s
    if not source.startswith(b"bytes://") or attr["message_format"].s not in (b"", b"binary") or attr["sanitize"].b:
        raise Refused(f"'{decode.name}' decodes with a descriptor from elsewhere, from text, or checks its messages")
    described = descriptor_pb2.FileDescriptorSet.FromString(source[len(b"bytes://") :])
    wanted = attr["message_type"].s.decode()
    messages = {f"{f.package}.{m.name}".lstrip("."): m for f in described.file for m in f.message_type}
    if wanted not in messages:
        raise Refused(f"'{decode.name}' decodes messages of type {wanted}, which its descriptor does not describe")
    fields = {field.name: field for field in messages[wanted].field}
    names = [name.decode() for name in attr["field_names"].list.s]
    for name in names:
        if name not in fields or fields[name].type not in _BYTES or fields[name].default_value:
            raise Refused(f"field {name} of its messages is not bytes without a default value")
    if len(set(names)) != len(names) or set(attr["output_types"].list.type) != {tf.string.as_datatype_enum}:
        raise Refused("it decodes a field twice, or not as strings")
    return [fields[name].number for name in names], [
        fields[name].label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED for name in names
    ]


def _check_order(definition: Any, name: str) -> None:
    """Raises Refused where the node of that name would be made of itself, or wait for itself."""
    nodes = {node.name: node for node in definition.node_def}
    seen: Set[str] = set()
    stack = list(nodes[name].input)
    while stack:
        source = stack.pop().lstrip("^").split(":")[0]
        if source == name:
            raise Refused("its parse waits for something that is made of the messages' fields")
        if source in nodes and source not in seen:
            seen.add(source)
            stack.extend(nodes[source].input)
