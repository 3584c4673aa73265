"""How much memory the Variables of a graph take, by their static shapes."""

from __future__ import annotations

from typing import Any, Dict

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView


def variable_memory(view: GraphView) -> Dict[str, Any]:
    """Bytes of the trainable Variables, and of all others: slots of optimizers, moving averages, counters, metrics.

    Returns:
      trainable, other: {"count", "bytes"}; unknown: names of Variables whose shape is not known; largest: up to ten of
      {"name", "shape", "dtype", "bytes", "trainable"}.
    """
    keys = tf.compat.v1.GraphKeys
    trainable = {id(v) for v in view.graph.get_collection(keys.TRAINABLE_VARIABLES)}
    found: Dict[str, Any] = {"trainable": {"count": 0, "bytes": 0}, "other": {"count": 0, "bytes": 0}, "unknown": []}
    entries = []
    seen = set()
    for key in (keys.GLOBAL_VARIABLES, keys.LOCAL_VARIABLES):
        for variable in view.graph.get_collection(key):
            if not isinstance(variable, tf.Variable) or id(variable) in seen:
                continue
            seen.add(id(variable))
            size = variable.shape.num_elements()
            if size is None:
                found["unknown"].append(variable.op.name)
                continue
            size *= variable.dtype.base_dtype.size
            kind = found["trainable" if id(variable) in trainable else "other"]
            kind["count"] += 1
            kind["bytes"] += size
            entries.append((size, variable))
    entries.sort(key=lambda entry: -entry[0])
    found["largest"] = [
        {
            "name": variable.op.name,
            "shape": variable.shape.as_list(),
            "dtype": variable.dtype.base_dtype.name,
            "bytes": size,
            "trainable": id(variable) in trainable,
        }
        for size, variable in entries[:10]
    ]
    return found
