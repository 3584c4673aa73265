"""Ranks above 0 say only what went wrong, and write no event files: there is one model_dir, and rank 0 writes there.

Their hooks run all the same: what a hook fetches may wait for other ranks.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, List


def only_warnings(filters: List[Any]) -> List[Any]:
    """The filters of a logger, and one that stops what is below a warning."""
    return [*filters, _is_warning]


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


class SilentWriter:
    """A tf.compat.v1.summary.FileWriter that writes nothing."""

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir

    def get_logdir(self) -> str:
        """The folder that it was made for."""
        return self._logdir

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("add_", "flush", "close", "reopen")):
            raise AttributeError(name)
        return _do_nothing


def silent_writer(original: Any) -> Any:
    """Wraps FileWriterCache.get, from which all hooks and Estimators have their writers."""

    @functools.wraps(original)
    def get(logdir: str) -> SilentWriter:
        return SilentWriter(logdir)

    return staticmethod(get)


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    pass
