"""All ranks begin with rank 0's Variables: initialized, restored or set by an init_fn, they are broadcast when a session begins."""

from __future__ import annotations

import functools
from typing import Any, List

import tensorflow as tf

from tf_booster.parallel import collectives

_COLLECTION = ("tf_booster", "initial_broadcast")

# One buffer of all would double the memory of a large model at its start.
_BYTES_AT_ONCE = 64 << 20


def add_broadcast(graph: tf.Graph, variables: List[tf.Variable]) -> tf.Operation:
    """Makes the op that gives `variables` rank 0's values, and notes it for the hook; some 64 MiB at a time.

    The Variables must be the same on all ranks, in name and shape, and initialized when it runs.
    """
    assigns: List[tf.Operation] = []
    for part in _parts(sorted(variables, key=lambda variable: variable.name)):
        with tf.control_dependencies(assigns):  # One after the other: at most one part is in memory.
            values = [_value(variable) for variable in part]
        received = collectives.broadcast_packed(values, "other", name="initial_values")
        # What is received lies in one buffer on the host, and a Variable there takes what it is assigned as it is: the whole buffer
        # would stay as long as one of its Variables is not updated, which others are by copies of their part.
        with tf.device("/device:CPU:0"):
            received = [tf.raw_ops.DeepCopy(x=value) for value in received]
        assigns = [variable.assign(value, read_value=False) for variable, value in zip(part, received)]
        assigns = [assign.op if isinstance(assign, tf.Tensor) else assign for assign in assigns]
    with tf.control_dependencies(assigns):
        done = tf.no_op(name="initial_values_done")
    graph.add_to_collection(_COLLECTION, done)
    return done


def has_broadcast(graph: tf.Graph) -> bool:
    """Whether add_broadcast was called for `graph`."""
    return bool(graph.get_collection(_COLLECTION))


class BroadcastHook(tf.compat.v1.train.SessionRunHook):
    """Runs the broadcast, where the graph has one, in each new session, before other hooks see it."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """All ranks come here: each makes its session by itself, from the same model_dir."""
        del coord
        for op in session.graph.get_collection(_COLLECTION):
            session.run(op)


def with_broadcast_hook(original: Any) -> Any:
    """The constructor of MonitoredSession, with one hook more, the first."""

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        original(self, session_creator, [BroadcastHook(), *(hooks or [])], *args, **kwargs)

    return __init__


def _value(variable: tf.Variable) -> tf.Tensor:
    return variable.read_value() if hasattr(variable, "read_value") else tf.identity(variable)


def _parts(variables: List[tf.Variable]) -> List[List[tf.Variable]]:
    parts: List[List[tf.Variable]] = []
    room = 0
    for variable in variables:
        size = (variable.shape.num_elements() or 0) * variable.dtype.base_dtype.size
        if not parts or size > room:
            parts.append([])
            room = _BYTES_AT_ONCE
        parts[-1].append(variable)
        room -= size
    return parts
