"""How many rows of this rank's batch count, and whether another batch follows: what is summed beside the gradients.

The input's wrapper registers both; the pass that reduces the gradients takes them along and registers the sums; the hook that ends
training reads those.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

STOP = float(2**20)  # More than there will ever be ranks, and exact in float32.

_OF_RANK = ("tf_booster", "row_weights")
_SUMMED = ("tf_booster", "summed_row_weights")
_NO_TRAINING = ("tf_booster", "no_training")


class RowWeights(NamedTuple):
    """Two float32 scalars.

    rows: rows of the batch that count; 0.0 when this rank's input has ended, and the batch then repeats one that was there before.
    has_next: 1.0 if this rank has another batch, 0.0 if not; STOP less when a hook of this rank asked for the end. Training ends on all
      ranks after the step in which the sum over ranks is not above 0.
    """

    rows: tf.Tensor
    has_next: tf.Tensor


def row_weights(graph: tf.Graph) -> Optional[RowWeights]:
    """What the input of `graph` registered; None if its input is no Dataset, or there is one rank: every batch then counts alike."""
    return _only(graph, _OF_RANK)


def register(graph: tf.Graph, weights: RowWeights, trains: bool = True) -> None:
    """Notes the row weights of the graph's input. `trains`: whether steps run the train op; a graph that evaluates may have one, too."""
    graph.add_to_collection(_OF_RANK, weights)
    if not trains:
        graph.add_to_collection(_NO_TRAINING, weights)


def forget(graph: tf.Graph) -> None:
    """Takes back what the input of `graph` registered: each rank counts and ends by itself."""
    for collection in (_OF_RANK, _NO_TRAINING):
        graph.clear_collection(collection)


def trains(graph: tf.Graph) -> bool:
    """Whether what a train op sums is summed in each step."""
    return not graph.get_collection(_NO_TRAINING)


def summed_row_weights(graph: tf.Graph) -> Optional[RowWeights]:
    """The sums over ranks of both; None before a pass has registered them."""
    return _only(graph, _SUMMED)


def register_sums(graph: tf.Graph, sums: RowWeights) -> None:
    """Notes where the sums over ranks are, so that no further collective is needed for them."""
    graph.add_to_collection(_SUMMED, sums)


def _only(graph: tf.Graph, collection: object) -> Optional[RowWeights]:
    entries = graph.get_collection(collection)
    return entries[-1] if entries else None
