"""A run as Markdown: the generated section of docs/benchmarks.md, and its pictures."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

from benchmarks import charts, contests, goals, wording
from benchmarks.contests import Contest, Run
from benchmarks.described import BENCHMARKS
from benchmarks.goals import VERDICTS, Verdicts
from benchmarks.harness import OURS

BEGIN, END = "<!-- tables of a run: begin -->", "<!-- tables of a run: end -->"
LONGEST = 12  # Rows of a table that is shown unfolded.
CAPTIONS = {
    "tables_and_optimizers.svg": "Tables and optimizers: ours over each peer",
    "parser.svg": "The parser, and files to batches: ours over TensorFlow",
    "steps.svg": "Training steps on two threads: ours over TensorFlow and TFRA",
}


def update(docs: str, run: Run) -> List[str]:
    """Replaces the section of docs/benchmarks.md and writes the pictures that it shows. Returns the paths of all it wrote."""
    path = os.path.join(docs, "benchmarks.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    verdicts = goals.judge(run)
    pictures = charts.pictures(run, verdicts)
    files = {path: replaced(text, section(run, verdicts, list(pictures)))}
    files.update({os.path.join(docs, "images", name): svg for name, svg in pictures.items()})
    os.makedirs(os.path.join(docs, "images"), exist_ok=True)
    for where, content in files.items():
        with open(where, "w", encoding="utf-8") as file:
            file.write(content)
    return list(files)


def replaced(text: str, inside: str) -> str:
    """`text` with what stands between the marks replaced. ValueError unless each mark stands there once, in this order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the page must have one line {BEGIN} and, behind it, one line {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{inside.strip()}\n\n{END}{rest.split(END)[1]}"


def section(run: Run, verdicts: Verdicts, pictures: Sequence[str]) -> str:
    parts = [f"{_escape(contests.machine_line(run.machine))}.", _goals(verdicts)]
    parts += [f"![{CAPTIONS[name]}](images/{name})" for name in pictures]
    for name, found in run.benchmarks.items():
        described = BENCHMARKS.get(name)
        parts.append(_escape(f"### {name}, {found[0].unit}"))
        if described:
            parts.append(described.sentence)
        parts.append(_contests(found))
    return "\n\n".join(parts)


def _goals(verdicts: Verdicts) -> str:
    rows = []
    for goal, found in verdicts.judged.items():
        of = {v: ", ".join(wording.judged(j) for j in found if j.verdict == v) or "–" for v in VERDICTS}
        rows.append([f"{wording.where(goal)}: {wording.wanted(goal)}", *of.values()])
    for goal, why in verdicts.unmeasured.items():
        rows.append([f"{wording.where(goal)}: {wording.wanted(goal)}", why, "", ""])
    return table(["goal", *(f"{verdict}: {verdicts.count(verdict)}" for verdict in VERDICTS)], rows)


def _contests(found: Sequence[Contest]) -> str:
    """A row for each contest: our rate, and ours over each peer, with a column for each number of threads."""
    threads = sorted({count for contest in found for count in contest.threads})
    parts: List[str] = []
    groups: Dict[tuple, List[Contest]] = {}
    for contest in found:  # Contests with other peers have a table of their own.
        key = (*map(contest.name_of, contest.peers), contest.floor)
        groups.setdefault(key, []).append(contest)
    for same in groups.values():
        first = same[0]
        facts = BENCHMARKS[first.benchmark].facts if first.benchmark in BENCHMARKS else ()
        headings = [*first.cells(), *_threaded("ours", threads)]
        for peer in first.peers:
            headings += _threaded(f"over {first.name_of(peer)}", threads)
        if first.floor and first.peers:
            headings += _threaded(f"{first.floor} over {first.name_of(first.peers[0])}", threads)
        rows = []
        for contest in same:
            row = list(contest.cells().values())
            row += [_or_dash(contest.rate(OURS, count), wording.rate) for count in threads]
            for peer in contest.peers:
                row += [_or_dash(contest.over(peer, count), wording.ratio) for count in threads]
            if first.floor and first.peers:
                row += [
                    _or_dash(contest.over(contest.peers[0], count, contest.floor), wording.ratio) for count in threads
                ]
            rows.append(row + [_fact(contest, fact) for fact in facts])
        made = table([*headings, *facts], rows)
        folded = f"<details><summary>{len(rows)} contests</summary>\n\n{made}\n\n</details>"
        parts.append(made if len(rows) <= LONGEST else folded)
    return "\n\n".join(parts)


def _threaded(heading: str, threads: Sequence[int]) -> List[str]:
    """The first column has the heading, those beside it the number of threads alone."""
    return [f"{heading}, {wording.threads(count)}" if i == 0 else str(count) for i, count in enumerate(threads)]


def _or_dash(value, words) -> str:
    return "–" if value is None else words(value)


def _fact(contest: Contest, name: str) -> str:
    values = dict.fromkeys(str(facts[name]) for facts in contest.facts.values() if name in facts)
    return " / ".join(values) or "–"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
