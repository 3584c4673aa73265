"""The pass that splits the product of a join of users' and candidates' columns: the users' part is computed once for each distinct row.

A model that joins all its features before the first layer multiplies the users' columns for every candidate. The product of a join is the sum of
the products of its parts, so those columns times their rows of the kernel are computed for the few, and expanded where they are as wide as the layer.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.expanded_rows import all_rows, drop_what_nothing_reads, expanded
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.layers import adds_bias
from tf_booster.passes.matching import integer_value, skip_identity
from tf_booster.passes.row_rules import items_of

# Columns of users: what is saved in a row is a multiply-add for each of them, what is spent are three passes over the layer's width.
FEWEST_COLUMNS = 64
FEWEST_UNITS = 8
_SCOPE = "tf_booster/repeated/"
_JOINS = ("ConcatV2", "Identity", "Pack", "Reshape")


class _Split(NamedTuple):
    """product: the MatMul. few, others: parts of the join and their columns of it. bias: the op behind that adds one number a column."""

    product: tf.Operation
    rows: tf.Tensor
    few: List[Tuple[tf.Tensor, range]]
    others: List[Tuple[tf.Tensor, range]]
    bias: Optional[tf.Operation]


class SplitMatMul(Pass):
    """Makes the product of a join of expanded and other columns a sum of two products, that of the expanded ones of few rows."""

    name = "split_matmul"
    seeks = "product of a join of columns, some of which are expanded to all rows"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is expanded, and multiplied."""
        return bool(view.ops("TfBoosterRepeatedRows")) and bool(view.ops("MatMul"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves products inside of control flow or marked for XLA, and those of few columns."""
        result = PassResult(self.name)
        for op in view.ops("MatMul"):
            if not op.outputs[0].consumers() or not view.is_plain(op):
                continue
            split = _split(view, op)
            if isinstance(split, str):
                result.skipped.append((op.name, split))
            elif split is not None:
                _replace(view, split)
                few, others = (sum(len(columns) for _, columns in part) for part in (split.few, split.others))
                result.changes.append(f"'{op.name}': {few} of {few + others} columns for the distinct rows alone")
        if result.changes:
            drop_what_nothing_reads(view)
            result.modified = result.other_bits = True
        return result

    def ensures(self, view: GraphView) -> None:
        """What is left of a split product may be a product of few columns; nothing must or must not be there after."""


def _split(view: GraphView, op: tf.Operation) -> Union[_Split, str, None]:
    """How to split the MatMul `op`; why not, or None where there is nothing to split."""
    if op.outputs[0].dtype != tf.float32 or op.get_attr("transpose_a"):
        return None
    few: List[Tuple[tf.Tensor, range]] = []
    others: List[Tuple[tf.Tensor, range]] = []
    rows: Optional[tf.Tensor] = None
    begin = 0
    for part in _parts(op.inputs[0]):
        value = expanded(part)
        width = items_of(part)
        if width is None:
            return None
        columns = range(begin, begin + width)
        begin += width
        if value is None or (rows is not None and value.rows is not rows):
            others.append((part, columns))
        else:
            rows = value.rows
            few.append((value.few, columns))
    if rows is None or not others:
        return None
    saved = sum(len(columns) for _, columns in few)
    units = op.outputs[0].shape[1] or 0
    if saved < FEWEST_COLUMNS or units < FEWEST_UNITS:
        return f"{saved} columns of {units} units are too few to be worth a product of their own"
    return _Split(op, rows, few, others, _bias_behind(view, op))


def _parts(tensor: tf.Tensor) -> List[tf.Tensor]:
    """What `tensor` [batch, columns] is joined of, row by row: a part of rank 3 has its columns in the order of its elements."""
    tensor = skip_identity(tensor)
    op, rank = tensor.op, tensor.shape.rank
    inputs: Sequence[tf.Tensor] = ()
    if expanded(tensor) is None:
        if op.type == "ConcatV2" and integer_value(op.inputs[-1]) in ((1, -1) if rank == 2 else (1,)):
            inputs = list(op.inputs)[:-1]
        elif op.type == "Pack" and op.get_attr("axis") == 1 and rank == 3:
            inputs = op.inputs
        elif op.type == "Reshape" and rank == 2 and op.inputs[0].shape.rank == 3:
            own = items_of(tensor)
            inputs = op.inputs[:1] if own is not None and own == items_of(op.inputs[0]) else ()
    parts = [part for one in inputs for part in _parts(one)]
    return parts if any(expanded(part) is not None for part in parts) else [tensor]


def _bias_behind(view: GraphView, product: tf.Operation) -> Optional[tf.Operation]:
    """The BiasAdd that alone reads `product`: adding it to the few rows costs nothing."""
    consumers = product.outputs[0].consumers()
    if len(consumers) != 1 or consumers[0].type != "BiasAdd" or not adds_bias(consumers[0], product):
        return None
    return consumers[0] if view.is_plain(consumers[0]) and consumers[0].outputs[0].consumers() else None


def _replace(view: GraphView, split: _Split) -> None:
    op = split.product
    old = [op] if split.bias is None else [op, split.bias]
    waits = [other for each in old for other in each.control_inputs if other not in old]
    with view.inserting(op.device, list(dict.fromkeys(waits))):
        few = _product(op, split.few, "few")
        if split.bias is not None:
            few = tf.nn.bias_add(few, split.bias.inputs[1], name=f"{_SCOPE}few_bias")
        (wide,) = all_rows(view, [few], split.rows, f"{_SCOPE}few_product")
        new = tf.raw_ops.AddV2(x=_product(op, split.others, "others"), y=wide, name=f"{_SCOPE}sum")
        new.set_shape(op.outputs[0].shape)
    view.redirect_all([(old[-1].outputs[0], new)])
    view.redirect_control(old, new.op)
    view.note_originals(new.op, old)
    view.supersede([*old, *_unread(op)])


def _product(op: tf.Operation, parts: Sequence[Tuple[tf.Tensor, range]], name: str) -> tf.Tensor:
    """Those columns of the join times their rows of the kernel."""
    tensors = [_flat(tensor, len(columns)) for tensor, columns in parts]
    joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1, name=f"{_SCOPE}{name}_columns")
    kernel = _kernel(op, [columns for _, columns in parts], name)
    return tf.linalg.matmul(joined, kernel, transpose_b=op.get_attr("transpose_b"), name=f"{_SCOPE}{name}")


def _flat(tensor: tf.Tensor, width: int) -> tf.Tensor:
    return tensor if tensor.shape.rank == 2 else tf.reshape(tensor, [-1, width], name=f"{_SCOPE}flat")


def _kernel(op: tf.Operation, columns: Sequence[range], name: str) -> tf.Tensor:
    """The rows of the kernel for these columns of the join: a slice where they are beside each other, which copies nothing."""
    kernel, axis = op.inputs[1], 1 if op.get_attr("transpose_b") else 0
    numbers = [number for part in columns for number in part]
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        begin, size = [0, 0], [-1, -1]
        begin[axis], size[axis] = numbers[0], len(numbers)
        return tf.slice(kernel, begin, size, name=f"{_SCOPE}{name}_kernel")
    return tf.gather(kernel, numbers, axis=axis, name=f"{_SCOPE}{name}_kernel")


def _unread(product: tf.Operation) -> List[tf.Operation]:
    """What joins the columns before `product`, and is read by nothing else."""
    found: Dict[tf.Operation, None] = {product: None}
    work = [product]
    while work:
        for tensor in work.pop().inputs:
            op = tensor.op
            if op.type in _JOINS and op not in found and all(reader in found for reader in op.outputs[0].consumers()):
                found[op] = None
                work.append(op)
    return list(found)[1:]
