"""Finds what a pass said in a report."""

from __future__ import annotations

from tf_booster.passes.base import PassResult
from tf_booster.report import Report


def of_tables(report: Report) -> PassResult:
    """The result of the pass hash_tables, which ran."""
    (found,) = (result for result in report.passes if result.name == "hash_tables")
    return found
