"""tf_booster.TFRecordExampleDataset: files to batches of parsed Examples in one op."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster import _compat
from tf_booster.arguments import checked_int, is_int
from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading, RecordBatches

Files = Union[str, Sequence[str], tf.Tensor, tf.data.Dataset]
_NAME = "TFRecordExampleDataset"


class TFRecordExampleDataset(tf.data.Dataset):
    """Batches of parsed tf.train.Examples from TFRecord files.

        dataset = tf_booster.TFRecordExampleDataset(files, features, batch_size=1024, shuffle=10000)

    gives what

        tf.data.TFRecordDataset(files).shuffle(10000).batch(1024).map(lambda s: tf.io.parse_example(s, features))

    gives, with no tensor for each record: files are read ahead in large blocks, and records are parsed where they were read
    to. Works in TensorFlow 2 and, as an input function's result, in graphs of version 1. Iterators can be saved and restored:
    a restored one goes on with the next batch.
    """

    def __init__(
        self,
        files: Files,
        features: Dict[str, Any],
        batch_size: int,
        compression: Optional[str] = None,
        shuffle: Optional[int] = None,
        seed: Optional[int] = None,
        reshuffle_each_iteration: bool = True,
        num_epochs: Optional[int] = 1,
        cycle_length: int = 1,
        block_length: int = 1,
        num_parallel_calls: Optional[int] = tf.data.AUTOTUNE,
        deterministic: bool = True,
        drop_remainder: bool = False,
        verify_crc: bool = True,
        shard: Optional[Tuple[int, int]] = None,
        shard_by: str = "auto",
        buffer_size: Optional[int] = None,
    ) -> None:
        """Describes the dataset; files are opened when it is iterated.

        Args:
          files: names of files on any file system of tf.io.gfile: one, several, a string tensor, or a dataset of names.
          features: name → FixedLenFeature, VarLenFeature, RaggedFeature, SparseFeature or FixedLenSequenceFeature, as for
            tf.io.parse_example; feature columns make it by make_parse_example_spec.
          batch_size: records a batch.
          compression: None or "", "GZIP", "ZLIB".
          shuffle: the number of records among which each next one is drawn, as in Dataset.shuffle; None: no shuffle.
            The buffer holds them serialized.
          seed: of the shuffle; the same order as Dataset.shuffle(shuffle, seed) gives.
          reshuffle_each_iteration: whether each epoch has another order.
          num_epochs: how often all records come; None or -1: for ever. A batch may hold the end of one epoch and the start of the
            next, as with repeat in front of batch.
          cycle_length: files that are read in turns. 1: one after another.
          block_length: records that a file gives in its turn. The order is that of Dataset.interleave.
          num_parallel_calls: batches that are parsed at once; tf.data.AUTOTUNE: as many as pay; None: each when it is asked
            for, by the thread that asks.
          deterministic: False lets a batch overtake one that takes longer.
          drop_remainder: whether a last batch that is not full is left out.
          verify_crc: False skips the checksums of records; those of their lengths are always checked.
          shard: (number of shards, index): this dataset has one share of the records, of all the others none.
          shard_by: "files": every n-th file; "records": every n-th record, of files that every shard reads whole;
            "auto": "files", unless `files` are listed here and fewer than shards.
          buffer_size: bytes that are read at once; None: 1 MiB, less if cycle_length is above 32.

        Raises:
          TypeError, ValueError: an argument that cannot be, with what was wanted. Iterators raise what TFRecordDataset and
            tf.io.parse_example raise: NotFoundError, DataLossError for damaged files, InvalidArgumentError for records.
        """
        batch_size = _number("batch_size", batch_size, 1)
        cycle_length = _number("cycle_length", cycle_length, 1)
        block_length = _number("block_length", block_length, 1)
        shuffle = None if shuffle is None else _number("shuffle", shuffle, 1)
        seed = None if seed is None else _number("seed", seed, -(2**63))
        epochs = -1 if num_epochs is None else _number("num_epochs", num_epochs, -1)
        calls = 1 if num_parallel_calls is None else _number("num_parallel_calls", num_parallel_calls, -1)
        buffer_size = 0 if buffer_size is None else _number("buffer_size", buffer_size, 0)
        if compression not in (None, "", "GZIP", "ZLIB"):
            raise ValueError(f"{_NAME}: compression is {compression!r}; wanted None, 'GZIP' or 'ZLIB'")
        if not isinstance(features, Mapping):
            raise TypeError(
                f"{_NAME}: features is {features!r}; wanted a dictionary of features, as tf.io.parse_example takes it"
            )
        if not features:
            raise ValueError(f"{_NAME}: features is {features!r}; wanted at least one feature")
        files, stages = _sharded(*_files_dataset(files), shard, shard_by)
        if shuffle is not None:
            seeds = _compat.op_seeds(seed)
            share = _compat.copies_of_shuffles_share()
            stages.append(record_stages.shuffle(shuffle, *seeds, reshuffle_each_iteration, copies_share=share))
        if tf.is_tensor(epochs) or epochs != 1:
            stages.append(record_stages.repeat(epochs, of_shuffle=shuffle is not None))
        reading = Reading(
            compression=compression or "",
            buffer_size=buffer_size,
            cycle_length=cycle_length,
            block_length=block_length,
            verify_crc=verify_crc,
            stages=tuple(stages),
        )
        batching = Batching(
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            num_parallel_calls=calls,
            deterministic=deterministic,
        )
        self._make(files, features, reading, batching)

    def _make(self, files: tf.data.Dataset, features: Dict[str, Any], reading: Reading, batching: Batching) -> None:
        self._parts = (files, features, reading, batching)
        params, full_features = _compat.parse_example_params(features)
        self._impl: tf.data.Dataset = RecordBatches(files, params, reading, batching)
        if any(isinstance(f, (tf.io.SparseFeature, tf.io.RaggedFeature)) for f in features.values()):
            self._impl = self._impl.map(lambda parsed: _compat.composite_features(full_features, parsed))
        super().__init__(_compat.variant_of_dataset(self._impl))

    def _inputs(self) -> List[tf.data.Dataset]:
        return [self._impl]

    @property
    def element_spec(self) -> Dict[str, Any]:
        return self._impl.element_spec

    def shard(self, num_shards: Any, index: Any, name: Optional[str] = None) -> tf.data.Dataset:
        """Every `num_shards`-th batch, from `index` on, as Dataset.shard; the others are read but not parsed.

        To give each worker its own records, or its own files, use the argument `shard` of the constructor.
        """
        if not all(is_int(value) for value in (num_shards, index)) or not 0 <= index < num_shards:
            return super().shard(num_shards, index, name=name)
        num_shards, index = int(num_shards), int(index)
        files, features, reading, batching = self._parts
        number, offset = batching.shards
        shards = (number * num_shards, offset + number * index)
        made = TFRecordExampleDataset.__new__(TFRecordExampleDataset)
        made._make(files, features, reading, _with_shards(batching, shards))
        return made


def _with_shards(batching: Batching, shards: Tuple[int, int]) -> Batching:
    fields = dict(vars(batching), shards=shards)
    return Batching(**fields)


def _number(argument: str, value: Any, minimum: int) -> Any:
    return value if tf.is_tensor(value) else checked_int(_NAME, argument, value, minimum)


def _files_dataset(files: Files) -> Tuple[tf.data.Dataset, Optional[int]]:
    """`files` as a dataset of scalar names, and how many they are, where that is known."""
    if isinstance(files, tf.data.Dataset):
        spec = files.element_spec
        if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string or not spec.shape.is_compatible_with([]):
            raise TypeError(f"{_NAME}: files is a dataset of {spec}; wanted a dataset of file names, scalar strings")
        return files, None
    if isinstance(files, (list, tuple)):
        if not files:
            raise ValueError(f"{_NAME}: files is empty; wanted at least one file name")
        files = [os.fspath(file) if isinstance(file, os.PathLike) else file for file in files]
    elif isinstance(files, os.PathLike):
        files = os.fspath(files)
    if files is None:
        raise TypeError(f"{_NAME}: files is None; wanted file names, strings")
    names = tf.convert_to_tensor(files)
    if names.dtype != tf.string:
        raise TypeError(f"{_NAME}: files is {names.dtype.name}; wanted file names, strings")
    return tf.data.Dataset.from_tensor_slices(tf.reshape(names, [-1])), names.shape.num_elements()


def _sharded(
    files: tf.data.Dataset, count: Optional[int], shard: Optional[Tuple[int, int]], shard_by: str
) -> Tuple[tf.data.Dataset, list]:
    if shard_by not in ("auto", "files", "records"):
        raise ValueError(f"{_NAME}: shard_by is {shard_by!r}; wanted 'auto', 'files' or 'records'")
    if shard is None:
        return files, []
    pair = tuple(shard) if isinstance(shard, (tuple, list)) else ()
    if len(pair) != 2 or not all(map(is_int, pair)) or not 0 <= pair[1] < pair[0]:
        raise ValueError(f"{_NAME}: shard is {shard!r}; wanted (number of shards, index from 0 to that number less 1)")
    number, index = map(int, pair)
    if shard_by == "auto":
        shard_by = "records" if count is not None and count < number else "files"
    if shard_by == "files":
        return files.shard(number, index), []
    return files, [record_stages.shard(number, index)]
