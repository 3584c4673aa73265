"""What was done to the last rewritten graph, for people (str, a page) and for programs (to_dict)."""

from __future__ import annotations

import dataclasses
import os
import weakref
from typing import Any, Dict, List, Optional

import tensorflow as tf

from tf_booster import report_html, report_text
from tf_booster.checkpoint import layout
from tf_booster.embedding.registry import RewrittenTable
from tf_booster.parallel import ranks
from tf_booster.parallel.collectives import count_by_kind
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_summary import GraphSummary

# The outputs of TableStats, in their order, before the last one: whether the table is on a GPU. A table's entry has them once a session on the graph has ended, None before.
STATS = ("rows", "pending", "evicted", "step", "index_capacity", "bytes", "host_bytes", "disk_bytes")


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done to one graph.

    passes: what each pass did. tables: one entry a table, as in to_dict().
    before, after: what one step ran and runs. counted_from: which fetches these steps are.
    memory: of Variables, see passes/variable_memory.py. collectives: of one step, by kind.
    pipeline: where the steps of the embedding pipeline spent their time, once a session has ended; empty without one.
    rank, size: which process of how many made the report.
    """

    passes: List[PassResult] = dataclasses.field(default_factory=list)
    tables: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    note: str = ""
    before: Optional[GraphSummary] = None
    after: Optional[GraphSummary] = None
    counted_from: str = ""
    memory: Dict[str, Any] = dataclasses.field(default_factory=dict)
    collectives: Dict[str, int] = dataclasses.field(default_factory=lambda: count_by_kind(()))
    pipeline: Dict[str, Any] = dataclasses.field(default_factory=dict)
    rank: int = dataclasses.field(default_factory=lambda: ranks.current().rank)
    size: int = dataclasses.field(default_factory=lambda: ranks.current().size)

    @property
    def device(self) -> str:
        """Where tables live: "cpu", "gpu", or "cpu and gpu"."""
        return " and ".join(sorted({table["device"] for table in self.tables})) or "cpu"

    @property
    def modified(self) -> bool:
        """Whether any pass changed the graph."""
        return any(p.modified for p in self.passes)

    @property
    def variables(self) -> List[Dict[str, Any]]:
        """An entry for each Variable that a pass looked at; see PassResult."""
        return [variable for p in self.passes for variable in p.variables]

    def to_dict(self) -> Dict[str, Any]:
        """The same as plain lists and dictionaries, which json can write."""
        return {
            "passes": [
                {
                    "name": p.name,
                    "modified": p.modified,
                    "changes": list(p.changes),
                    "skipped": [{"node": node, "reason": reason} for node, reason in p.skipped],
                    "note": p.note,
                    "other_bits": p.other_bits,
                    "other_numbers": p.other_numbers,
                }
                for p in self.passes
            ],
            "tables": [dict(table) for table in self.tables],
            "variables": [dict(variable) for variable in self.variables],
            "collectives_per_step": dict(self.collectives),
            "pipeline": dict(self.pipeline),
            "device": self.device,
            "rank": self.rank,
            "size": self.size,
            "ops": {"counted_from": self.counted_from, "before": _ops(self.before), "after": _ops(self.after)},
            "crossings": {
                "before": self.before.crossings if self.before else None,
                "after": self.after.crossings if self.after else None,
                "note": self.after.crossings_note if self.after else "",
            },
            "memory": {"tables_bytes": self.tables_bytes(), "variables": dict(self.memory)},
        }

    def tables_bytes(self) -> Optional[int]:
        """What all tables took when the last session on the graph ended; None before that."""
        sizes = [table["bytes"] for table in self.tables]
        return sum(sizes) if sizes and None not in sizes else None

    def __str__(self) -> str:
        return report_text.text(self)

    def add_stats(self, table: str, stats: Dict[str, Any]) -> None:
        """Adds what is known of a table once a session has ended: STATS, and on which device it was."""
        for entry in self.tables:
            if entry["name"] == table:
                entry.update(stats)
                entry["overhead_bytes_per_row"] = _overhead_bytes_per_row(entry)

    def add_pipeline(self, timing: Dict[str, Any]) -> None:
        """Adds what is known of the embedding pipeline once a session has ended; see pipeline/timing.py."""
        self.pipeline.update(timing)

    def write_html(self, path: str) -> None:
        """Writes a page that needs nothing else: all that str() tells, and the graph before and after. Makes folders as needed."""
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as page:
            page.write(report_html.page(self))


def describe_table(table: RewrittenTable) -> Dict[str, Any]:
    """A table's entry in the report."""
    spec = table.spec
    return {
        "name": table.name,
        "dim": spec.dim,
        "device": table.kind,
        "optimizer": table.optimizer or None,
        "slots": list(table.slot_names),
        "initializer": str(spec.initializer),
        "seed": spec.seed,
        "min_frequency": spec.min_frequency,
        "eviction": spec.eviction.to_dict(),
        "max_rows": spec.max_rows,
        "lookups": table.num_probes,
        "fused_into": None if table.exported is None else layout.table_name(table.resource),
        **dict.fromkeys(STATS),
        "overhead_bytes_per_row": None,
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
    """Makes `new` the report of `graph`, and the last one, unless nothing was done to this graph and something to an earlier one."""
    global _last
    if new.modified or not (_last and _last.modified):
        _last = new
    _of_graph[graph] = new


def _ops(summary: Optional[GraphSummary]) -> Optional[Dict[str, Any]]:
    return {"total": summary.num_ops, "types": dict(summary.types)} if summary else None


def _overhead_bytes_per_row(table: Dict[str, Any]) -> Optional[float]:
    """Bytes beyond row and key: index, counts, steps, padding, room to grow, keys that are not admitted yet."""
    if not table["rows"]:
        return None
    row_and_key = 4 * table["dim"] * (1 + len(table["slots"])) + 8
    return round(table["bytes"] / table["rows"] - row_and_key, 1)
