"""Which graphs all ranks run together. Tables of such a graph are parts, and its checkpoints are written by all ranks.

A graph that is exported as a SavedModel is not one of them, on any number of ranks: it has its tables whole.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import List

import tensorflow as tf

from tf_booster.parallel import ranks

_partition: List[str] = ["hash"]
_graphs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> Place.
_apart: weakref.WeakSet = weakref.WeakSet()  # Graphs in which ranks meet in the program's own collectives alone.


@dataclasses.dataclass(frozen=True)
class Place:
    """What this process has of a graph's tables: the keys that `rank` owns of `size`, by `partition` ("hash", "mod")."""

    rank: int = 0
    size: int = 1
    partition: str = "hash"


def set_partition(partition: str) -> None:
    """How the tables of graphs that are shared from now on are divided: "hash" or "mod"."""
    _partition[0] = partition


def share(graph: tf.Graph) -> None:
    """Makes `graph` one of all ranks, before it is rewritten. Nothing happens in one process."""
    here = ranks.current()
    if here.size > 1:
        _graphs.setdefault(graph, Place(here.rank, here.size, _partition[0]))


def place(graph: tf.Graph) -> Place:
    """This process's part of the tables of `graph`; all of them where the graph is not shared."""
    return _graphs.get(graph, Place())


def note_apart(graph: tf.Graph) -> None:
    """Notes that ranks meet in `graph` where the program has them meet, and nowhere else: one rank may do what others do not."""
    _apart.add(graph)


def are_apart(graph: tf.Graph) -> bool:
    """Whether note_apart() was called for it."""
    return graph in _apart
