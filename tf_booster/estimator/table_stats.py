"""When a session ends, how many rows its tables have goes into the report."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from tf_booster.embedding import registry
from tf_booster.report import STATS, Report, report_of


class TableStatsHook(tf.compat.v1.train.SessionRunHook):
    """Reads the sizes of the graph's tables once, at the end. A session that ends with an error leaves them out."""

    def __init__(self) -> None:
        self._report: Optional[Report] = None
        self._stats: dict = {}

    def after_create_session(self, session: Any, coord: Any) -> None:
        """The graph is rewritten by now; in begin() it was not."""
        del coord
        self._report = report_of(session.graph)
        self._stats = {name: table.stats for name, table in registry.rewritten(session.graph).items()}

    def end(self, session: Any) -> None:
        """Runs the stats ops."""
        if self._report is not None and self._stats:
            for name, values in session.run(self._stats).items():
                *stats, on_gpu = map(int, values)
                self._report.add_stats(name, dict(zip(STATS, stats), device="gpu" if on_gpu else "cpu"))
