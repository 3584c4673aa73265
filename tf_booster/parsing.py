"""tf.train.Examples through tf_booster's parser: the switch for TensorFlow's own parse ops, and parse_example."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Dict, Mapping, Optional

import tensorflow as tf

from tf_booster import _compat, _native

tf.no_gradient("TfBoosterParseExample")

_stock_constructor: Optional[Callable[..., None]] = None  # ParseExampleDataset's own, while ours stands in its place.


def parse_example(
    serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: Optional[str] = None
) -> Dict[str, Any]:
    """tf.io.parse_example, always by tf_booster's parser, whether the booster is on or off.

    Code need not be changed for it: while the booster is on, tf.io.parse_example is as fast. A graph with this call holds an
    op of tf_booster's and needs `import tf_booster` where it is loaded; a graph with tf.io.parse_example does not.

    Args:
      serialized: string [n], serialized tf.train.Examples; or [], one of them.
      features: dict from keys to tf.io.FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, SparseFeature and
        RaggedFeature.
      example_names: string, of serialized's shape: names for the records in errors.
      name: of the op.

    Returns:
      dict from the keys to a Tensor, SparseTensor or RaggedTensor.

    Raises:
      ValueError: `features` is empty, or one of them is not valid.
      tf.errors.InvalidArgumentError: a record is broken, has a feature of another type or size, or lacks one without a
        default value; names record and feature.
    """
    if not features:
        raise ValueError(
            "parse_example: features is empty; wanted a dict from keys to tf.io.FixedLenFeature and the like"
        )
    params, features = _compat.parse_example_params(features)
    with tf.name_scope(name or "ParseExample"):
        serialized = tf.convert_to_tensor(serialized, tf.string, name="serialized")
        if params.ragged_keys and serialized.shape.rank is None:
            raise ValueError("parse_example: ragged features need `serialized` of a known rank; set its shape")
        outputs = parse_op(serialized, [] if example_names is None else example_names, params)
        return _compat.composite_features(features, _by_key(params, serialized.shape, outputs))


def parse_op(serialized: Any, names: Any, params: Any, single: bool = False) -> Any:
    """The outputs of the op. `params`: of _compat.parse_example_params. single: records are read as by parse_single_example."""
    return _native.ops().tf_booster_parse_example(
        serialized=serialized,
        names=names,
        sparse_keys=params.sparse_keys,
        dense_keys=params.dense_keys,
        ragged_keys=params.ragged_keys,
        dense_defaults=params.dense_defaults_vec,
        num_sparse=len(params.sparse_keys),
        sparse_types=params.sparse_types,
        ragged_value_types=params.ragged_value_types,
        ragged_split_types=params.ragged_split_types,
        dense_shapes=params.dense_shapes_as_proto,
        single=single,
    )


def _by_key(params: Any, serialized_shape: tf.TensorShape, outputs: Any) -> Dict[str, Any]:
    tensors = {
        key: tf.SparseTensor(*parts)
        for key, *parts in zip(params.sparse_keys, outputs.sparse_indices, outputs.sparse_values, outputs.sparse_shapes)
    }
    tensors.update(zip(params.dense_keys, outputs.dense_values))
    for key, values, splits in zip(params.ragged_keys, outputs.ragged_values, outputs.ragged_row_splits):
        # One record by itself has no rows to split.
        ragged = serialized_shape.rank != 0
        tensors[key] = tf.RaggedTensor.from_row_splits(values, splits, validate=False) if ragged else values
    return tensors


# --- The switch ---


@functools.cache
def _library() -> ctypes.CDLL:
    _native.ops()
    library = ctypes.CDLL(_native.shared_object())  # The one that TensorFlow has loaded.
    library.tf_booster_force_parser_simd.argtypes = [ctypes.c_char_p]
    return library


def serve_stock_ops(on: bool) -> None:
    """Whether TensorFlow's own parse ops are computed by tf_booster's parser. Holds for all kernels, whenever made."""
    _library().tf_booster_set_fast_parser(int(on))
    global _stock_constructor
    cls = _compat.parse_example_dataset_class()
    if on and _stock_constructor is None:
        _stock_constructor = cls.__init__
        cls.__init__ = _parse_by_map(_stock_constructor)
    elif not on and _stock_constructor is not None:
        cls.__init__, _stock_constructor = _stock_constructor, None


def serves_stock_ops() -> bool:
    """Whether TensorFlow's own parse ops are computed by tf_booster's parser now."""
    return bool(_library().tf_booster_fast_parser())


def force_simd_level(level: str) -> None:
    """Makes parsers use these instructions: "scalar", "sse4.1", "avx2-no-bmi2", "avx2", "avx512"; "" for the machine's best.

    For tests.

    Raises:
      ValueError: there is no such level, or the machine does not have it.
    """
    if _library().tf_booster_force_parser_simd(level.encode()):
        raise ValueError(
            f"force_simd_level: '{level}' is no level of this machine; wanted scalar, sse4.1, avx2-no-bmi2, avx2, "
            "avx512 or ''"
        )


def _parse_by_map(stock: Callable[..., None]) -> Callable[..., None]:
    """ParseExampleDataset as a map: its own op calls TensorFlow's parser with no kernel between that could be replaced."""

    @functools.wraps(stock)
    def constructor(self: Any, input_dataset: Any, features: Any, num_parallel_calls: Any, deterministic: Any) -> None:
        stock(self, input_dataset, features, num_parallel_calls, deterministic)
        params, _ = _compat.parse_example_params(features)

        def parse(serialized: tf.Tensor) -> Dict[str, Any]:
            tensors = _compat.parse_example_raw(serialized, params)
            for key, tensor in tensors.items():
                if not isinstance(tensor, tf.RaggedTensor):
                    tensor.set_shape(self.element_spec[key].shape)
            return tensors

        parsed = input_dataset.map(parse, num_parallel_calls=num_parallel_calls, deterministic=deterministic)
        if parsed.element_spec == self.element_spec:
            _compat.compute_as(self, parsed)

    return constructor
