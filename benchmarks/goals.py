"""The goals of all benchmarks, and what a run says to each: met, missed, or beyond the floor of the same run.

A goal that the bare loop of the same contest misses as well is beyond the floor: on that machine, at that hour, nothing could meet it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from benchmarks.contests import EACH_PROCESSOR, ONE_PROCESSOR, Contest, Run

MET, MISSED, BEYOND = "met", "missed", "beyond the floor"
VERDICTS = (MET, MISSED, BEYOND)
ONE_THREAD = "one thread"  # As a peer: ours with two threads over ours with one.


@dataclasses.dataclass(frozen=True)
class Goal:
    """Ours over the peer, in each contest that fits; None fits all.

    at_least: a ratio of rates. at_most: in its place, percent that ours takes longer, by the contest's fact "cost".
    """

    benchmark: str
    peer: str
    at_least: float = 0.0
    what: Optional[Tuple[str, ...]] = None
    dims: Optional[Tuple[int, ...]] = None
    distributions: Optional[Tuple[str, ...]] = None
    without: Tuple[str, ...] = ()  # Distributions that have no such goal.
    threads: int = 1
    at_most: Optional[float] = None

    def fits(self, contest: Contest) -> bool:
        return (
            contest.benchmark == self.benchmark
            and (self.what is None or contest.what in self.what)
            and (self.dims is None or contest.dim in self.dims)
            and (self.distributions is None or contest.distribution in self.distributions)
            and contest.distribution not in self.without
        )


GOALS: Tuple[Goal, ...] = (
    Goal("find", "TFRA", 8, dims=(16,), distributions=("uniform",)),
    Goal("find", "TFRA", 6, dims=(16,), distributions=("zipf",)),
    Goal("find", "TFRA", 12, dims=(128,), distributions=("uniform",)),
    Goal("find", "TFRA", 8, dims=(128,), distributions=("zipf",)),
    Goal("find_or_insert", "TFRA insert", 10),
    Goal("find_or_insert", ONE_THREAD, 1.8, threads=2),
    Goal("adam", "TensorFlow", 5, what=("apply",)),
    Goal("adam", "TF Adagrad", 3, what=("apply",)),
    Goal("adam", "TFRA", 10, what=("step",)),
    Goal("unique", "tf.unique", 6),
    Goal("unique", "tf.unique", 10, threads=2),
    Goal("small_batches", "tf.lookup", 1, what=("find",)),
    Goal("small_batches", "TensorFlow", 1, what=("lookup", "apply", "unique")),
    Goal("parse_example", "TensorFlow", 10, distributions=("39x1",)),
    Goal("parse_example", "TensorFlow", 6, distributions=("shuffled",)),
    Goal("parse_example", "TensorFlow", 6, what=("fixed",), distributions=("26x20",)),
    Goal("parse_example", "TensorFlow", 4, what=("fixed",), distributions=("8x200",)),
    Goal("parse_example", "TensorFlow", 6, what=("sparse",), distributions=("8x200",)),
    Goal("file_to_batch", "TensorFlow", 8, without=("39x1-64bit-gz",)),  # Whose floor is zlib.
    Goal("file_to_batch", ONE_PROCESSOR, 1.8, without=("39x1-64bit-gz",), threads=2),
    Goal("graph_rewrite", "TensorFlow", 2, threads=2),
    Goal("end_to_end", "TensorFlow", 2, threads=2),
    Goal("end_to_end", "TFRA", 3, threads=2),
    Goal("table_exchange", "an hvd.alltoall a table", 5, threads=2),  # Two ranks: with one thread they share a core.
    Goal("table_exchange", "the same bytes", 1 / 1.3, threads=2),
    Goal("quantized_scoring", "TensorFlow", 2, what=("layer",), dims=(1000,)),
    Goal("pipeline_cost", "off", at_most=2),
    Goal("pipeline_cost", "off", at_most=2, threads=2),
)


@dataclasses.dataclass(frozen=True)
class Judgement:
    """A goal and one contest. value, floor: ratios, or percent for `at_most`; floor is None where the contest has none."""

    goal: Goal
    contest: Contest
    value: float
    floor: Optional[float] = None

    @property
    def verdict(self) -> str:
        if self.goal.at_most is not None:
            return MET if self.value <= self.goal.at_most else MISSED
        if self.value >= self.goal.at_least:
            return MET
        return BEYOND if self.floor is not None and self.floor < self.goal.at_least else MISSED


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """All judgements of a run, by goal; and for each goal without any, why."""

    judged: Dict[Goal, List[Judgement]]
    unmeasured: Dict[Goal, str]

    def count(self, verdict: str) -> int:
        return sum(j.verdict == verdict for found in self.judged.values() for j in found)

    def of(self, contest: Contest, peer: str, threads: int) -> Optional[Judgement]:
        """The judgement of ours over that peer, if there is a goal."""
        for goal, found in self.judged.items():
            if goal.peer == peer and goal.threads == threads:
                for judgement in found:
                    if judgement.contest is contest:
                        return judgement
        return None


def judge(run: Run) -> Verdicts:
    judged: Dict[Goal, List[Judgement]] = {}
    unmeasured: Dict[Goal, str] = {}
    for goal in GOALS:
        fitting = [contest for contest in run.contests if goal.fits(contest)]
        found = [judgement for judgement in (_judgement(goal, contest) for contest in fitting) if judgement]
        if found:
            judged[goal] = found
        elif not fitting:
            unmeasured[goal] = "not run"
        elif not all(count in contest.rates for contest in fitting for count in _threads(goal)):
            unmeasured[goal] = f"not run with {' and '.join(map(str, _threads(goal)))} threads"
        else:
            unmeasured[goal] = f"{goal.peer} did not run"
    return Verdicts(judged, unmeasured)


def _threads(goal: Goal) -> Tuple[int, ...]:
    return (1, 2) if goal.peer == ONE_THREAD else (goal.threads,)


def _judgement(goal: Goal, contest: Contest) -> Optional[Judgement]:
    """None where the contest did not run with so many threads, or without the peer."""
    if goal.at_most is not None:
        cost = _percent(contest.facts.get(goal.threads, {}).get("cost"))
        return None if cost is None else Judgement(goal, contest, cost)
    if goal.peer == ONE_THREAD:
        value = contest.gain()
        floor = contest.gain(contest.floor) if contest.floor else None
    else:
        # What threads gain over one processor has no bare loop: its floor are processes that share nothing.
        below = EACH_PROCESSOR if goal.peer == ONE_PROCESSOR else contest.floor
        value = contest.over(goal.peer, goal.threads)
        floor = contest.over(goal.peer, goal.threads, below) if below and below != goal.peer else None
    return None if value is None else Judgement(goal, contest, value, floor)


def _percent(fact: Any) -> Optional[float]:
    """The number of a fact such as "+1.2 %"."""
    try:
        return float(str(fact).split()[0])
    except (ValueError, IndexError):
        return None
