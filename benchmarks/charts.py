"""From contests to bar charts: those of the page, and the pictures in docs."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from benchmarks import drawing, wording
from benchmarks.contests import ONE_PROCESSOR, Contest, Run
from benchmarks.described import BENCHMARKS
from benchmarks.drawing import Bar, Panel, Row
from benchmarks.goals import BEYOND, MET, ONE_THREAD, Judgement, Verdicts

CLASSES = {MET: "met", BEYOND: "quiet"}


class Part(NamedTuple):
    """A panel of a picture: the contests of a benchmark over these peers (contestants' names) with these numbers of threads."""

    title: str
    benchmark: str
    peers: Tuple[str, ...]
    threads: Tuple[int, ...] = (1,)
    what: str = ""  # All, if empty.


PICTURES: Dict[str, Tuple[Part, ...]] = {
    "tables_and_optimizers": (
        Part("find", "find", ("TFRA",)),
        Part("find_or_insert, a tenth of the keys new", "find_or_insert", ("TFRA insert",)),
        Part("unique, a million ids", "unique", ("tf.unique",), (1, 2)),
        Part("Adam, the update alone", "adam", ("TensorFlow", "TF Adagrad"), what="apply"),
        Part("Adam, a step with lookup and sum of gradients", "adam", ("TFRA",), what="step"),
    ),
    "parser": (
        *(Part(f"parse_example, {kind}", "parse_example", ("TensorFlow",), what=kind) for kind in ("fixed", "sparse")),
        Part("file_to_batch", "file_to_batch", ("TensorFlow",), (1, 2)),
    ),
    "steps": (
        Part("graph_rewrite, 38 tables and 100 Variables", "graph_rewrite", ("TensorFlow", "TFRA"), (2,)),
        Part("end_to_end, 26 tables", "end_to_end", ("TensorFlow", "TFRA"), (2,)),
    ),
}


class _Chart:
    """Collects panels, and the names of series in the order in which they come."""

    def __init__(self, verdicts: Verdicts):
        self.panels: List[Panel] = []
        self.names: List[str] = []
        self._verdicts = verdicts
        self._floors: List[str] = []

    def add(self, title: str, contests: Sequence[Contest], peers: Optional[Sequence[str]], threads, but=()) -> None:
        rows = []
        for contest in contests:
            bars = [
                self._bar(contest, peer, count, pale=count > 1 and len(threads) > 1)
                for peer in contest.peers
                for count in contest.threads
                if (peers is None or peer in peers) and count in threads and contest.over(peer, count)
            ]
            if bars:
                rows.append(Row(wording.contest(contest, but), bars))
        if rows:
            self.panels.append(Panel(title, rows))

    def _bar(self, contest: Contest, peer: str, threads: int, pale: bool) -> Bar:
        name = contest.name_of(peer)
        if name not in self.names:
            self.names.append(name)
        floor = contest.over(peer, threads, contest.floor) if contest.floor else None
        if floor:
            self._floors.append(contest.floor)
        judgement = self._verdicts.of(contest, peer, threads)
        return Bar(
            contest.over(peer, threads), self.names.index(name), pale, _goal(judgement), floor, _class(judgement)
        )

    def svg(self, about: str, card: bool = False) -> str:
        """Empty where there is nothing to draw."""
        if not self.panels:
            return ""
        floor = ", ".join(dict.fromkeys(self._floors))
        return drawing.chart(
            self.panels, [f"over {name}" for name in self.names], about, floor, "paler: two threads", card
        )


def _goal(judgement: Optional[Judgement]) -> Optional[float]:
    """The ratio that the goal asks for."""
    if judgement is None:
        return None
    goal = judgement.goal
    return goal.at_least if goal.at_most is None else 1 / (1 + goal.at_most / 100)


def _class(judgement: Optional[Judgement]) -> str:
    return "" if judgement is None else CLASSES.get(judgement.verdict, "missed")


def of_benchmark(contests: Sequence[Contest], verdicts: Verdicts) -> str:
    """All contests of one benchmark, over every peer; a panel for each `what` where they differ in more. Empty without peers."""
    chart = _Chart(verdicts)
    threads = sorted({count for contest in contests for count in contest.threads})
    described = BENCHMARKS.get(contests[0].benchmark)
    if described and described.what and (described.dim or described.distribution):
        for what in dict.fromkeys(contest.what for contest in contests):
            of_it = [contest for contest in contests if contest.what == what]
            chart.add(what, of_it, None, threads, but=(described.what,))
    else:
        chart.add("", contests, None, threads)
    return chart.svg(f"{contests[0].benchmark}: ours over each peer")


def of_gains(contests: Sequence[Contest], verdicts: Verdicts) -> str:
    """What the second thread brings, where there is a goal for that; else empty."""
    rows, floor = [], "the floor"
    for goal, found in verdicts.judged.items():
        if goal.peer not in (ONE_THREAD, ONE_PROCESSOR):
            continue
        for judgement in found:
            if judgement.contest in contests:
                bar = Bar(judgement.value, goal=goal.at_least, floor=judgement.floor, verdict=_class(judgement))
                rows.append(Row(wording.contest(judgement.contest), [bar]))
                floor = "two processes" if goal.peer == ONE_PROCESSOR else judgement.contest.floor or floor
    about = f"{contests[0].benchmark}: two threads over one"
    return drawing.chart([Panel("", rows)], ["two threads over one"], about, floor) if rows else ""


def pictures(run: Run, verdicts: Verdicts) -> Dict[str, str]:
    """The SVG files of docs by their names, those of which something ran."""
    made = {}
    for name, parts in PICTURES.items():
        chart = _Chart(verdicts)
        for part in parts:
            contests = [
                contest
                for contest in run.benchmarks.get(part.benchmark, [])
                if part.what in ("", contest.what) and " batch " not in contest.distribution
            ]
            described = BENCHMARKS[part.benchmark]
            chart.add(part.title, contests, part.peers, part.threads, but=(described.what,) if part.what else ())
        svg = chart.svg(", ".join(part.title for part in parts), card=True)
        if svg:
            made[f"{name}.svg"] = svg
    return made
