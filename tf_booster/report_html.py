"""The report as one page that needs nothing else, and no network."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Sequence

from tf_booster import report_drawing, report_text
from tf_booster.passes.roles import ROLES

_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 100em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } th, td { border-bottom: 1px solid #ddd; padding: .3em .8em; text-align: left; vertical-align: top }
th { background: #f5f5f5 } td.number { text-align: right } .none { color: #888 } summary { cursor: pointer; color: #36c }
"""
_TABLE_COLUMNS = ("name", "dim", "device", "optimizer", "slots", "initializer", "seed", "min_frequency", "eviction", "max_rows",
                  "lookups", "rows", "pending", "evicted", "step", "index_capacity", "bytes", "overhead_bytes_per_row")  # fmt: skip
_VARIABLE_COLUMNS = ("name", "shape", "optimizer", "fused_into", "reason")
_SHOWN_AT_ONCE = 20


def page(report: Any) -> str:
    """The page of a Report."""
    sections = [
        f"<p>{html.escape(report.note)}</p>" if report.note else "",
        f"<p>Device: {html.escape(report.device)}. Rank 0 of 1.</p>",
        "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in report_text.figures(report)) + "</ul>",
        _graphs(report),
        "<h2>Passes</h2>",
        *(_pass(p) for p in report.passes),
        "<h2>Tables</h2>",
        _folded("tables", _TABLE_COLUMNS, [[table[c] for c in _TABLE_COLUMNS] for table in report.tables]),
        "<h2>Variables</h2>",
        _folded("Variables", _VARIABLE_COLUMNS, [[v.get(c) for c in _VARIABLE_COLUMNS] for v in report.variables]),
        _memory(report.memory),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>tf_booster report</title>'
        f"<style>{_STYLE}{report_drawing.STYLE}</style></head><body>\n<h1>tf_booster report</h1>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _graphs(report: Any) -> str:
    if not (report.before and report.after):
        return ""
    before, after = _by_role(report.before), _by_role(report.after)
    rows = [[role, before.get(role, 0), after.get(role, 0)] for role in ROLES]
    types = report_text.changed_types(report.before.types, report.after.types)
    return "\n".join(
        [
            "<h2>The graph of a step</h2>",
            report_drawing.drawings(report.before, report.after),
            _table(("part", "ops before", "ops after"), [*rows, ["all", report.before.num_ops, report.after.num_ops]]),
            _folded("op types", ("op type", "before", "after"), types),
        ]
    )


def _by_role(summary: Any) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for role, _, ops, _, _ in summary.scopes:
        counts[role] = counts.get(role, 0) + ops
    return counts


def _pass(p: Any) -> str:
    changes = "".join(f"<li>{html.escape(change)}</li>" for change in report_text.changes(p))
    skipped = [[report_text.some(nodes), reason] for nodes, reason in report_text.grouped(p.skipped)]
    return (
        f"<h3>{html.escape(p.name)}: {html.escape(report_text.outcome(p))}</h3>"
        + (f"<ul>{changes}</ul>" if changes else "")
        + (_folded("left alone", ("skipped", "reason"), skipped) if skipped else "")
    )


def _memory(memory: Dict[str, Any]) -> str:
    columns = ("name", "shape", "dtype", "bytes", "trainable")
    if not memory or not memory["largest"]:
        return ""
    return "<h3>The largest</h3>" + _table(columns, [[entry[c] for c in columns] for entry in memory["largest"]])


def _folded(what: str, columns: Sequence[str], rows: List[Any]) -> str:
    """A table whose rows beyond the first few are folded away."""
    first, rest = rows[:_SHOWN_AT_ONCE], rows[_SHOWN_AT_ONCE:]
    more = f"<details><summary>{len(rest)} more {what}</summary>{_table(columns, rest)}</details>" if rest else ""
    return _table(columns, first) + more


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return '<p class="none">None.</p>'
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ", ".join(str(v) for v in value)
    kind = ' class="number"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    return f"<td{kind}>{html.escape('' if value is None else str(value))}</td>"
