"""What a split graph consists of; the pass notes it, sessions on the graph look it up."""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, Optional, Tuple

import tensorflow as tf

EXACT, ASYNC = "exact", "async"
_SPLIT = ("tf_booster", "embedding_pipeline")


@dataclasses.dataclass(frozen=True)
class Split:
    """A training graph in two parts with a queue between them.

    mode: EXACT or ASYNC.
    enqueue: the end of the embedding graph; each run of it takes one batch of the input.
    dequeue: where the main graph begins.
    size: int32 scalar, how many batches wait in the queue.
    source: the op that took batches before the split; no run must need it any more.
    crossing: name of a tensor of the embedding graph -> what the main graph reads in its place. All of the source's are there.
    ahead: names of the tensors that the embedding graph computes with, whose values no feed of a step can change any more.
    meets_ranks: whether the embedding graph has collectives, which all ranks must run.
    resets: ops that begin the input anew: what was taken ahead of that must be forgotten.
    """

    mode: str
    enqueue: tf.Operation
    dequeue: tf.Operation
    size: tf.Tensor
    source: tf.Operation
    crossing: Dict[str, tf.Tensor]
    ahead: FrozenSet[str]
    meets_ranks: bool = False
    resets: Tuple[tf.Operation, ...] = ()


def note(graph: tf.Graph, split: Split) -> None:
    """Has sessions on `graph` run it as a pipeline."""
    graph.add_to_collection(_SPLIT, split)


def split_of(graph: tf.Graph) -> Optional[Split]:
    """The split of `graph`; None for a graph that is whole."""
    found = graph.get_collection(_SPLIT)
    return found[0] if found else None
