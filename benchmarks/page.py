"""python -m benchmarks.page results.json [--out page.html] [--docs docs]: a run as one HTML page, and as the generated section of docs."""

from __future__ import annotations

import argparse
import html
import os
import sys
from typing import List, Sequence

from benchmarks import charts, contests, drawing, goals, markdown, wording
from benchmarks.contests import Contest, Run
from benchmarks.described import BENCHMARKS
from benchmarks.goals import BEYOND, MET, MISSED, VERDICTS, Verdicts
from benchmarks.harness import OURS

escape = html.escape

_PAGE_STYLE = """
:root { color-scheme: light dark; --text: #1d242c; --quiet: #68737f; --line: #d9dfe6; --back: #fff; --met: #1b7a43; --missed: #b3372b }
@media (prefers-color-scheme: dark) { :root { --text: #e8ecf1; --quiet: #98a4b1; --line: #38414c; --back: #10141a; --met: #5fcf8f; --missed: #ff8d80 } }
body { font: 15px/1.45 system-ui, 'Segoe UI', sans-serif; color: var(--text); background: var(--back); margin: 0 auto; max-width: 880px; padding: 20px }
h1 { font-size: 24px; margin-bottom: 4px } h2 { font-size: 19px; margin: 38px 0 2px; border-top: 1px solid var(--line); padding-top: 16px }
h2 code { font-size: 14px; font-weight: 400; color: var(--quiet) } p { margin: 4px 0 12px } a { color: inherit } .quiet { color: var(--quiet) }
nav { font-size: 14px } .scroll { overflow-x: auto } svg { display: block; width: 100%; max-width: 840px; height: auto; margin: 8px 0 }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums } th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid var(--line) }
th { font-weight: 600; vertical-align: bottom } th.l, td.l { text-align: left } td.facts { text-align: left; color: var(--quiet); min-width: 200px; font-size: 12px }
td.l { vertical-align: top } td.l span { white-space: nowrap } .met { color: var(--met) } .missed { color: var(--missed) } .beyond { color: var(--quiet) }
.counts { display: flex; gap: 26px; margin: 12px 0; flex-wrap: wrap } .counts b { display: block; font-size: 30px; line-height: 1.1 }
summary { cursor: pointer }
"""
_CLASSES = {MET: "met", MISSED: "missed", BEYOND: "beyond"}


def page(run: Run) -> str:
    verdicts = goals.judge(run)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>tf_booster: benchmarks</title><style>{_PAGE_STYLE}{drawing.STYLE}</style></head><body>",
        f'<h1>tf_booster beside its peers</h1><p class="quiet">{escape(contests.machine_line(run.machine))}</p>',
        *_summary(verdicts),
    ]
    links = (f'<a href="#{escape(name)}">{escape(name)}</a>' for name in run.benchmarks)
    parts.append(f"<nav>{' · '.join(links)}</nav>")
    for name, found in run.benchmarks.items():
        parts += _section(name, found, verdicts)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _summary(verdicts: Verdicts) -> List[str]:
    counts = [
        f'<div class="{_CLASSES[verdict]}"><b>{verdicts.count(verdict)}</b>{verdict}</div>' for verdict in VERDICTS
    ]
    parts = [f'<div class="counts">{"".join(counts)}</div>']
    if verdicts.judged:
        parts.append(
            '<div class="scroll"><table><tr><th class="l">contest<th class="l">goal<th class="l">measured</tr>'
        )
        for goal, found in verdicts.judged.items():
            cells = " · ".join(f'<span class="{_CLASSES[j.verdict]}">{escape(wording.judged(j))}</span>' for j in found)
            parts.append(
                f'<tr><td class="l">{escape(wording.where(goal))}<td class="l">{escape(wording.wanted(goal))}'
                f'<td class="l">{cells}</tr>'
            )
        parts.append("</table></div>")
    parts.append(
        '<p class="quiet">Ratios of medians of one run, ours over the peer. Green: met. Red: missed. Grey: beyond the floor, which '
        "is a bare loop of the same contest, without growth, locks or checks, in the same run.</p>"
    )
    if verdicts.unmeasured:
        lines = "".join(
            f"<li>{escape(wording.where(goal))} {escape(wording.wanted(goal))}: {escape(why)}</li>"
            for goal, why in verdicts.unmeasured.items()
        )
        parts.append(
            f'<details class="quiet"><summary>{len(verdicts.unmeasured)} goals not measured</summary><ul>{lines}</ul></details>'
        )
    return parts


def _section(name: str, found: Sequence[Contest], verdicts: Verdicts) -> List[str]:
    described = BENCHMARKS.get(name)
    title = escape(described.title if described else name)
    parts = [f'<h2 id="{escape(name)}">{title} <code>{escape(name)}</code></h2>']
    if described:
        parts.append(f"<p>{escape(described.sentence)}</p>")
    parts.append(charts.of_benchmark(found, verdicts))
    gains = charts.of_gains(found, verdicts)
    if gains:
        parts += ["<p>What the second thread brings:</p>", gains]
    return [*parts, _table(found, verdicts)]


def _table(found: Sequence[Contest], verdicts: Verdicts) -> str:
    """Rates of all contestants, a row for each contest and number of threads, with ours over each peer in brackets."""
    headings = list(found[0].cells())
    others = list(dict.fromkeys((name, c.name_of(name)) for c in found for name in c.contestants if name != OURS))
    # One column for contestants of one name, though they differ between contests.
    names = list(dict.fromkeys(shown for _, shown in others))
    head = "".join(f'<th class="l">{escape(h)}' for h in headings) + f"<th>threads<th>ours, {escape(found[0].unit)}"
    rows = [f'<tr>{head}{"".join(f"<th>{escape(name)}" for name in names)}<th class="l">facts</tr>']
    for contest in found:
        for count in contest.threads:
            cells = [f'<td class="l">{escape(value)}' for value in contest.cells().values()]
            ours = contest.rate(OURS, count)
            cells += [f"<td>{count}<td>{wording.rate(ours) if ours is not None else '–'}"]
            of_name = {contest.name_of(name): name for name in contest.rates[count] if name != OURS}
            cells += [_cell(contest, of_name.get(name), count, verdicts) for name in names]
            facts = ", ".join(f"{key} {value}" for key, value in contest.facts[count].items())
            rows.append(f'<tr>{"".join(cells)}<td class="facts">{escape(facts)}</tr>')
    return '<div class="scroll"><table>' + "\n".join(rows) + "</table></div>"


def _cell(contest: Contest, name: str, threads: int, verdicts: Verdicts) -> str:
    rate = contest.rate(name, threads) if name else None
    if rate is None:
        return "<td>"
    over = contest.over(name, threads)
    judgement = verdicts.of(contest, name, threads)
    kind = f' class="{_CLASSES[judgement.verdict]}"' if judgement else ""
    return f"<td{kind}>{wording.rate(rate)}" + (f"&nbsp;({wording.ratio(over)})" if over else "")


def write(results: str, out: str = "") -> str:
    """Writes the page of a results file, beside it unless `out` says where; returns its path."""
    out = out or os.path.splitext(results)[0] + ".html"
    content = page(contests.load(results))
    with open(out, "w", encoding="utf-8") as file:
        file.write(content)
    return out


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("results", nargs="?", default="build/benchmarks.json", help="of a run (default %(default)s)")
    parser.add_argument("--out", default="", help="the page; beside the results by default")
    parser.add_argument("--docs", help="the folder whose benchmarks.md gets the tables, and images/ the pictures")
    args = parser.parse_args(arguments)
    print(f"written to {write(args.results, args.out)}")
    if args.docs:
        print("written to " + ", ".join(markdown.update(args.docs, contests.load(args.results))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
