"""Dimensions of tensors as products: how large each is, in terms of those that nothing is known of.

TensorFlow's shapes say None of the batch and of whatever is computed from it. Here `[batch, 10, 8]` reshaped to
`[batch * 10, 8]` has 10 times the first dimension of what it was reshaped from, so that both are known to hold as many elements.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.static_integers import static_integers

Size = Tuple[int, Tuple[int, ...]]  # A factor, and the numbers of unknown dimensions that it is multiplied by, sorted.
Sizes = List[Size]
_LONGEST = 32  # Elements of a vector that is looked at as a shape.


def product(sizes: Iterable[Size]) -> Size:
    """How many elements a tensor of these dimensions has."""
    factor, unknown = 1, []
    for size, symbols in sizes:
        factor *= size
        unknown += symbols
    return factor, tuple(sorted(unknown)) if factor else ()


def quotient(whole: Size, part: Size) -> Optional[Size]:
    """What `part` has to be multiplied by to give `whole`; None where that isn't known."""
    if not part[0] or whole[0] % part[0]:
        return None
    left = list(whole[1])
    for symbol in part[1]:
        if symbol not in left:
            return None
        left.remove(symbol)
    return whole[0] // part[0], tuple(left)


class Dimensions:
    """The dimensions of what `ops`, each of them behind those it reads, give; and the elements of the shapes among that."""

    def __init__(self, ops: Iterable[tf.Operation]):
        self._unknown = 0
        self._sizes: Dict[int, Optional[Sizes]] = {}  # By a tensor's id.
        self._elements: Dict[int, Sizes] = {}
        for op in ops:
            self._look_at(op)

    def of(self, tensor: tf.Tensor) -> Optional[Sizes]:
        """The dimensions of a tensor; None where its rank isn't known."""
        if id(tensor) not in self._sizes:  # Of an op that is read before it was looked at, as in a loop.
            self._sizes[id(tensor)] = self._settled(tensor, None)
        return self._sizes[id(tensor)]

    def elements(self, tensor: tf.Tensor) -> Optional[Sizes]:
        """The elements of an integer tensor of rank 0 or 1 that says something of shapes; None for any other."""
        return self._elements.get(id(tensor))

    def integers(self, tensor: tf.Tensor) -> Optional[List[int]]:
        """The elements of an integer tensor of rank 0 or 1, such as axes, that depend on nothing unknown; None for any other."""
        elements = self.elements(tensor)
        if elements is None or any(symbols for _, symbols in elements):
            return None
        return [element for element, _ in elements]

    def _look_at(self, op: tf.Operation) -> None:
        rule = _RULES.get(op.type)
        for index, tensor in enumerate(op.outputs):
            found = rule(self, op, index) if rule is not None and not tensor.shape.is_fully_defined() else None
            self._sizes[id(tensor)] = self._settled(tensor, found)
            if tensor.dtype in (tf.int32, tf.int64) and tensor.shape.rank in (0, 1):
                self._look_at_elements(op, index, tensor)

    def _look_at_elements(self, op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
        if (tensor.shape.num_elements() or 0) > _LONGEST:
            return
        if op.type in _ELEMENTS:
            elements = _ELEMENTS[op.type](self, op, index)
        else:
            known = static_integers(tensor)
            elements = known and [(element, ()) for element in known]
        if elements is not None:
            self._elements[id(tensor)] = elements

    def _settled(self, tensor: tf.Tensor, found: Optional[Sizes]) -> Optional[Sizes]:
        """What TensorFlow knows, else what was found, else a dimension that nothing is known of."""
        shape = tensor.shape
        if shape.rank is not None and (found is None or len(found) != shape.rank):
            found = [None] * shape.rank
        if found is None:
            return None
        known = shape.as_list() if shape.rank is not None else [None] * len(found)
        sizes = [(static, ()) if static is not None else size for static, size in zip(known, found)]
        return [size if size is not None else self._new() for size in sizes]

    def _new(self) -> Size:
        self._unknown += 1
        return 1, (self._unknown,)


_Rule = Callable[[Dimensions, tf.Operation, int], Optional[Sequence[Optional[Size]]]]


def _like(index: int) -> _Rule:
    return lambda dimensions, op, _: dimensions.of(op.inputs[index])


def _broadcast(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    """A dimension is what both have there, or what one has where the other has 1."""
    shapes = [dimensions.of(tensor) for tensor in op.inputs]
    if any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes)
    found: List[Optional[Size]] = []
    for place in range(-rank, 0):
        sizes = {shape[place] for shape in shapes if len(shape) >= -place} - {(1, ())}
        found.append(sizes.pop() if len(sizes) == 1 else None)
    return found


def _mat_mul(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Size]]:
    return _product_of(dimensions, op.inputs[0], op.inputs[1], op.get_attr("transpose_a"), op.get_attr("transpose_b"))


def _batch_mat_mul(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Size]]:
    found = _product_of(dimensions, op.inputs[0], op.inputs[1], op.get_attr("adj_x"), op.get_attr("adj_y"))
    if found is None:
        return None
    left, right = (dimensions.of(tensor)[:-2] for tensor in op.inputs)
    return left + found if left == right else None


def _multi_mat_mul(dimensions: Dimensions, op: tf.Operation, index: int) -> Optional[List[Size]]:
    a, b = op.inputs[index], op.inputs[len(op.outputs) + index]
    return _product_of(dimensions, a, b, op.get_attr("transpose_a"), op.get_attr("transpose_b"))


def _product_of(dimensions: Dimensions, a: tf.Tensor, b: tf.Tensor, turn_a: bool, turn_b: bool) -> Optional[List[Size]]:
    left, right = dimensions.of(a), dimensions.of(b)
    if left is None or right is None:
        return None
    return [left[-1 if turn_a else -2], right[-2 if turn_b else -1]]


def _multi_bias_grad(dimensions: Dimensions, op: tf.Operation, index: int) -> Optional[Sizes]:
    return dimensions.of(op.inputs[index]) if index >= op.get_attr("N") else None


def _reshape(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    wanted, before = dimensions.elements(op.inputs[1]), dimensions.of(op.inputs[0])
    if wanted is None or (-1, ()) not in wanted:
        return wanted
    rest = product(size for size in wanted if size != (-1, ()))
    left = None if before is None else quotient(product(before), rest)
    return [left if size == (-1, ()) else size for size in wanted]


def _transpose(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    order, before = dimensions.integers(op.inputs[1]), dimensions.of(op.inputs[0])
    if order is None or before is None or sorted(order) != list(range(len(before))):
        return None
    return [before[place] for place in order]


def _concat(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    axis, first = dimensions.integers(op.inputs[len(op.inputs) - 1]), dimensions.of(op.inputs[0])
    return None if axis is None or first is None else _without(first, axis[0], None)


def _pack(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    first = dimensions.of(op.inputs[0])
    return None if first is None else _with(first, op.get_attr("axis"), (len(op.inputs), ()))


def _unpack(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    whole = dimensions.of(op.inputs[0])
    if whole is None:
        return None
    axis = op.get_attr("axis") % len(whole)
    return whole[:axis] + whole[axis + 1 :]


def _split(data: int, axis: int) -> _Rule:
    def rule(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
        whole, place = dimensions.of(op.inputs[data]), dimensions.integers(op.inputs[axis])
        return None if whole is None or place is None else _without(whole, place[0], None)

    return rule


def _expand_dims(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    before, axis = dimensions.of(op.inputs[0]), dimensions.integers(op.inputs[1])
    return None if before is None or axis is None else _with(before, axis[0], (1, ()))


def _squeeze(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    before, axes = dimensions.of(op.inputs[0]), op.get_attr("squeeze_dims")
    if before is None or not axes:
        return None
    gone = {axis % len(before) for axis in axes}
    return [size for place, size in enumerate(before) if place not in gone]


def _tile(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    before, times = dimensions.of(op.inputs[0]), dimensions.elements(op.inputs[1])
    if before is None or times is None or len(before) != len(times):
        return None
    return [product(pair) for pair in zip(before, times)]


def _reduction(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    before, axes = dimensions.of(op.inputs[0]), dimensions.integers(op.inputs[1])
    if before is None or axes is None:
        return None
    gone = {axis % len(before) for axis in axes}
    if op.get_attr("keep_dims"):
        return [(1, ()) if place in gone else size for place, size in enumerate(before)]
    return [size for place, size in enumerate(before) if place not in gone]


def _gather(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    rows, ids, axis = dimensions.of(op.inputs[0]), dimensions.of(op.inputs[1]), dimensions.integers(op.inputs[2])
    if rows is None or ids is None or axis is None or op.get_attr("batch_dims"):
        return None
    place = axis[0] % len(rows)
    return rows[:place] + ids + rows[place + 1 :]


def _resource_gather(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    ids, rank = dimensions.of(op.inputs[1]), op.outputs[0].shape.rank
    return None if ids is None or rank is None else [*ids, *[None] * (rank - len(ids))]


def _one_hot(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    ids = dimensions.of(op.inputs[0])
    return None if ids is None else _with(ids, op.get_attr("axis"), None)


def _shaped(index: int) -> _Rule:
    return lambda dimensions, op, _: dimensions.elements(op.inputs[index])


def _slice(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    before, begin, size = (
        dimensions.of(op.inputs[0]),
        dimensions.integers(op.inputs[1]),
        dimensions.elements(op.inputs[2]),
    )
    if size is None or (-1, ()) not in size:
        return size
    if before is None or begin is None:
        return None
    rest = [whole if start == 0 else None for whole, start in zip(before, begin)]
    return [left if wanted == (-1, ()) else wanted for left, wanted in zip(rest, size)]


def _strided_slice(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[List[Optional[Size]]]:
    """Dimensions that are taken whole; an ellipsis is left."""
    before, strides = dimensions.of(op.inputs[0]), dimensions.integers(op.inputs[3])
    if before is None or strides is None or op.get_attr("ellipsis_mask"):
        return None
    begins, ends, new, gone = (op.get_attr(f"{mask}_mask") for mask in ("begin", "end", "new_axis", "shrink_axis"))
    found: List[Optional[Size]] = []
    left = list(before)
    for place, stride in enumerate(strides):
        bit = 1 << place
        if new & bit:
            found.append((1, ()))
            continue
        size = left.pop(0)
        if not gone & bit:
            found.append(size if begins & bit and ends & bit and stride == 1 else None)
    return found + left


def _without(sizes: Sizes, axis: int, size: Optional[Size]) -> List[Optional[Size]]:
    """`sizes` with `size` in the place of dimension `axis`."""
    axis %= len(sizes)
    return [*sizes[:axis], size, *sizes[axis + 1 :]]


def _with(sizes: Sizes, axis: int, size: Optional[Size]) -> List[Optional[Size]]:
    """`sizes` with `size` before dimension `axis`."""
    axis %= len(sizes) + 1
    return [*sizes[:axis], size, *sizes[axis:]]


# What is as large as one of what is read.
_LIKE = {
    0: (
        "AddN BiasAdd Cast CheckNumerics ClipByValue Cumsum Identity LogSoftmax OnesLike PreventGradient ReverseV2 RsqrtGrad"
        " SigmoidGrad Snapshot Softmax SqrtGrad StopGradient TanhGrad TfBoosterBatchNorm ZerosLike"
        " Abs Acos AsString Asin Atan Ceil Cos Cosh Elu Erf Erfc Exp Expm1 Floor IsFinite IsInf IsNan LeakyRelu Log Log1p LogicalNot"
        " Neg Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square Tan Tanh"
    ),
    1: "EluGrad LeakyReluGrad Relu6Grad ReluGrad Select SeluGrad SoftplusGrad SoftsignGrad TfBoosterBatchNormGrad",
}
_BROADCAST = (
    "Add AddV2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr Maximum Minimum"
    " Mul MulNoNan NotEqual Pow RealDiv SelectV2 SquaredDifference Sub Xdivy Xlogy"
)
_RULES: Dict[str, _Rule] = {
    **{op_type: _like(index) for index, types in _LIKE.items() for op_type in types.split()},
    **{op_type: _broadcast for op_type in _BROADCAST.split()},
    **{op_type: _reduction for op_type in ("All", "Any", "Max", "Mean", "Min", "Prod", "Sum")},
    "BatchMatMul": _batch_mat_mul,
    "BatchMatMulV2": _batch_mat_mul,
    "BroadcastTo": _shaped(1),
    "ConcatV2": _concat,
    "ExpandDims": _expand_dims,
    "Fill": _shaped(0),
    "GatherV2": _gather,
    "MatMul": _mat_mul,
    "OneHot": _one_hot,
    "Pack": _pack,
    "Reshape": _reshape,
    "ResourceGather": _resource_gather,
    "Slice": _slice,
    "Split": _split(1, 0),
    "SplitV": _split(0, 2),
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "TfBoosterMultiBiasGrad": _multi_bias_grad,
    "TfBoosterMultiMatMul": _multi_mat_mul,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
}


def _shape_elements(dimensions: Dimensions, op: tf.Operation, index: int) -> Optional[Sizes]:
    return dimensions.of(op.inputs[index])


def _size_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    before = dimensions.of(op.inputs[0])
    return None if before is None else [product(before)]


def _same_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    return dimensions.elements(op.inputs[0])


def _joined_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    parts = [dimensions.elements(tensor) for tensor in op.inputs]
    if op.type == "ConcatV2":
        del parts[-1]
    return None if any(part is None for part in parts) else [element for part in parts for element in part]


def _prod_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    factors = dimensions.elements(op.inputs[0])
    return None if factors is None or dimensions.integers(op.inputs[1]) not in ([0], [-1]) else [product(factors)]


def _mul_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    parts = [dimensions.elements(tensor) for tensor in op.inputs]
    return None if any(part is None or len(part) != 1 for part in parts) else [product(part[0] for part in parts)]


def _gathered_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    elements, places = dimensions.elements(op.inputs[0]), dimensions.integers(op.inputs[1])
    if elements is None or places is None or not all(0 <= place < len(elements) for place in places):
        return None
    return [elements[place] for place in places]


def _filled_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    count, element = dimensions.integers(op.inputs[0]), dimensions.elements(op.inputs[1])
    return None if count is None or element is None or len(count) > 1 else element * (count[0] if count else 1)


def _inverted_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    order = dimensions.integers(op.inputs[0])
    if order is None or sorted(order) != list(range(len(order))):
        return None
    return [(order.index(place), ()) for place in range(len(order))]


def _part_elements(dimensions: Dimensions, op: tf.Operation, index: int) -> Optional[Sizes]:
    elements = dimensions.elements(op.inputs[0])
    return None if elements is None or index >= len(elements) else [elements[index]]


def _stitched_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    """Vectors put together from elements and their places, of which the later count."""
    places, parts = op.inputs[: op.get_attr("N")], op.inputs[op.get_attr("N") :]
    found: Dict[int, Size] = {}
    for where, what in zip(places, parts):
        at, elements = dimensions.integers(where), dimensions.elements(what)
        if at is None or elements is None or len(at) != len(elements):
            return None
        found.update(zip(at, elements))
    return [found[place] for place in sorted(found)] if sorted(found) == list(range(len(found))) else None


def _sliced_elements(dimensions: Dimensions, op: tf.Operation, _: int) -> Optional[Sizes]:
    elements = dimensions.elements(op.inputs[0])
    begin, end, stride = (dimensions.integers(tensor) for tensor in op.inputs[1:])
    if elements is None or None in (begin, end, stride) or len(begin) != 1:
        return None
    if op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask"):
        return None
    if op.get_attr("shrink_axis_mask"):
        return [elements[begin[0]]] if -len(elements) <= begin[0] < len(elements) else None
    first = None if op.get_attr("begin_mask") else begin[0]
    last = None if op.get_attr("end_mask") else end[0]
    return elements[first : last : stride[0]]


def _summed_axes(dimensions: Dimensions, op: tf.Operation, index: int) -> Optional[Sizes]:
    """The axes along which the gradient of an operand that was broadcast is summed. Of one row it makes no difference which."""
    shapes = [dimensions.elements(tensor) for tensor in op.inputs]
    if any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes)
    own, other = ([(1, ())] * (rank - len(shape)) + shape for shape in (shapes[index], shapes[1 - index]))
    if any(size != beside and (1, ()) not in (size, beside) for size, beside in zip(own, other)):
        return None
    return [(place, ()) for place in range(rank) if own[place] != other[place] and own[place] == (1, ())]


_ELEMENTS: Dict[str, _Rule] = {
    "BroadcastGradientArgs": _summed_axes,
    "Cast": _same_elements,
    "ConcatV2": _joined_elements,
    "DynamicStitch": _stitched_elements,
    "ExpandDims": _same_elements,
    "Fill": _filled_elements,
    "GatherV2": _gathered_elements,
    "Identity": _same_elements,
    "InvertPermutation": _inverted_elements,
    "Mul": _mul_elements,
    "Pack": _joined_elements,
    "Prod": _prod_elements,
    "Reshape": _same_elements,
    "Shape": _shape_elements,
    "ShapeN": _shape_elements,
    "Size": _size_elements,
    "Squeeze": _same_elements,
    "StridedSlice": _sliced_elements,
    "Unpack": _part_elements,
}
