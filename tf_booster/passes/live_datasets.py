"""What becomes of a dataset among ops: who reads it, and whether it can be another inside."""

from __future__ import annotations

from typing import List, Set, Tuple

import tensorflow as tf

from tf_booster.passes.dataset_functions import Refused

# Datasets that look into those before them, or hand them to other processes, for readers and batches that they know.
_LOOK_INSIDE = {
    "AutoShardDataset": "tf.data's automatic sharding changes the files or records that it reads, and knows TensorFlow's own readers only",
    "ExperimentalAutoShardDataset": "tf.data's automatic sharding changes what it reads, and knows TensorFlow's own readers only",
    "RegisterDataset": "the tf.data service runs it in other processes",
    "RegisterDatasetV2": "the tf.data service runs it in other processes",
    "DatasetToGraph": "it is made a graph that may be run elsewhere",
    "DatasetToGraphV2": "it is made a graph that may be run elsewhere",
}
# Datasets that hand elements on whole, and maps, whose functions take SparseTensors out of their variants.
_WHOLE = ("PrefetchDataset", "RepeatDataset", "TakeDataset", "SkipDataset", "ShardDataset", "ShuffleDataset", "ShuffleDatasetV3",
          "ShuffleAndRepeatDataset", "OptionsDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "ZipDataset", "CacheDataset",
          "CacheDatasetV2")  # fmt: skip
_ON_THE_WAY = ("PrefetchDataset", "RepeatDataset", "TakeDataset", "SkipDataset", "ShardDataset", "ShuffleDataset",
               "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2",
               "FilterDataset", "OptionsDataset", "CacheDataset", "CacheDatasetV2")  # fmt: skip


def is_dataset(op: tf.Operation) -> bool:
    """Whether `op` makes a dataset."""
    return "Dataset" in op.type and len(op.outputs) == 1 and op.outputs[0].dtype == tf.variant


def is_read(op: tf.Operation) -> bool:
    """Whether an iterator, or what else is no dataset, reads the dataset `op`, directly or by way of other datasets."""
    return any(not is_dataset(reader) for reader in _above(op))


def num_readers(op: tf.Operation) -> int:
    """How many iterators, datasets that are read, and others read the dataset `op`."""
    return sum(not is_dataset(reader) or is_read(reader) for reader in op.outputs[0].consumers())


def batches_of(map_op: tf.Operation, types: Tuple[str, ...], alone: bool = False) -> List[tf.Operation]:
    """The batches, ops of `types`, that are read and made of what `map_op` gives one by one. Raises Refused for none.

    alone: and where something else is made of it beside them.
    """
    found: List[tf.Operation] = []
    others: List[tf.Operation] = []
    stack, seen = [map_op], {map_op}
    while stack:
        for reader in stack.pop().outputs[0].consumers():
            if reader in seen or not (not is_dataset(reader) or is_read(reader)):
                continue
            seen.add(reader)
            if reader.type in types:
                found.append(reader)
            elif reader.type in _ON_THE_WAY:
                stack.append(reader)
            else:
                others.append(reader)
    if found and not (alone and others):
        return found
    names = ", ".join(f"{op.type} ('{op.name}')" for op in others)
    raise Refused(
        f"its records are parsed one by one and go to {names}, not to a batch; batch records first, then parse"
    )


def check_above(op: tf.Operation, single_records: bool = False, sparse: bool = False) -> None:
    """Raises Refused where a dataset that reads `op`'s elements would notice that they are made another way.

    single_records: batches are made of records that were parsed one by one, so that a broken one now costs its whole batch.
    sparse: elements hold SparseTensors whose rows are no more variants of their own.
    """
    for reader in _above(op):
        why = _LOOK_INSIDE.get(reader.type)
        if why is None and reader.type.startswith("DataServiceDataset"):
            why = _LOOK_INSIDE["RegisterDataset"]
        if why is None and single_records and "IgnoreErrors" in reader.type:
            why = "it goes on after a broken record, of which a batch would now lose all others; batch records first, then parse"
        if why is None and single_records and sparse and is_dataset(reader) and reader.type not in _WHOLE:
            why = "it may take batches of SparseTensors apart"
        if why is not None:
            raise Refused(f"'{reader.name}' ({reader.type}) reads it: {why}")


def _above(op: tf.Operation) -> Set[tf.Operation]:
    """All datasets that `op` goes into, and what reads them."""
    seen: Set[tf.Operation] = set()
    stack = [op]
    while stack:
        for reader in stack.pop().outputs[0].consumers():
            if reader not in seen:
                seen.add(reader)
                if is_dataset(reader):
                    stack.append(reader)
    return seen
