"""The report as text for people."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Sequence, Tuple

# Reasons that are alike but for names are told once, when there are more than this many.
_TOLD_ONE_BY_ONE = 3
_BOUND = {"embedding": "embedding graph", "main": "main graph", "program": "program between its steps"}
_MANNERS = {"ahead": "one ahead of the other", "in one": "both halves in one run"}


def text(report: Any) -> str:
    """All of a Report but the graph itself, in lines of plain text."""
    lines = [f"tf_booster: {len(report.tables)} table(s) on {report.device}, rank {report.rank} of {report.size}"]
    if report.note:
        lines.append(f"  {report.note}")
    lines += [f"  {line}" for line in figures(report)]
    for names, told in grouped([(table["name"], _describe(table)) for table in report.tables]):
        lines.append(f"  table{'' if len(names) == 1 else 's'} {some(names)}: {told}")
    for p in report.passes:
        lines.append(f"  pass {p.name}: {outcome(p)}")
        lines += [f"    {change}" for change in changes(p)]
        for nodes, reason in grouped(p.skipped):
            lines.append(f"    skipped {some(nodes)}: {reason}")
    return "\n".join(lines)


def changes(p: Any) -> List[str]:
    """The changes of a pass; many that differ in names and numbers alone become one line. Who compares with a plain run finds
    here, too, which pass gives other last bits."""
    groups = grouped([("", change) for change in p.changes])
    lines = [change if len(nodes) == 1 else f"{len(nodes)} times: {change}" for nodes, change in groups]
    if p.other_bits:
        lines.append(
            f"its sums come in another order than TensorFlow's, with other last bits; disable_passes=['{p.name}'] keeps TensorFlow's"
        )
    if p.other_numbers:
        lines.append(
            f"other numbers than TensorFlow's: {p.other_numbers}; disable_passes=['{p.name}'] keeps TensorFlow's"
        )
    return lines


def outcome(p: Any) -> str:
    """What came of a pass, in a few words."""
    return "changed the graph" if p.modified else p.note or "changed nothing"


def figures(report: Any) -> List[str]:
    """Op counts, crossings, memory and Variables, a line each, as far as they are known."""
    lines = []
    if report.before and report.after:
        was, now = report.before.num_ops, report.after.num_ops
        change = f" ({100.0 * (now - was) / was:+.0f} %)" if was else ""
        lines.append(f"ops in a step: {was} before, {now} after{change}; counted from {report.counted_from}")
        types = changed_types(report.before.types, report.after.types)
        if types:
            lines.append("  " + ", ".join(f"{name} {b} -> {a}" for name, b, a in types[:8]))
        crossings = f"{report.before.crossings} before, {report.after.crossings} after"
        lines.append(f"host-device crossings in a step: {crossings} ({report.after.crossings_note})")
    if report.size > 1:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.collectives.items())
        lines.append(f"collectives in a step: {sum(report.collectives.values())} ({kinds})")
    lines += pipeline(report) + memory(report)
    fused = [v for v in report.variables if v.get("fused_into")]
    if report.variables:
        into = len({v["fused_into"] for v in fused})
        lines.append(
            f"Variables: {len(fused)} of {len(report.variables)} updated by {into} fused op{'' if into == 1 else 's'}"
        )
    return lines


def pipeline(report: Any) -> List[str]:
    """Where the steps of the embedding pipeline spent their time."""
    of = report.pipeline
    if not of:
        return []
    alone = of["steps"] - of["in_one_run"]
    first = f" (in {alone} of the first steps)" if 2 * alone < of["steps"] else ""
    return [
        f"embedding pipeline ({of['mode']}): {of['steps']} steps of {of['step_ms']:.2f} ms: embedding graph {of['embedding_ms']:.2f}{first}, "
        f"main graph {of['main_ms']:.2f}, waiting for the embedding graph {of['waiting_ms']:.2f}; bound by the {_BOUND[of['bound_by']]}"
        + _manner(of)
    ]


def _manner(of: Dict[str, Any]) -> str:
    """How the two halves are run, and why."""
    if of["manner"] is None:
        return ""
    times = ", ".join(f"{_MANNERS[manner]} {ms:.3g}" for manner, ms in of["measured_ms"].items())
    return f"; {_MANNERS[of['manner']]}" + (f" (measured, ms a step: {times})" if times else "")


def memory(report: Any) -> List[str]:
    """What tables and Variables take, as far as it is known."""
    found = []
    if report.memory:
        for key, what in (("trainable", "trainable Variables"), ("other", "slots, counters and other Variables")):
            of = report.memory[key]
            found.append(f"{of['count']} {what} {mebibytes(of['bytes'])}")
        if report.memory["unknown"]:
            found.append(f"{len(report.memory['unknown'])} Variables of unknown shape")
    if report.tables:
        size = report.tables_bytes()
        found.append("tables " + ("grow with their ids" if size is None else f"{mebibytes(size)} at the end"))
    return ["memory: " + ", ".join(found)] if found else []


def mebibytes(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 / 10 else f"{size / 1024:.1f} KiB" if size >= 102 else f"{size} B"


def changed_types(before: Dict[str, int], after: Dict[str, int]) -> List[Tuple[str, int, int]]:
    """(op type, how many before, how many after) where these differ, the largest differences first."""
    types = [(name, before.get(name, 0), after.get(name, 0)) for name in dict.fromkeys([*before, *after])]
    return sorted((t for t in types if t[1] != t[2]), key=lambda t: (-abs(t[2] - t[1]), t[0]))


def grouped(skipped: Iterable[Tuple[str, str]]) -> List[Tuple[List[str], str]]:
    """Nodes and the reason that they share; many reasons that differ in names alone become one, told for the first."""
    alike: Dict[str, List[Tuple[str, str]]] = {}
    for node, reason in skipped:
        alike.setdefault(re.sub(r"'[^']*'|seed -?\d+", "*", reason), []).append((node, reason))
    groups: List[Tuple[List[str], str]] = []
    for entries in alike.values():
        if len(entries) <= _TOLD_ONE_BY_ONE:
            groups += [([node], reason) for node, reason in entries]
        else:
            same = len({reason for _, reason in entries}) == 1
            groups.append(([node for node, _ in entries], entries[0][1] + ("" if same else " (and the like)")))
    return groups


def some(nodes: Sequence[str]) -> str:
    """One name, or how many and the first of them."""
    if len(nodes) == 1:
        return nodes[0]
    return f"{len(nodes)} ({', '.join(nodes[:3])}{', ...' if len(nodes) > 3 else ''})"


def _describe(table: Dict[str, Any]) -> str:
    trained = f"{table['optimizer']} ({', '.join(table['slots']) or 'no slots'})" if table["optimizer"] else "read only"
    rules = [f"min_frequency {table['min_frequency']}"] if table["min_frequency"] > 1 else []
    rules += [f"eviction {table['eviction']}"] if table["eviction"] else []
    rules += [f"max_rows {table['max_rows']}"] if table["max_rows"] else []
    return (
        f"dim {table['dim']}, on the {table['device']}, {trained}, {table['initializer']}, seed {table['seed']}, "
        f"{table['lookups']} lookup(s)" + "".join(f", {rule}" for rule in rules) + _describe_stats(table)
    )


def _describe_stats(table: Dict[str, Any]) -> str:
    if table["rows"] is None:
        return ""
    return (
        f"; at the end {table['rows']} rows, {table['pending']} keys not admitted yet, {table['evicted']} evicted, "
        f"{mebibytes(table['bytes'])}"
        + (f", {mebibytes(table['host_bytes'])} of them rows in the host's memory" if table["host_bytes"] else "")
        + (f", {mebibytes(table['disk_bytes'])} of them rows on a disk" if table["disk_bytes"] else "")
        + (f" ({table['overhead_bytes_per_row']:.0f} B a row beyond row and key)" if table["rows"] else "")
    )
