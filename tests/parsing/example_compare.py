"""One parse op, run by TensorFlow's parser and by ours, and what came out of it compared: every bit, or the whole error."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

DTYPES = {"int64": tf.int64, "float": tf.float32, "string": tf.string}
SPLITS = {"int32": tf.int32, "int64": tf.int64}


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a spec. kind: "dense", "sparse" or "ragged"."""

    name: str
    kind: str
    dtype: str
    shape: Tuple[Optional[int], ...] = ()  # Of dense ones; a leading None makes them variable.
    default: Optional[Tuple[Any, ...]] = None  # Flat; the padding, of one value, of variable ones.
    splits: str = "int64"


Outcome = Tuple[str, Any]  # ("ok", [(dtype, shape, bytes or list)]), ("error", (code, message)), ("died", signal).


def parse_example_v2(features: Sequence[Feature], serialized: Any, names: Sequence[bytes] = ()) -> List[tf.Tensor]:
    """tf.raw_ops.ParseExampleV2 with this spec; all outputs in a row."""
    sparse, dense, ragged = ([f for f in features if f.kind == kind] for kind in ("sparse", "dense", "ragged"))
    outputs = tf.raw_ops.ParseExampleV2(
        serialized=tf.constant(serialized, tf.string),
        names=tf.constant(list(names), tf.string),
        sparse_keys=tf.constant([f.name for f in sparse], tf.string),
        dense_keys=tf.constant([f.name for f in dense], tf.string),
        ragged_keys=tf.constant([f.name for f in ragged], tf.string),
        dense_defaults=defaults(dense),
        num_sparse=len(sparse),
        sparse_types=[DTYPES[f.dtype] for f in sparse],
        ragged_value_types=[DTYPES[f.dtype] for f in ragged],
        ragged_split_types=[SPLITS[f.splits] for f in ragged],
        dense_shapes=[f.shape for f in dense],
    )
    return [tensor for group in outputs for tensor in group]


def parse_single_example(features: Sequence[Feature], serialized: bytes) -> List[tf.Tensor]:
    """tf.raw_ops.ParseSingleExample, which has no ragged features."""
    sparse, dense = ([f for f in features if f.kind == kind] for kind in ("sparse", "dense"))
    outputs = tf.raw_ops.ParseSingleExample(
        serialized=tf.constant(serialized, tf.string),
        dense_defaults=defaults(dense),
        num_sparse=len(sparse),
        sparse_keys=[f.name for f in sparse],
        dense_keys=[f.name for f in dense],
        sparse_types=[DTYPES[f.dtype] for f in sparse],
        dense_shapes=[f.shape for f in dense],
    )
    return [tensor for group in outputs for tensor in group]


def parse_example_v1(features: Sequence[Feature], serialized: Any, names: Sequence[bytes] = ()) -> List[tf.Tensor]:
    """tf.raw_ops.ParseExample, whose keys are lists of scalars."""
    sparse, dense = ([f for f in features if f.kind == kind] for kind in ("sparse", "dense"))
    outputs = tf.raw_ops.ParseExample(
        serialized=tf.constant(serialized, tf.string),
        names=tf.constant(list(names), tf.string),
        sparse_keys=[tf.constant(f.name) for f in sparse],
        dense_keys=[tf.constant(f.name) for f in dense],
        dense_defaults=defaults(dense),
        sparse_types=[DTYPES[f.dtype] for f in sparse],
        dense_shapes=[f.shape for f in dense],
    )
    return [tensor for group in outputs for tensor in group]


def parse_sequence_example_v2(
    context: Sequence[Feature], lists: Sequence[Feature], serialized: Any, names: Sequence[bytes] = ()
) -> List[tf.Tensor]:
    """tf.raw_ops.ParseSequenceExampleV2, behind tf.io.parse_sequence_example and parse_single_sequence_example.

    A dense list's shape is a step's; default () says that it may be missing.
    """
    sparse, dense, ragged = ([f for f in context if f.kind == kind] for kind in ("sparse", "dense", "ragged"))
    list_sparse, list_dense, list_ragged = ([f for f in lists if f.kind == k] for k in ("sparse", "dense", "ragged"))
    outputs = tf.raw_ops.ParseSequenceExampleV2(
        serialized=tf.constant(serialized, tf.string),
        debug_name=tf.constant(list(names), tf.string),
        context_sparse_keys=tf.constant([f.name for f in sparse], tf.string),
        context_dense_keys=tf.constant([f.name for f in dense], tf.string),
        context_ragged_keys=tf.constant([f.name for f in ragged], tf.string),
        feature_list_sparse_keys=tf.constant([f.name for f in list_sparse], tf.string),
        feature_list_dense_keys=tf.constant([f.name for f in list_dense], tf.string),
        feature_list_ragged_keys=tf.constant([f.name for f in list_ragged], tf.string),
        feature_list_dense_missing_assumed_empty=tf.constant([f.default is not None for f in list_dense], tf.bool),
        context_dense_defaults=defaults(dense),
        Ncontext_sparse=len(sparse),
        Nfeature_list_sparse=len(list_sparse),
        Nfeature_list_dense=len(list_dense),
        context_sparse_types=[DTYPES[f.dtype] for f in sparse],
        context_ragged_value_types=[DTYPES[f.dtype] for f in ragged],
        context_ragged_split_types=[SPLITS[f.splits] for f in ragged],
        feature_list_dense_types=[DTYPES[f.dtype] for f in list_dense],
        feature_list_sparse_types=[DTYPES[f.dtype] for f in list_sparse],
        feature_list_ragged_value_types=[DTYPES[f.dtype] for f in list_ragged],
        feature_list_ragged_split_types=[SPLITS[f.splits] for f in list_ragged],
        context_dense_shapes=[f.shape for f in dense],
        feature_list_dense_shapes=[f.shape for f in list_dense],
    )
    if isinstance(serialized, bytes):  # Splits of no batch: scalars that TensorFlow never writes.
        outputs = outputs._replace(
            context_ragged_row_splits=[tf.zeros_like(t) for t in outputs.context_ragged_row_splits],
            feature_list_ragged_outer_splits=[tf.zeros_like(t) for t in outputs.feature_list_ragged_outer_splits],
        )
    return [tensor for group in outputs for tensor in group]


def parse_sequence_example_v1(
    context: Sequence[Feature], lists: Sequence[Feature], serialized: Any, names: Sequence[bytes] = ()
) -> List[tf.Tensor]:
    """tf.raw_ops.ParseSequenceExample, whose keys are attributes; no ragged features."""
    sparse, dense = ([f for f in context if f.kind == kind] for kind in ("sparse", "dense"))
    list_sparse, list_dense = ([f for f in lists if f.kind == kind] for kind in ("sparse", "dense"))
    outputs = tf.raw_ops.ParseSequenceExample(
        serialized=tf.constant(serialized, tf.string),
        debug_name=tf.constant(list(names), tf.string),
        context_dense_defaults=defaults(dense),
        feature_list_dense_missing_assumed_empty=[f.name for f in list_dense if f.default is not None],
        context_sparse_keys=[f.name for f in sparse],
        context_dense_keys=[f.name for f in dense],
        feature_list_sparse_keys=[f.name for f in list_sparse],
        feature_list_dense_keys=[f.name for f in list_dense],
        Ncontext_sparse=len(sparse),
        Ncontext_dense=len(dense),
        Nfeature_list_sparse=len(list_sparse),
        Nfeature_list_dense=len(list_dense),
        context_sparse_types=[DTYPES[f.dtype] for f in sparse],
        feature_list_dense_types=[DTYPES[f.dtype] for f in list_dense],
        context_dense_shapes=[f.shape for f in dense],
        feature_list_sparse_types=[DTYPES[f.dtype] for f in list_sparse],
        feature_list_dense_shapes=[f.shape for f in list_dense],
    )
    return [tensor for group in outputs for tensor in group]


def defaults(dense: Sequence[Feature]) -> List[tf.Tensor]:
    # Through numpy: TensorFlow takes Python's 0.0 and -0.0 for one constant.
    made = []
    for f in dense:
        dtype = DTYPES[f.dtype].as_numpy_dtype
        shape = () if f.shape and f.shape[0] is None else f.shape
        made.append(
            tf.constant(np.array([], dtype) if f.default is None else np.reshape(np.array(f.default, dtype), shape))
        )
    return made


def outcome(parse: Callable[[], Sequence[tf.Tensor]]) -> Outcome:
    """What `parse` gives, or how it fails, in a form that can be compared and pickled."""
    try:
        outputs = parse()
    except tf.errors.OpError as error:
        return "error", (error.error_code, error.message)
    except UnicodeDecodeError as error:  # TensorFlow's message holds the record; Python cannot make a string of that.
        return "error", (tf.errors.INVALID_ARGUMENT, error.object.decode(errors="replace"))
    return "ok", [frozen(tensor) for tensor in outputs]


def frozen(tensor: tf.Tensor) -> Tuple[str, Tuple[int, ...], Any]:
    array = tensor.numpy()
    if tensor.dtype == tf.string:
        return "string", tuple(tensor.shape), np.ravel(np.asarray(array, object)).tolist()
    return tensor.dtype.name, array.shape, array.tobytes()  # Bytes: NaNs and zeros of both signs count too.


# Where TensorFlow's text names no record (or prints it, all of it), ours does: these words are in both.
NAMELESS = ("Could not parse example input", "Unsupported datatype.")


def same_error(theirs: Tuple[int, str], ours: Tuple[int, str]) -> bool:
    if theirs[0] != ours[0]:
        return False
    return theirs[1] == ours[1] or any(words in theirs[1] and words in ours[1] for words in NAMELESS)


def check_same(stock: Any, op: Callable[..., Any], *args: Any, any_text: bool = False) -> Outcome:
    """Our outcome of `op`, a function of this module, which must be that in the process `stock`; see difference()."""
    ours = outcome(lambda: op(*args))
    found = difference(stock.outcome(op.__name__, *args), ours, any_text)
    assert not found, found
    return ours


def difference(theirs: Outcome, ours: Outcome, any_text: bool = False) -> str:
    """What differs, in a line; empty if nothing. Where TensorFlow dies, ours must say InvalidArgument.

    any_text: an error of another text is as good. Of several features in error, parse_sequence_example names the first
    in the order of a hash table, which is another one at each call.
    """
    if theirs[0] == "died":
        refused = ours[0] == "error" and ours[1][0] == tf.errors.INVALID_ARGUMENT
        return "" if refused else f"TensorFlow died, ours: {ours}"
    if theirs[0] != ours[0]:
        return f"theirs: {theirs}\nours:   {ours}"
    if theirs[0] == "error" and any_text and theirs[1][0] == ours[1][0]:
        return ""
    if theirs[0] == "error":
        return "" if same_error(theirs[1], ours[1]) else f"theirs: {theirs[1]}\nours:   {ours[1]}"
    if len(theirs[1]) != len(ours[1]):
        return f"{len(theirs[1])} outputs against {len(ours[1])}"
    for i, (a, b) in enumerate(zip(theirs[1], ours[1])):
        if a != b:
            return f"output {i}\ntheirs: {a}\nours:   {b}"
    return ""
