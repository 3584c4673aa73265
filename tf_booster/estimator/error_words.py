"""Errors of a step name the program's ops, and the lines that made them, where they come of ops that stand for these."""

from __future__ import annotations

import functools
import re
from typing import Any, Optional

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.embedding_pipeline import SCOPE
from tf_booster.passes.graph_view import originals

_NODE = re.compile(r"{{node ([^}\s]+)}}")
_COPY = re.compile(rf"({{{{node |\[\[){SCOPE}/([^}}\]\s]+)")


def with_ops_of_program(original: Any) -> Any:
    """Wraps what adds to the message of an error the lines of the ops that it names."""

    @functools.wraps(original)
    def interpolate(message: str, graph: Any) -> str:
        return original(_with_ops_of_program(message, graph), graph)

    return interpolate


def with_op_of_program(original: Any) -> Any:
    """Wraps a session's `_do_call`: `error.op` is the program's."""

    @functools.wraps(original)
    def _do_call(self: Any, *args: Any) -> Any:
        try:
            return original(self, *args)
        except tf.errors.OpError as error:
            if error.op is not None and error.op.name.startswith(f"{SCOPE}/"):
                copied = _op_named(self.graph, error.op.name.removeprefix(f"{SCOPE}/"))
                if copied is not None:
                    _compat.set_op_of_error(error, copied)
            raise

    return _do_call


def _with_ops_of_program(message: str, graph: tf.Graph) -> str:
    # A copy that runs ahead of the step fails as the op itself does.
    message = _COPY.sub(lambda copy: copy[0] if _op_named(graph, copy[2]) is None else copy[1] + copy[2], message)
    for name in dict.fromkeys(_NODE.findall(message)):
        op = _op_named(graph, name)
        names = originals(op) if op is not None else []
        if names:
            more = "" if len(names) == 1 else " and another" if len(names) == 2 else f" and {len(names) - 1} others"
            message += f"\nop '{name}' stands for [[{{{{node {names[0]}}}}}]]{more}"
    return message


def _op_named(graph: tf.Graph, name: str) -> Optional[tf.Operation]:
    """None for those of functions, and where a part of such a graph was imported."""
    try:
        return graph.get_operation_by_name(name)
    except KeyError:
        return None
