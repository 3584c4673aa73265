"""What tf_booster says while it works, through absl as TensorFlow does."""

from __future__ import annotations

from typing import Set

from absl import logging

_said: Set[str] = set()


def info(message: str) -> None:
    """Logs `message`."""
    logging.info("tf_booster: %s", message)


def warning(message: str) -> None:
    """Logs `message` as a warning."""
    logging.warning("tf_booster: %s", message)


def once(message: str) -> None:
    """Logs `message` as a warning, so that it is seen at the default verbosity, the first time that it comes up."""
    if message not in _said:
        _said.add(message)
        warning(message)
