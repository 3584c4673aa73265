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
