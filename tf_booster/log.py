"""What tf_booster says while it works, through TensorFlow's own logger.

Not through absl's: its first line gives the root logger a handler, and everything TensorFlow logs would come twice.
"""

from __future__ import annotations

from typing import Set

import tensorflow as tf

_said: Set[str] = set()


def info(message: str) -> None:
    """Logs `message`."""
    tf.get_logger().info("tf_booster: %s", message)


def info_once(message: str) -> None:
    """Logs `message` the first time that it comes up."""
    if message not in _said:
        _said.add(message)
        info(message)


def warning(message: str) -> None:
    """Logs `message` as a warning."""
    tf.get_logger().warning("tf_booster: %s", message)


def once(message: str) -> None:
    """Logs `message` as a warning, so that it is seen at the default verbosity, the first time that it comes up."""
    if message not in _said:
        _said.add(message)
        warning(message)


def brief(error: BaseException) -> str:
    """An error in one line: of a session's error the kernel's message, without the places in Python that TensorFlow puts around it."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines()]
    ends = [i for i, line in enumerate(lines) if line.startswith("Node: '") or line == "Graph execution error:"]
    lines = [line for line in lines[ends[-1] + 1 if ends else 0 :] if line]
    # Beside a card there may be two: of the op, and of who waited for its output.
    if lines and lines[0].endswith("root error(s) found."):
        del lines[0]
    return f"{type(error).__name__}: {''.join(lines[:1])}"
