"""What a program asks of a table besides lookups, where each rank has a part of it: answers about the whole.

All ranks must ask at the same step, because the answer is a collective.
"""

from __future__ import annotations

from typing import List, Sequence

import tensorflow as tf

from tf_booster.parallel import collectives, ranks

# Ops about single keys. Their keys would have to go to their owners, as those of lookups do.
OF_KEYS = {
    "TfBoosterTableFind": "find",
    "TfBoosterTableFindOrInsert": "find_or_insert",
    "TfBoosterTableInsertOrAssign": "insert_or_assign",
    "TfBoosterTableErase": "erase",
}


def refusal(name: str, method: str) -> str:
    """Why a table that is divided over ranks does not have `method`, and what to do."""
    return (
        f"Table '{name}': {method}() is about keys that live on other ranks too; under several ranks look ids up with "
        "tf_booster.embedding_lookup, and change tables by hand in one process."
    )


def held(tensor: tf.Tensor) -> tf.Tensor:
    """`tensor`, such that the rewrite can still change what a program sees that holds it: only what ops read can be changed."""
    return tf.identity(tensor) if ranks.current().size > 1 else tensor


def whole_size(size: tf.Tensor) -> tf.Tensor:
    """The sum over ranks of a TableSize op's output."""
    (total,) = collectives.all_reduce_packed([size], "other", "table_size")
    return total


def whole_export(tensors: Sequence[tf.Tensor]) -> List[tf.Tensor]:
    """Outputs of a TableExport op: those that have a row for each key with the rows of all ranks, the others as they are."""
    whole = list(tensors)
    rows = [i for i, tensor in enumerate(whole) if tensor.shape.rank]
    for i, gathered in zip(rows, collectives.all_gather_packed([whole[i] for i in rows], "other", "table_export")):
        whole[i] = gathered
    return whole
