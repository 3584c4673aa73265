"""What was done to the last rewritten graph, for people (str, a page) and for programs (to_dict)."""

from __future__ import annotations

import dataclasses
import html
import os
import weakref
from typing import Any, Dict, List, Optional

import tensorflow as tf

from tf_booster.embedding.registry import RewrittenTable
from tf_booster.passes.base import PassResult

# The outputs of TableStats, in their order. A table's entry has them once a session on the graph has ended, None before.
STATS = ("rows", "pending", "evicted", "step", "index_capacity", "bytes")


@dataclasses.dataclass(frozen=True)
class Report:
    """passes: what each pass did. tables: one entry a table, as in to_dict(). device: where tables live."""

    passes: List[PassResult] = dataclasses.field(default_factory=list)
    tables: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    device: str = "cpu"
    note: str = ""

    def to_dict(self) -> Dict[str, Any]:
        """The same as plain lists and dictionaries, which json can write."""
        return {
            "passes": [
                {
                    "name": p.name,
                    "modified": p.modified,
                    "changes": list(p.changes),
                    "skipped": [{"node": node, "reason": reason} for node, reason in p.skipped],
                }
                for p in self.passes
            ],
            "tables": [dict(table) for table in self.tables],
            "variables": [dict(variable) for p in self.passes for variable in p.variables],
            "collectives_per_step": {"tables": 0, "dense": 0, "sparse": 0, "other": 0},
            "device": self.device,
            "rank": 0,
            "size": 1,
        }

    def __str__(self) -> str:
        lines = [f"tf_booster: {len(self.tables)} table(s) on {self.device}, rank 0 of 1"]
        if self.note:
            lines.append(f"  {self.note}")
        for table in self.tables:
            lines.append("  " + _describe(table))
        for p in self.passes:
            lines.append(f"  pass {p.name}: {'changed the graph' if p.modified else p.note or 'changed nothing'}")
            lines.extend(f"    {change}" for change in p.changes)
            lines.extend(f"    skipped {node}: {reason}" for node, reason in p.skipped)
        return "\n".join(lines)

    def add_stats(self, table: str, stats: Dict[str, int]) -> None:
        """Adds what is known of a table once a session has ended; see STATS."""
        for entry in self.tables:
            if entry["name"] == table:
                entry.update(stats)

    def write_html(self, path: str) -> None:
        """Writes a page that needs nothing else. Folders are made as needed."""
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as page:
            page.write(_page(self))


def describe_table(table: RewrittenTable) -> Dict[str, Any]:
    """A table's entry in the report."""
    spec = table.spec
    return {
        "name": table.name,
        "dim": spec.dim,
        "optimizer": table.optimizer or None,
        "slots": list(table.slot_names),
        "initializer": str(spec.initializer),
        "seed": spec.seed,
        "min_frequency": spec.min_frequency,
        "eviction": spec.eviction.to_dict(),
        "max_rows": spec.max_rows,
        "lookups": table.num_probes,
        **dict.fromkeys(STATS),
    }


_last: Optional[Report] = None
_of_graph: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def report() -> Report:
    """The report of the graph that was rewritten last; an empty one, which says so, before the first."""
    return _last or Report(note="No graph has been rewritten yet.")


def report_of(graph: tf.Graph) -> Optional[Report]:
    """The report of `graph`; None for a graph that was not rewritten."""
    return _of_graph.get(graph)


def publish(new: Report, graph: tf.Graph) -> None:
    """Makes `new` the last report, and that of `graph`."""
    global _last
    _last = new
    _of_graph[graph] = new


def _describe(table: Dict[str, Any]) -> str:
    trained = f"{table['optimizer']} ({', '.join(table['slots']) or 'no slots'})" if table["optimizer"] else "read only"
    rules = [f"min_frequency {table['min_frequency']}"] if table["min_frequency"] > 1 else []
    rules += [f"eviction {table['eviction']}"] if table["eviction"] else []
    rules += [f"max_rows {table['max_rows']}"] if table["max_rows"] else []
    return (
        f"table {table['name']}: dim {table['dim']}, {trained}, {table['initializer']}, seed {table['seed']}, "
        f"{table['lookups']} lookup(s)" + "".join(f", {rule}" for rule in rules) + _describe_stats(table)
    )


def _describe_stats(table: Dict[str, Any]) -> str:
    if table["rows"] is None:
        return ""
    return (
        f"; at the end {table['rows']} rows, {table['pending']} keys not admitted yet, {table['evicted']} evicted, "
        f"{table['bytes'] / 2**20:.1f} MiB"
    )


_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } th, td { border-bottom: 1px solid #ddd; padding: .3em .8em; text-align: left }
th { background: #f5f5f5 } code { background: #f5f5f5 } .none { color: #888 }"""


def _page(r: Report) -> str:
    columns = (
        "name",
        "dim",
        "optimizer",
        "slots",
        "initializer",
        "seed",
        "min_frequency",
        "eviction",
        "max_rows",
        "lookups",
        *STATS,
    )
    tables = _html_table(columns, [[_cell(t[c]) for c in columns] for t in r.tables])
    passes = "".join(
        f"<h3>{html.escape(p.name)}</h3><ul>{''.join(f'<li>{html.escape(c)}</li>' for c in p.changes)}</ul>"
        + (_html_table(("skipped", "reason"), [list(s) for s in p.skipped]) if p.skipped else "")
        for p in r.passes
    )
    note = f"<p>{html.escape(r.note)}</p>" if r.note else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>tf_booster report</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>tf_booster report</h1>{note}\n"
        f"<p>Device: {html.escape(r.device)}. Rank 0 of 1.</p>\n<h2>Tables</h2>\n{tables}\n<h2>Passes</h2>\n{passes}\n</body></html>\n"
    )


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(v) for v in value)
    return "" if value is None else str(value)


def _html_table(columns: Any, rows: List[List[str]]) -> str:
    if not rows:
        return '<p class="none">None.</p>'
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
