"""What a split graph consists of; the pass notes it, sessions on the graph look it up."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, FrozenSet, Optional, Tuple

import tensorflow as tf

EXACT, ASYNC = "exact", "async"
_SPLIT = ("tf_booster", "embedding_pipeline")
# The same as text, which goes with the graph into its MetaGraph: a program that imports it goes on training.
_TEXT = "tf_booster_embedding_pipeline"


@dataclasses.dataclass(frozen=True)
class Split:
    """A training graph in two parts with a queue between them.

    mode: EXACT or ASYNC.
    enqueue: the end of the embedding graph; each run of it takes one batch of the input. Its output says that one has been sent.
    dequeue: where the main graph begins; a run of it fails when no batch waits.
    arrived: what alone reads `dequeue`, all of it, and passes it on: the values of `crossing`, in that order.
    whole: what waited for ops of the embedding graph waits for it: for all of the batch.
    waited: name of an op that waits for `whole` -> the ops of the program that it waited for before.
    size: int32 scalar, how many batches wait in the queue.
    expected: int32 placeholder that `dequeue` waits for. Only a driver gives it, so that a session without one raises an error that says so:
      any number, `there`, or `enqueue`'s output in a run of both halves.
    there: an int32 constant.
    source: the op that took batches before the split; no run must need it any more.
    crossing: name of a tensor of the embedding graph -> what the main graph reads in its place. All of the source's are there.
    ahead: names of the tensors that the embedding graph computes with, whose values no feed of a step can change any more.
    meets_ranks: whether the embedding graph has collectives, which all ranks must run.
    resets: ops that begin the input anew: what was taken ahead of that must be forgotten.
    """

    mode: str
    enqueue: tf.Operation
    dequeue: tf.Operation
    arrived: tf.Operation
    whole: tf.Operation
    waited: Dict[str, Tuple[tf.Operation, ...]]
    size: tf.Tensor
    expected: tf.Tensor
    there: tf.Tensor
    source: tf.Operation
    crossing: Dict[str, tf.Tensor]
    ahead: FrozenSet[str]
    meets_ranks: bool = False
    resets: Tuple[tf.Operation, ...] = ()


def note(graph: tf.Graph, split: Split) -> None:
    """Has sessions on `graph` run it as a pipeline."""
    graph.add_to_collection(_SPLIT, split)
    said = {field.name: _named(getattr(split, field.name)) for field in dataclasses.fields(split)}
    graph.add_to_collection(_TEXT, json.dumps(said))


def split_of(graph: tf.Graph) -> Optional[Split]:
    """The split of `graph`; None for a graph that is whole. Of an imported graph: what its MetaGraph says."""
    found = graph.get_collection(_SPLIT)
    if found:
        return found[0]
    texts = graph.get_collection(_TEXT)
    if not texts:
        return None
    split = _from_text(graph, json.loads(texts[0]))
    graph.add_to_collection(_SPLIT, split)
    return split


def _named(value: Any) -> Any:
    """`value` with names of ops and tensors in their place."""
    if isinstance(value, dict):
        return {name: _named(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, frozenset)):
        return sorted(map(_named, value))
    return value.name if isinstance(value, (tf.Operation, tf.Tensor)) else value


def _from_text(graph: tf.Graph, said: Dict[str, Any]) -> Split:
    element = graph.as_graph_element
    return Split(
        mode=said["mode"],
        crossing={name: element(value) for name, value in said["crossing"].items()},
        ahead=frozenset(said["ahead"]),
        meets_ranks=said["meets_ranks"],
        resets=tuple(map(element, said["resets"])),
        waited={name: tuple(map(element, ops)) for name, ops in said["waited"].items()},
        **{
            name: element(said[name])
            for name in ("enqueue", "dequeue", "arrived", "whole", "size", "expected", "there", "source")
        },
    )
