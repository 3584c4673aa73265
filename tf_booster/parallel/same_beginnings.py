"""Files and tensors that ranks' datasets begin with: all must have the same, in one order, else records are read twice or never."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.parallel import dataset_graph, host_exchange
from tf_booster.passes.graph_view import GraphView

_NONE = ("", "")

# By the constant's name: of the value, and of a list of strings without its order.
Digests = Dict[str, Tuple[str, str]]


def digests(last: tf.Operation) -> Digests:
    """Of what the dataset `last` begins with."""
    return {name: (_digest(value), _of_any_order(value)) for name, value in dataset_graph.beginnings(last).items()}


def have_one_order(
    graph: tf.Graph, last: tf.Operation, told: List[Digests], called: str, config: Any
) -> List[Tuple[tf.Tensor, tf.Tensor]]:
    """Has all ranks begin with rank 0's lists of files where theirs are in other orders, as of a program that shuffles them.

    Returns the lists that are no longer read, and those in their places.

    Args:
      told: digests() of all ranks.
      called: what to call the input.

    Raises:
      ValueError: ranks begin with other files or tensors.
    """
    others = [name for name, of_0 in told[0].items() if any(of_rank.get(name, of_0) != of_0 for of_rank in told)]
    if not others:
        return []
    for name in others:
        (_, any_order), rank = told[0][name], next(r for r, each in enumerate(told) if each.get(name) != told[0][name])
        if not any_order or any(each.get(name, _NONE)[1] != any_order for each in told) or last.graph is not graph:
            raise ValueError(_REFUSED.format(called=called, name=name, rank=rank))
    mine = dataset_graph.beginnings(last)
    lists = host_exchange.all_gather({name: mine[name].tolist() for name in others}, f"{called}, files", config)[0]
    view = GraphView(graph)
    moved = []
    for name, values in lists.items():
        with view.inserting(None):
            new = tf.constant(values, tf.string)
        moved.append((graph.get_tensor_by_name(name), new))
        view.redirect(*moved[-1])
    return moved


def _digest(value: np.ndarray) -> str:
    if value.dtype == object:
        return hashlib.sha1(repr((value.shape, value.tolist())).encode()).hexdigest()
    return hashlib.sha1(np.ascontiguousarray(value)).hexdigest()


def _of_any_order(value: np.ndarray) -> str:
    return _digest(np.sort(value)) if value.dtype == object and value.ndim == 1 else ""


_REFUSED = (
    "tf_booster: {called}: the dataset of rank {rank} begins with other files or tensors than rank 0's, or with tensors in another order "
    "('{name}'), so records would be read twice or never. Give all ranks the same: seed what draws or shuffles them in Python "
    "(random.Random(0).shuffle(rows)); or divide the input in the input function, with enable_gpu_booster(shard_input=False)."
)
