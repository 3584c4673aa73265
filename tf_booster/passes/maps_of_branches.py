"""Maps in each of the datasets that a Dataset.concatenate, sample_from_datasets or choose_from_datasets joins, as one map behind it.

What each gives is decoded by the same functions, but for constants: a program that marks samples by where they come from has one label in one
function and another in the next. Such constants become parts of the elements. The same elements in the same order.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Dict, List, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import live_datasets, made_datasets
from tf_booster.passes.composed_functions import composed
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, set_messages
from tf_booster.passes.dataset_steps import ALL_BATCHES, MAPS, check_order, components, is_of_anything
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.inlined_functions import runs
from tf_booster.passes.line_pieces import SPLITS
from tf_booster.passes.record_predicates import RecordFunction, record_function
from tf_booster.passes.row_functions import DECODE_CSV
from tf_booster.passes.row_parses import PARSES
from tf_booster.passes.row_sequences import PARSE_SEQUENCE

# The number of the first of the datasets among the inputs.
_JOINS = {"ConcatenateDataset": 0, "DirectedInterleaveDataset": 1}
_DECODING = (*PARSES, PARSE_SEQUENCE, DECODE_CSV, *SPLITS)
_MOST_STEPS = 600  # How deep functions here may call themselves, too.

_Path = Tuple[tf.Operation, ...]  # The maps of one of the joined datasets, the last one first.


@dataclasses.dataclass(frozen=True)
class _Mapped:
    """What the maps of the joined datasets do, as one function. constants: NodeDefs of what differs, by path, which are its last arguments but
    for `captured`, what it takes from outside."""

    definition: Any
    captured: Sequence[tf.Tensor]
    constants: Dict[_Path, Sequence[Any]]


def joins(view: GraphView) -> List[tf.Operation]:
    """The joins of single elements that go to a batch and to no other join, with maps that decode in one of what they join."""
    found = [op for op in view.ops(*_JOINS) if live_datasets.is_read(op) and _is_batched(op)]
    functions = _compat.functions_by_name(view.graph) if found else {}
    return [
        op
        for op in found
        if not _is_large(op) and any(runs(m, _DECODING, functions) for path in _paths(op) for m in path)
    ]


def moved_behind(view: GraphView, join: tf.Operation, functions: Dict[str, Any]) -> List[tf.Operation]:
    """A new map, in a list, that gives what `join`, one of joins(), gives. Raises Refused."""
    paths = [path[: _num_decoding(path, functions)] for path in dict.fromkeys(_paths(join))]
    mapped = _mapped(paths, functions)
    _check_orders(join, shared=False)
    source = _remade(view, join, (), mapped)
    like = paths[0][0]
    node = made_datasets.node_like(like, "map")
    node.attr["f"].func.name = mapped.definition.signature.name
    node.attr["Targuments"].list.type[:] = [tensor.dtype.as_datatype_enum for tensor in mapped.captured]
    made_datasets.set_elements(node, components(join))
    inputs = [source, *mapped.captured, *like.inputs[1 + len(like.get_attr("Targuments")) :]]
    node.input[:] = [f"input_{i}" for i in range(len(inputs))]
    return view.add_nodes([node], [mapped.definition], inputs, "maps_of_branches")


def _is_batched(op: tf.Operation) -> bool:
    try:
        return bool(live_datasets.batches_of(op, ALL_BATCHES))
    except Refused:
        return False


def _is_large(op: tf.Operation) -> bool:
    """Whether more is joined than is worth to be made again: a program may double a dataset by joining it with itself, and again."""
    stack, seen = [op], 0
    while stack and seen <= _MOST_STEPS:
        step = stack.pop()
        seen += 1
        if step.type in _JOINS:
            stack += _joined(step)
        elif step.type in MAPS or is_of_anything(step):
            stack.append(step.inputs[0].op)
    return seen > _MOST_STEPS


def _joined(op: tf.Operation) -> List[tf.Operation]:
    return [tensor.op for tensor in op.inputs[_JOINS[op.type] :]]


def _paths(op: tf.Operation) -> List[_Path]:
    """The maps behind one another at the end of each dataset that goes into `op`, steps between them left out; as often as it does."""
    if op.type in _JOINS:
        return [path for joined in _joined(op) for path in _paths(joined)]
    if op.type in MAPS:
        return [(op, *path) for path in _paths(op.inputs[0].op)]
    return _paths(op.inputs[0].op) if is_of_anything(op) else [()]


def _num_decoding(path: _Path, functions: Dict[str, Any]) -> int:
    """How many maps it has up to the first that decodes."""
    decoding = [i for i, op in enumerate(path) if runs(op, _DECODING, functions)]
    if not decoding:
        raise Refused("one of the datasets that it joins is not decoded by a map, or chosen from behind it")
    return decoding[-1] + 1


def _check_orders(op: tf.Operation, shared: bool) -> None:
    """Raises Refused where steps that are made again keep an order for something else, too."""
    if op.type not in (*_JOINS, *MAPS) and not is_of_anything(op):
        return
    shared = shared or live_datasets.num_readers(op) > 1
    check_order(op, shared)
    for source in _joined(op) if op.type in _JOINS else [op.inputs[0].op]:
        _check_orders(source, shared)


def _mapped(paths: Sequence[_Path], functions: Dict[str, Any]) -> _Mapped:
    parts = {path: [record_function(op, functions) for op in reversed(path)] for path in paths}
    made = {path: _composed(found) for path, found in parts.items()}
    captured = {path: [tensor for part in found for tensor in part.captured] for path, found in parts.items()}
    first = made[paths[0]]
    names: Dict[str, None] = {}
    for path, definition in made.items():
        if captured[path] != captured[paths[0]]:
            raise Refused("maps of the datasets that it joins use different tensors from outside")
        names.update(dict.fromkeys(_other_constants(first, definition)))
    constants = {path: [DatasetFunction(definition).nodes[name] for name in names] for path, definition in made.items()}
    num_captured = len(captured[paths[0]])
    return _Mapped(_of_constants(first, constants[paths[0]], num_captured), captured[paths[0]], constants)


def _composed(parts: Sequence[RecordFunction]) -> Any:
    definitions = [part.definition for part in parts]
    made = composed(definitions, [len(p.definition.signature.input_arg) - len(p.captured) for p in parts])
    for node in made.node_def:
        node.ClearField("experimental_debug_info")
    return made


def _other_constants(first: Any, other: Any) -> List[str]:
    """The constants that have other values in `other`. Raises Refused where anything else differs."""
    copies = [type(first).FromString(definition.SerializeToString()) for definition in (first, other)]
    copies[1].signature.name = copies[0].signature.name
    found = []
    for a, b in zip(*(copy.node_def for copy in copies)):
        if a.op == b.op == "Const" and a.name == b.name and a != b:
            found.append(a.name)
            b.CopyFrom(a)
    if copies[0] != copies[1]:
        raise Refused("the datasets that it joins are not decoded alike; decode behind it")
    return found


def _of_constants(definition: Any, constants: Sequence[Any], num_captured: int) -> Any:
    """`definition` with arguments in place of `constants`, before the last `num_captured`."""
    arguments = list(definition.signature.input_arg)
    end = len(arguments) - num_captured
    names = {f"{node.name}:output:0": f"constant_{i}" for i, node in enumerate(constants)}
    new = [type(arguments[0])(name=name, type=node.attr["dtype"].type) for name, node in zip(names.values(), constants)]
    set_messages(definition.signature.input_arg, [*arguments[:end], *new, *arguments[end:]])
    definition.arg_attr.clear()
    gone = {node.name for node in constants}
    set_messages(definition.node_def, [node for node in definition.node_def if node.name not in gone])
    for node in definition.node_def:
        node.input[:] = [names.get(name, name) for name in node.input if name[1:] not in gone or name[0] != "^"]
    for output, tensor in list(definition.ret.items()):
        definition.ret[output] = names.get(tensor, tensor)
    return _named(definition)


def _remade(view: GraphView, op: tf.Operation, taken: _Path, mapped: _Mapped) -> tf.Tensor:
    """The dataset `op` without the maps in `taken`, those behind it, and the others of their path, with what differs among its elements."""
    if op.type in _JOINS:
        return _join(view, op, [_remade(view, joined, taken, mapped) for joined in _joined(op)])
    if op.type in MAPS:
        taken = (*taken, op)
        if taken in mapped.constants:
            return _with_constants(op.inputs[0], mapped.constants[taken])
        return _remade(view, op.inputs[0].op, taken, mapped)
    source = _remade(view, op.inputs[0].op, taken, mapped)
    return source if op.type == "PrefetchDataset" else made_datasets.of_others(view, op, source)


def _join(view: GraphView, op: tf.Operation, sources: Sequence[tf.Tensor]) -> tf.Tensor:
    kinds = [[(dtype, shape.as_list()) for dtype, shape in components(source.op)] for source in sources]
    if any(kind != kinds[0] for kind in kinds):
        raise Refused("the datasets that it joins have elements of different kinds before they are decoded")
    node = made_datasets.node_like(op, "join")
    made_datasets.set_elements(node, components(sources[0].op))
    inputs = [*op.inputs[: _JOINS[op.type]], *sources]
    node.input[:] = [f"input_{i}" for i in range(len(inputs))]
    return view.add_nodes([node], [], inputs, "maps_of_branches")[0].outputs[0]


def _with_constants(source: tf.Tensor, constants: Sequence[Any]) -> tf.Tensor:
    """Elements of `source`, with these NodeDefs' values as more components: a map that added them would take ten times a zip's time."""
    if not constants:
        return source
    values = [tf.constant(tf.make_ndarray(node.attr["value"].tensor), node.attr["dtype"].type) for node in constants]
    one = tf.raw_ops.TensorDataset(components=values, output_shapes=[value.shape for value in values])
    elements = [*components(source.op), *((value.dtype, value.shape) for value in values)]
    return tf.raw_ops.ZipDataset(
        input_datasets=[source, tf.raw_ops.RepeatDataset(
            input_dataset=one, count=tf.constant(-1, tf.int64), output_types=[value.dtype for value in values],
            output_shapes=[value.shape for value in values],
        )],
        output_types=[dtype for dtype, _ in elements],
        output_shapes=[shape for _, shape in elements],
    )  # fmt: skip


def _named(definition: Any) -> Any:
    """With a name that only functions have that are the same."""
    definition.signature.name = ""
    digest = hashlib.sha1(definition.SerializeToString(deterministic=True)).hexdigest()
    definition.signature.name = f"tf_booster_branches_{digest[:16]}"
    return definition
