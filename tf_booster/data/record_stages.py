"""What happens to records between files and batches, as the ops TfBooster…Dataset take it that read TFRecords or lines; lines are records,
too."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf

NUM_ARGUMENTS = 5  # Numbers for each stage; the rest is 0.


@dataclasses.dataclass(frozen=True)
class Predicate:
    """A function of records that are parsed. Arguments: the features of `keys`, which are sorted, then `captured`.

    by_row: it takes many records at once, [n, …], and gives a bool for each, [n]; else one and a scalar. SparseTensors are variants.
    """

    definition: Any  # The FunctionDef, which the graph has.
    keys: Sequence[str]
    captured: Sequence[tf.Tensor]
    by_row: bool


@dataclasses.dataclass(frozen=True)
class Stage:
    """One of tf.data's transformations by its name. Arguments are integers or int64 scalars."""

    name: str
    arguments: Tuple[Any, ...]
    predicate: Optional[Predicate] = None


def shuffle(
    buffer_size: Any, seed: Any = 0, seed2: Any = 0, reshuffle_each_iteration: bool = True, copies_share: bool = True
) -> Stage:
    """Dataset.shuffle. Seeds as tf.random.get_seed makes them for an op; both 0: drawn at random.

    copies_share: whether copies that tf.data makes of the dataset, one for each iterator and one for each place of a pipeline that it
    stands at, draw one after another from one sequence of seeds, as those of ShuffleDatasetV3; else each begins anew.
    """
    return Stage("shuffle", (buffer_size, seed, seed2, int(reshuffle_each_iteration), int(copies_share)))


def repeat(count: Any = -1, of_shuffle: bool = False) -> Stage:
    """Dataset.repeat. of_shuffle: it follows a shuffle, which tf.data makes one with it: the buffer holds several epochs."""
    return Stage("repeat", (count, int(of_shuffle)))


def take(count: Any) -> Stage:
    """Dataset.take."""
    return Stage("take", (count,))


def skip(count: Any) -> Stage:
    """Dataset.skip."""
    return Stage("skip", (count,))


def shard(num_shards: Any, index: Any) -> Stage:
    """Dataset.shard."""
    return Stage("shard", (num_shards, index))


def cache() -> Stage:
    """Dataset.cache, in memory."""
    return Stage("cache", ())


def keep(predicate: Predicate) -> Stage:
    """Dataset.filter, of records that parse_single_example parses behind the files."""
    return Stage("filter", (len(predicate.keys), len(predicate.captured), int(predicate.by_row)), predicate)


def flat_arguments(stages: Tuple[Stage, ...]) -> List[Any]:
    """The arguments of all stages in a row, as many for each."""
    return [
        argument for stage in stages for argument in (*stage.arguments, *(0,) * (NUM_ARGUMENTS - len(stage.arguments)))
    ]
