"""Updates that run because what they lead to goes into a tf.cond, whichever branch is taken.

`tf.cond(train, lambda: a, lambda: b)` of two batch normalizations that were built outside computes both; the averages of `a`, which moves them, move where
`b` is taken, too. That is so in TensorFlow without Grappler, which prunes the branch that a constant condition never takes, and what leads to it.
"""

from __future__ import annotations

from typing import Iterable

import tensorflow as tf

from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.graph_view import GraphView


def lead_to(view: GraphView, unread: Iterable[tf.Tensor], read: Iterable[tf.Tensor]) -> bool:
    """Whether updates lead to the tensors `unread`, which the branch that is taken does not read, and to none of those that it does, `read`."""
    index = view.index()
    before = index.upstream({tensor.op for tensor in unread})
    if not any(UPDATE.fullmatch(index.ops[number].type) for number in before):
        return False
    others = index.upstream({tensor.op for tensor in read})
    return any(UPDATE.fullmatch(index.ops[number].type) for number in before - others)
