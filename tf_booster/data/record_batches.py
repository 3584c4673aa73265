"""The dataset ops from files to batches; that of Examples as a tf.data.Dataset, too, by the keys that are in the records."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.data import record_stages


@dataclasses.dataclass(frozen=True)
class CsvRecords:
    """That files hold records of comma-separated values, as CsvDataset reads them: newlines may stand in fields in quotes."""

    delimiter: str = ","
    quotes: bool = True


@dataclasses.dataclass(frozen=True)
class Reading:
    """How records come from files. Defaults read one file after another."""

    compression: Any = ""
    buffer_size: Any = 0  # Bytes that are read at once; 0: chosen by the op.
    cycle_length: Any = 1
    block_length: Any = 1
    header_lines: int = 0  # At the start of each file of lines, left out.
    csv: Optional[CsvRecords] = None  # None: lines, or TFRecords.
    verify_crc: bool = True
    errors_count: bool = False  # Whether an error counts as a record of its block.
    stages: Tuple[record_stages.Stage, ...] = ()


@dataclasses.dataclass(frozen=True)
class Batching:
    """How batches are made of records."""

    batch_size: Any
    drop_remainder: Any = False
    num_parallel_calls: Any = tf.data.AUTOTUNE
    deterministic: bool = True
    single_examples: bool = False  # Whether odd and broken records are read as by parse_single_example.
    errors_count: bool = False  # Whether an error counts as a record of its batch.
    shards: Tuple[int, int] = (1, 0)  # Of the batches, those whose number modulo the first is the second.


class RecordBatches(tf.data.Dataset):
    """Batches of parsed Examples.

    Elements are dictionaries by key: dense features are Tensors [batch, …], sparse ones SparseTensors [batch, longest], ragged
    ones RaggedTensors [batch, None].
    """

    def __init__(self, files: tf.data.Dataset, params: Any, reading: Reading, batching: Batching) -> None:
        """`files`: a dataset of names; `params`: see _compat.parse_example_params."""
        self._files = files
        static_batch = (
            tf.get_static_value(batching.batch_size) if tf.get_static_value(batching.drop_remainder) else None
        )
        self._element_spec = _element_spec(params, static_batch)
        super().__init__(record_batches_op(_compat.variant_of_dataset(files), params, reading, batching))

    def _inputs(self) -> List[tf.data.Dataset]:
        return [self._files]

    @property
    def element_spec(self) -> Dict[str, Any]:
        return self._element_spec


def record_batches_op(files: tf.Tensor, params: Any, reading: Reading, batching: Batching) -> tf.Tensor:
    """The dataset as a variant. `files`: a dataset of names as a variant. Of `params` the keys, types and shapes are read."""
    flat = _flat_specs(_element_spec(params, None))
    predicates = [stage.predicate for stage in reading.stages if stage.predicate is not None]
    return _native.ops().tf_booster_tf_record_example_dataset(
        files,
        **_pipeline(reading, batching),
        batch_shards=_int64_vector(list(batching.shards)),
        num_parallel_calls=_int64(batching.num_parallel_calls),
        dense_defaults=params.dense_defaults_vec,
        filter_arguments=[tensor for predicate in predicates for tensor in predicate.captured],
        filters=[predicate.definition.signature.name for predicate in predicates],
        filter_keys=[key for predicate in predicates for key in predicate.keys],
        verify_crc=reading.verify_crc,
        batch_errors_count=batching.errors_count,
        deterministic=batching.deterministic,
        single_examples=batching.single_examples,
        sparse_keys=params.sparse_keys,
        sparse_types=params.sparse_types,
        dense_keys=params.dense_keys,
        dense_shapes=params.dense_shapes_as_proto,
        ragged_keys=params.ragged_keys,
        ragged_value_types=params.ragged_value_types,
        ragged_split_types=params.ragged_split_types,
        output_types=[dtype for dtype, _ in flat],
        output_shapes=[shape for _, shape in flat],
    )


def line_batches_op(files: tf.Tensor, reading: Reading, batching: Batching, shape: tf.TensorShape) -> tf.Tensor:
    """Batches of lines, strings of static shape `shape`, as a variant. Of `batching` the size and what becomes of the rest are read."""
    return _native.ops().tf_booster_text_line_batch_dataset(
        files,
        **_pipeline(reading, batching),
        header_lines=_int64(reading.header_lines),
        csv_delimiter=b"" if reading.csv is None else reading.csv.delimiter.encode("latin-1"),
        csv_quotes=reading.csv is None or reading.csv.quotes,
        output_types=[tf.string],
        output_shapes=[shape],
    )


def serialized_batches_op(files: tf.Tensor, reading: Reading, batching: Batching, shape: tf.TensorShape) -> tf.Tensor:
    """Batches of TFRecords that are not parsed, as line_batches_op makes them of lines."""
    return _native.ops().tf_booster_tf_record_batch_dataset(
        files, **_pipeline(reading, batching), output_types=[tf.string], output_shapes=[shape]
    )


def _pipeline(reading: Reading, batching: Batching) -> Dict[str, Any]:
    """What all these ops have."""
    return {
        "compression": reading.compression,
        "block_bytes": _int64(reading.buffer_size),
        "cycle_length": _int64(reading.cycle_length),
        "block_length": _int64(reading.block_length),
        "stage_arguments": _int64_vector(record_stages.flat_arguments(reading.stages)),
        "batch_size": _int64(batching.batch_size),
        "drop_remainder": batching.drop_remainder,
        "stages": [stage.name for stage in reading.stages],
        "errors_count": reading.errors_count,
    }


def _element_spec(params: Any, batch: Any) -> Dict[str, Any]:
    specs: Dict[str, Any] = {}
    for key, dtype in zip(params.sparse_keys, params.sparse_types):
        specs[key] = tf.SparseTensorSpec([None, None], dtype)  # As tf.io.parse_example: the shape is a tensor.
    for key, dtype, shape in zip(params.dense_keys, params.dense_types, params.dense_shapes):
        specs[key] = tf.TensorSpec(tf.TensorShape([batch]).concatenate(shape), dtype)
    for key, dtype, splits in zip(params.ragged_keys, params.ragged_value_types, params.ragged_split_types):
        specs[key] = tf.RaggedTensorSpec([batch, None], dtype, ragged_rank=1, row_splits_dtype=splits)
    return specs


def _flat_specs(specs: Dict[str, Any]) -> List[Tuple[tf.DType, tf.TensorShape]]:
    """Type and shape of each component, as tf.data lays an element out: keys sorted, what is not dense as a variant."""
    return [
        (spec.dtype, spec.shape) if isinstance(spec, tf.TensorSpec) else (tf.variant, tf.TensorShape(None))
        for _, spec in sorted(specs.items())
    ]


def _int64(value: Any) -> tf.Tensor:
    return tf.cast(value, tf.int64) if tf.is_tensor(value) else tf.constant(value, tf.int64)


def _int64_vector(values: List[Any]) -> tf.Tensor:
    if any(tf.is_tensor(value) for value in values):
        return tf.stack([_int64(value) for value in values])
    return tf.constant(values, tf.int64, [len(values)])
