"""Figures, contests and goals in words, as the page and docs have them."""

from __future__ import annotations

from typing import List

from benchmarks.contests import ONE_PROCESSOR, Contest
from benchmarks.described import PEER_NAMES
from benchmarks.goals import ONE_THREAD, Goal, Judgement


def ratio(value: float) -> str:
    """1.74×, 8.6×, 21×: three figures at most, two beyond 20."""
    return f"{value:.{2 if value < 2 else 1 if value < 20 else 0}f}×"


def rate(value: float) -> str:
    """Three figures, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def contest(one: Contest, but: tuple = ()) -> str:
    """What tells a contest from others of its benchmark, without the headings in `but`: `dim 16 zipf`."""
    parts = []
    for heading, value in one.cells().items():
        if heading not in but:
            parts.append(f"{heading} {value}" if value.isdigit() else value)
    return " ".join(parts) or one.what


def where(goal: Goal) -> str:
    """The contests of a goal: `adam apply, 2 threads`."""
    parts = [" ".join([goal.benchmark, *(goal.what if goal.what and len(goal.what) == 1 else ())])]
    parts += [f"dim {dim}" for dim in goal.dims or ()]
    parts += goal.distributions or ()
    if goal.threads > 1 and goal.peer not in (ONE_THREAD, ONE_PROCESSOR):
        parts.append(threads(goal.threads))
    return ", ".join(parts)


def wanted(goal: Goal) -> str:
    """What the goal asks for: `≥ 8× TFRA`."""
    if goal.at_most is not None:
        return f"≤ {goal.at_most:g} % longer than without"
    peer = PEER_NAMES.get((goal.benchmark, goal.what[0] if goal.what else "op", goal.peer), goal.peer)
    least = f"≥ {goal.at_least:.2g}×"
    return f"two threads {least} one" if goal.peer in (ONE_THREAD, ONE_PROCESSOR) else f"{least} {peer}"


def judged(judgement: Judgement) -> str:
    """A contest's name and figure, and its floor's where it missed: `16 zipf 7.7× (floor 12.7×)`."""
    cells = judgement.contest.cells()
    goal = judgement.goal
    fixed: List[str] = list(goal.distributions or ()) + [str(dim) for dim in goal.dims or ()]
    if goal.what and len(goal.what) == 1:
        fixed += goal.what
    name = " ".join(value for value in cells.values() if value not in fixed)
    value = f"{judgement.value:+.1f} %" if goal.at_most is not None else ratio(judgement.value)
    floor = f" (floor {ratio(judgement.floor)})" if judgement.floor is not None and judgement.verdict != "met" else ""
    return f"{name} {value}{floor}".strip()
