"""Rules for the numbers that ops around features compute: sizes, row numbers, and where the entries of sparse tensors stand."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster.passes import row_layouts, row_rules
from tf_booster.passes.matching import integer_value
from tf_booster.passes.row_kinds import (
    BATCH,
    BATCH_ROWS,
    ONE_A_ROW,
    Fixed,
    IndexColumns,
    Indices,
    NotByRow,
    RowNumbers,
    Rows,
    Size,
    Sizes,
)
from tf_booster.passes.row_layouts import sizes_of
from tf_booster.passes.row_rules import Given, Rule, check_same, rank_of
from tf_booster.passes.static_integers import static_integers

_SIZE_RULES: Dict[str, Rule] = {}
_INDEX_RULES: Dict[str, Rule] = {}
_NOT_KNOWN = "it is not known to compute each row from that row alone"


def outputs_of(op: tf.Operation, given: Given) -> List[Any]:
    """What is known of the outputs of `op`. Raises NotByRow where that is nothing."""
    kinds = {type(kind) for kind in given if kind is not None}
    if kinds == {Sizes} or not kinds:
        if op.type in _SIZE_RULES and kinds:
            return _SIZE_RULES[op.type](op, given)
        if all(kind is None or kind.fixed for kind in given):
            return [Fixed() for _ in op.outputs]
        raise NotByRow("it makes something else than a shape of the number of rows")
    table = _INDEX_RULES if kinds & {RowNumbers, IndexColumns, Indices} else row_rules.RULES
    if op.type not in table:
        raise NotByRow(_NOT_KNOWN)
    return table[op.type](op, given)


def _sizes(*op_types: str) -> Any:
    return lambda function: _SIZE_RULES.update((op_type, function) for op_type in op_types)


def _indices(*op_types: str) -> Any:
    return lambda function: _INDEX_RULES.update((op_type, function) for op_type in op_types)


def _elements(op: tf.Operation, given: Given, place: int) -> Tuple[Size, ...]:
    found = sizes_of(op.inputs[place], given[place])
    if not found:
        raise NotByRow("its sizes are not understood")
    return found


@_sizes("Cast", "Identity", "ExpandDims", "Squeeze", "Reshape")
def _same_sizes(op: tf.Operation, given: Given) -> List[Any]:
    if len(given) > 1:
        check_same(given, 1)
    if rank_of(op.outputs[0]) > 1 or not isinstance(given[0], Sizes):
        raise NotByRow("it makes a matrix of sizes")
    return [given[0]]


@_sizes("StridedSlice")
def _part_of_sizes(op: tf.Operation, given: Given) -> List[Any]:
    elements = _elements(op, given, 0)
    bounds = [static_integers(tensor) for tensor in op.inputs[1:]]
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if masks["ellipsis"] or masks["new_axis"] or any(bound is None or len(bound) != 1 for bound in bounds):
        raise NotByRow("it slices sizes in a way that is not understood")
    (begin,), (end,), (stride,) = bounds
    if masks["shrink_axis"]:
        return [Sizes((elements[begin],))]
    taken = slice(None if masks["begin"] else begin, None if masks["end"] else end, stride)
    return [Sizes(elements[taken])]


@_sizes("Slice")
def _slice_of_sizes(op: tf.Operation, given: Given) -> List[Any]:
    elements = _elements(op, given, 0)
    begin, size = (integer_value(op.inputs[place]) for place in (1, 2))
    if begin is None or size is None:
        raise NotByRow("it slices sizes in a way that is not understood")
    return [Sizes(elements[begin : None if size == -1 else begin + size])]


@_sizes("GatherV2")
def _some_sizes(op: tf.Operation, given: Given) -> List[Any]:
    elements, places = _elements(op, given, 0), static_integers(op.inputs[1])
    if places is None or integer_value(op.inputs[2]) != 0 or op.get_attr("batch_dims") != 0:
        raise NotByRow("it gathers sizes in a way that is not understood")
    return [Sizes(tuple(elements[place] for place in places))]


@_sizes("Pack", "ConcatV2")
def _joined_sizes(op: tf.Operation, given: Given) -> List[Any]:
    count = len(op.inputs) - (op.type == "ConcatV2")
    if rank_of(op.outputs[0]) != 1:
        raise NotByRow("it makes a matrix of sizes")
    return [Sizes(tuple(size for place in range(count) for size in _elements(op, given, place)))]


@_sizes("Prod")
def _product_of_sizes(op: tf.Operation, given: Given) -> List[Any]:
    if static_integers(op.inputs[1]) != [0]:
        raise NotByRow("it multiplies sizes in a way that is not understood")
    return [Sizes((_product(_elements(op, given, 0)),))]


@_sizes("Mul")
def _two_sizes(op: tf.Operation, given: Given) -> List[Any]:
    left, right = (_elements(op, given, place) for place in (0, 1))
    if len(left) != 1 or len(right) != 1:
        raise NotByRow("it multiplies sizes in a way that is not understood")
    return [Sizes((_product(left + right),))]


def _product(sizes: Tuple[Size, ...]) -> Size:
    bases = [size.base for size in sizes if size.base is not None]
    times = [size.times for size in sizes]
    if len(bases) > 1 or any(known is not None and known < 0 for known in times):
        raise NotByRow("it multiplies sizes in a way that is not understood")
    return Size(bases[0] if bases else None, None if None in times else math.prod(times))


@_sizes("Fill", "BroadcastTo")
def _filled(op: tf.Operation, given: Given) -> List[Any]:
    place = 0 if op.type == "Fill" else 1
    value = op.inputs[1 - place]
    check_same(given, 1 - place)
    first, *rest = _elements(op, given, place)
    rank = len(rest) + 1
    if first.base is None or any(size.base is not None for size in rest):
        raise NotByRow("its shape does not begin with the number of rows")
    if rank_of(value) > rank or (rank_of(value) == rank and value.shape[0] != 1):
        raise NotByRow(f"'{value.name}' may have a row for each example")
    return [Rows(first.base, first.times)]


@_sizes("Tile")
def _repeated(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 0)
    first, *rest = _elements(op, given, 1)
    length = op.inputs[0].shape[0] if rank_of(op.inputs[0]) else None
    if first.base is None or any(size.base is not None for size in rest):
        raise NotByRow("it does not repeat by the number of rows")
    return [Rows(first.base, None if None in (length, first.times) else length * first.times)]


@_sizes("Range")
def _range(op: tf.Operation, given: Given) -> List[Any]:
    start, limit, delta = (_elements(op, given, place)[0] for place in range(3))
    if start.base is None and limit.base is None and delta.base is None:
        return [Fixed()]
    if start != Size(None, 0) or limit.base is None or limit.times != 1 or delta != Size(None, 1):
        raise NotByRow("it does not number the rows")
    return [RowNumbers(limit.base, 1)]


@_indices("Cast", "Identity")
def _pass_on(op: tf.Operation, given: Given) -> List[Any]:
    return [given[0]]


@_indices("ExpandDims", "Reshape", "Tile")
def _arranged_numbers(op: tf.Operation, given: Given) -> List[Any]:
    numbers, shape = given[0], sizes_of(op.inputs[1], given[1])
    if not isinstance(numbers, RowNumbers) or not shape:
        raise NotByRow(_NOT_KNOWN)
    if op.type == "ExpandDims" and rank_of(op.inputs[0]) == 1 and shape in ((Size(None, 1),), (Size(None, -1),)):
        return [numbers]
    if op.type == "Reshape" and shape == (Size(None, -1),):
        return [numbers]
    if op.type == "Tile" and op.inputs[0].shape.rank == 2 and op.inputs[0].shape[1] == 1 and numbers.each == 1:
        if len(shape) == 2 and shape[0] == Size(None, 1) and shape[1].base is None:
            return [RowNumbers(numbers.base, shape[1].times)]
    raise NotByRow(_NOT_KNOWN)


@_indices("Pack")
def _stacked_columns(op: tf.Operation, given: Given) -> List[Any]:
    if len(given) != 2 or op.get_attr("axis") != 0 or not isinstance(given[0], RowNumbers):
        raise NotByRow(_NOT_KNOWN)
    entries = Rows(given[0].base, given[0].each)
    if given[0].base != BATCH or given[1] != entries or any(rank_of(tensor) != 1 for tensor in op.inputs):
        raise NotByRow(_NOT_KNOWN)
    return [IndexColumns(entries)]


@_indices("Transpose")
def _as_indices(op: tf.Operation, given: Given) -> List[Any]:
    if not isinstance(given[0], IndexColumns) or static_integers(op.inputs[1]) != [1, 0]:
        raise NotByRow(_NOT_KNOWN)
    return [Indices(given[0].entries)]


@row_rules.rule("Where")
def _where(op: tf.Operation, given: Given) -> List[Any]:
    if given[0] != BATCH_ROWS or rank_of(op.inputs[0]) < 1:
        raise NotByRow("it does not look for entries of the batch's rows")
    return [Indices(Rows(("where", op.name)))]


@_indices("GatherNd")
def _picked(op: tf.Operation, given: Given) -> List[Any]:
    if given[0] != BATCH_ROWS or not isinstance(given[1], Indices):
        raise NotByRow(_NOT_KNOWN)
    return [given[1].entries]


@_indices("SparseToDense")
def _to_dense(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 3)
    if not isinstance(given[0], Indices) or given[2] != given[0].entries or not is_batch_shape(given[1]):
        raise NotByRow("its entries and its shape are not those of one sparse feature")
    return [BATCH_ROWS]


@_indices("SparseReshape")
def _reshaped(op: tf.Operation, given: Given) -> List[Any]:
    wanted = sizes_of(op.inputs[2], given[2])
    if not isinstance(given[0], Indices) or not is_batch_shape(given[1]) or not wanted or wanted[0] != ONE_A_ROW:
        raise NotByRow("its shapes do not both begin with the number of rows")
    return [given[0], Sizes((ONE_A_ROW, *(Size(None, None) for _ in wanted[1:])))]


@_indices("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def _crossed(op: tf.Operation, given: Given) -> List[Any]:
    count = op.get_attr("N")
    first_dense = 3 * count
    for i in range(count):
        indices, values, shape = given[i], given[count + i], given[2 * count + i]
        if not isinstance(indices, Indices) or values != indices.entries or not is_batch_shape(shape):
            raise NotByRow("it crosses them with something else")
    dense = [name for name in op.get_attr("dense_types")]
    if any(kind != BATCH_ROWS for kind in given[first_dense : first_dense + len(dense)]):
        raise NotByRow("it crosses them with something else")
    if any(kind is not None for kind in given[first_dense + len(dense) :]):
        raise NotByRow(_NOT_KNOWN)
    entries = Rows(("crossed", op.name))
    return [Indices(entries), entries, Sizes((ONE_A_ROW, Size(None, None)))]


def is_batch_shape(kind: Optional[Any]) -> bool:
    """Whether a dense shape begins with the number of the batch's rows, and has it nowhere else."""
    if not isinstance(kind, Sizes) or not kind.elements or kind.elements[0] != ONE_A_ROW:
        return False
    return all(size.base is None for size in kind.elements[1:])


assert row_layouts  # Its rules are registered by the import.
