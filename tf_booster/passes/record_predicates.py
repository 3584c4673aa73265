"""The predicate of a filter behind maps that parse, as a function of a record's features."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.data.record_stages import Predicate
from tf_booster.passes import record_tensors, row_functions
from tf_booster.passes.composed_functions import composed, drop_unused_arguments
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs
from tf_booster.passes.dataset_steps import captured, static
from tf_booster.passes.float_arithmetic import changed_by_grappler
from tf_booster.passes.inlined_functions import function_of
from tf_booster.passes.line_pieces import SPLITS
from tf_booster.passes.row_lists import PADS
from tf_booster.passes.row_parses import PARSES
from tf_booster.passes.row_sequences import PARSE_SEQUENCE

# They fail where a tensor is smaller than they want, as what a text is split into may be, or the numbers that its bytes are.
_OF_KNOWN_SIZES = ("StridedSlice", "Reshape", "EnsureShape", "Split", "SplitV", "Unpack")
_OF_ANY_SIZE = (*SPLITS, "DecodeRaw")
# Said to have a state, but ask a table that is outside, or give a number for each record in turn, whoever asks.
_ANSWERS = ("LookupTableFindV2", "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal")


@dataclasses.dataclass(frozen=True)
class RecordFunction:
    """A function of single records. captured: what it takes from outside, behind the record's."""

    op: tf.Operation  # The dataset.
    definition: Any
    captured: Sequence[tf.Tensor]
    outside: Sequence[record_tensors.Outside]  # What is known of it.


def record_function(op: tf.Operation, functions: Dict[str, Any]) -> RecordFunction:
    """The function of a map or filter of single records."""
    tensors = captured(op)
    outside = [
        record_tensors.Outside(static(tensor.shape), is_vocabulary=tensor.op.type == "HashTableV2")
        for tensor in tensors
    ]
    return RecordFunction(op, function_of(op, functions).definition, tensors, outside)


def predicate_of(features: Dict[str, Any], maps: Sequence[RecordFunction], keeps: RecordFunction) -> Predicate:
    """What says of a record whether it stays.

    Args:
      features: by key, sorted; what the first of `maps` takes.
      maps: before the filter, each of what the one before gives.
      keeps: the filter.

    Raises:
      Refused: it would say something else, or errors would get lost, where the maps are run for less than all records.
    """
    functions = [*maps, keeps]
    made = composed_predicate(maps, keeps)
    kept = drop_unused_arguments(made)
    keys = [key for i, key in enumerate(features) if i in kept]
    from_outside = [tensor for function in functions for tensor in function.captured]
    outside = [kind for function in functions for kind in function.outside]
    places = [i - len(features) for i in kept if i >= len(features)]
    tensors = [from_outside[i] for i in places]
    kinds: List[Any] = [*(features[key] for key in keys), *(outside[i] for i in places)]
    try:
        return Predicate(row_functions.batched(made, kinds), keys, tensors, by_row=True)
    except record_tensors.NotByRow:
        # It is one function with the maps now, and is not told shapes.
        why = changed_by_grappler(made)
        if why is not None:
            raise Refused(f"the filter '{keeps.op.name}' is not asked by itself: {why}") from None
        return Predicate(made, keys, tensors, by_row=False)


def composed_predicate(maps: Sequence[RecordFunction], keeps: RecordFunction) -> Any:
    """A FunctionDef of what the first of `maps` takes, that says whether the record stays. What any of them takes from outside follows.

    Raises:
      Refused: it would have effects, or errors of maps would get lost.
    """
    functions = [*maps, keeps]
    definitions = [function.definition for function in functions]
    made = composed(definitions, [len(f.definition.signature.input_arg) - len(f.captured) for f in functions])
    for node in made.node_def:
        if _compat.is_stateful(node.op) and node.op not in _ANSWERS:
            raise Refused(f"the {node.op} of the filter '{keeps.op.name}' has a state or effects")
    _check_failures(maps, made, keeps.op.name)
    return made


def _check_failures(maps: Sequence[RecordFunction], predicate: Any, name: str) -> None:
    """Raises Refused where an error of `maps` would be missed, because a record that `predicate` drops goes through none."""
    run = {node.name for node in predicate.node_def}
    for i, function in enumerate(maps):
        for node in function.definition.node_def:
            if _may_fail(node, function.definition) and f"f{i}/{node.name}" not in run:
                raise Refused(
                    f"the {node.op} of '{function.op.name}' may fail for a record that the filter '{name}' drops; filter first"
                )


def _may_fail(node: Any, definition: Any) -> bool:
    if node.op in row_functions.DIVISIONS_THAT_FAIL:
        divisor = DatasetFunction(definition).constant(data_inputs(node)[1])
        return divisor is None or not np.all(divisor)
    if node.op in _OF_KNOWN_SIZES:
        return any(other.op in _OF_ANY_SIZE for other in definition.node_def)
    if node.op in PADS:
        return not _is_clipped(DatasetFunction(definition), data_inputs(node)[1])
    if node.op == "DecodeRaw":
        return tf.as_dtype(node.attr["out_type"].type).size > 1
    return node.op in ("StringToNumber", row_functions.DECODE_CSV, *PARSES, PARSE_SEQUENCE)


def _is_clipped(function: DatasetFunction, paddings: str) -> bool:
    """Whether it is a maximum with 0 that says how much a list is padded."""
    node = function.producer(paddings)
    while node is not None and node.op == "Pack":
        node = next((n for n in map(function.producer, data_inputs(node)) if n is not None and n.op != "Const"), None)
    if node is None or node.op != "Maximum":
        return False
    constants = [function.constant(name) for name in data_inputs(node)]
    return any(constant is not None and not np.any(constant) for constant in constants)
