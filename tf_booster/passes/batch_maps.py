"""Maps of single records that are maps of batches of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

import numpy as np
import tensorflow as tf

from tf_booster.passes import parsed_functions, record_tensors, row_functions, row_lists, row_parses
from tf_booster.passes.composed_functions import composed
from tf_booster.passes.dataset_functions import DatasetFunction, Refused
from tf_booster.passes.dataset_steps import MAP_AND_BATCH, MAPS, PADDED_BATCH, batched_shapes, element, static
from tf_booster.passes.record_predicates import RecordFunction, record_function
from tf_booster.passes.row_sequences import PARSE_SEQUENCE

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class BatchMap:
    """A map of batches. definition: its function. is_light: it has so little to do for a batch that it needs no threads of its own."""

    like: tf.Operation
    definition: Any
    output_shapes: Optional[List[tf.TensorShape]] = None  # None: those of `like`.
    is_light: bool = False


class _LengthsUnknown(Refused):
    """row_lists.LengthsUnknown, of a pipeline."""


def with_lengths(make: Callable[[bool], _T]) -> _T:
    """make(False) or, where what that made did not know how long lists are, make(True), which has the parse tell."""
    try:
        return make(False)
    except _LengthsUnknown:
        return make(True)


def functions_of_maps(
    batch: tf.Operation, ops: Sequence[tf.Operation], functions: Dict[str, Any], lengths: bool
) -> Dict[tf.Operation, RecordFunction]:
    """The functions of those of `ops` that are maps, before `batch`. lengths: the first one's parse has to tell how long lists are, as it does
    where `batch` does not pad lists but maps do."""
    found = {op: record_function(op, functions) for op in ops if op.type in (*MAPS, MAP_AND_BATCH)}
    pads = batch.type != PADDED_BATCH and row_lists.are_padded(function.definition for function in found.values())
    if lengths or pads:
        first = next(iter(found))
        definition = row_parses.lists_as_sparse(found[first].definition)
        found[first] = dataclasses.replace(found[first], definition=definition)
    return found


def maps_of_batches(
    batch: tf.Operation, maps: Sequence[RecordFunction], first: Sequence[Any], is_light: bool
) -> List[BatchMap]:
    """The maps of what `batch` will give, which has stood behind `maps`. first: what is known of an element of the first.

    Raises:
      Refused: a function is not known to compute each record by itself.
    """
    if len(maps) > 1 and _belong_together(maps):
        maps = [_joined(batch, maps)]
    made = []
    for function in maps:
        op = function.op
        values = first if function is maps[0] else [row_of(shape) for shape in element(op.inputs[0].op)]
        try:
            definition = row_functions.batched(function.definition, [*values, *function.outside])
        except record_tensors.NotByRow as error:
            raise left_for_single(op, error) from error
        parsed_functions.forward(definition)
        shapes = batched_shapes(op if function is not maps[-1] else batch)
        made.append(BatchMap(op, definition, shapes, is_light))
    return made


def _belong_together(maps: Sequence[RecordFunction]) -> bool:
    """Whether only together they give rows of one length, or it is known of which rank SparseTensors are."""
    definitions = [m.definition for m in maps]
    return row_lists.are_padded(definitions) or any(DatasetFunction(d).of_type(PARSE_SEQUENCE) for d in definitions)


def map_of_padded_batches(
    batch: tf.Operation, maps: Sequence[RecordFunction], first: Sequence[Any], is_light: bool
) -> Tuple[BatchMap, Dict[int, np.ndarray]]:
    """`maps` as one map of what `batch`, a padded one, will give, and what those of `first` are padded with, by place, that are Longer.

    Raises Refused, as maps_of_batches().
    """
    joined = _joined(batch, maps)
    arguments = [argument.name for argument in joined.definition.signature.input_arg]
    kinds = [
        dataclasses.replace(kind, source=name) if isinstance(kind, record_tensors.Longer) else kind
        for name, kind in zip(arguments, first)
    ]
    try:
        made, pads = row_functions.padded(joined.definition, [*kinds, *joined.outside], _paddings(batch))
    except row_lists.LengthsUnknown as error:
        raise _LengthsUnknown(str(left_for_single(joined.op, error))) from error
    except record_tensors.NotByRow as error:
        raise left_for_single(joined.op, error) from error
    parsed_functions.forward(made)
    padded = {i: pads[name] for i, name in enumerate(arguments) if name in pads}
    return BatchMap(joined.op, made, batched_shapes(batch), is_light), padded


def _joined(batch: tf.Operation, maps: Sequence[RecordFunction]) -> RecordFunction:
    """`maps` as one, the last. Raises Refused where that would take tensors from outside in another place."""
    if len(maps) > 1 and any(function.captured for function in maps):
        raise Refused(f"of several maps before '{batch.name}' one uses tensors from outside")
    definition = composed([m.definition for m in maps], [len(m.definition.signature.input_arg) for m in maps])
    return dataclasses.replace(maps[-1], definition=definition)


def _paddings(batch: tf.Operation) -> List[record_tensors.Padding]:
    components = (len(batch.inputs) - 3) // 2
    values = [tf.get_static_value(tensor) for tensor in batch.inputs[2:-1]]
    if any(value is None for value in values):
        raise Refused(f"the shapes or values of '{batch.name}' are not known")
    shapes = [tuple(shape.tolist()) for shape in values[:components]]
    return [record_tensors.Padding(shape, np.asarray(value)) for shape, value in zip(shapes, values[components:])]


def row_of(shape: Optional[tf.TensorShape]) -> record_tensors.Row:
    """What is known of a tensor of that shape in a record; None: a variant."""
    return record_tensors.Row(None if shape is None else static(shape))


def left_for_single(op: tf.Operation, error: Exception) -> Refused:
    """Why the map `op` stays one of single records."""
    return Refused(f"the function of '{op.name}' is left for single records: {error}")
