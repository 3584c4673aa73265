"""Runs contestants in turn (A B A B …) and reports the medians: on a shared machine only ratios from one run mean anything."""

from __future__ import annotations

import collections
import dataclasses
import statistics
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

OURS = "tf_booster"
BARE_LOOP = "bare loop"  # The floor, from floors.py.
KEY = ("benchmark", "what", "dim", "distribution", "threads")  # No two results of a file have the same.

# Wall time. With --cpu-time the time of this process alone, for one thread on a machine that others use too.
clock = time.perf_counter


@dataclasses.dataclass
class Result:
    """One line of the table. `rates`: units per second of each contestant, in millions; the first is ours."""

    benchmark: str
    what: str  # The contest within the benchmark.
    dim: int
    distribution: str
    threads: int
    unit: str
    rates: Dict[str, float]
    facts: Dict[str, Any]  # Unique share, hit rate, load factor, ….


def require_distinct(results: Iterable[Mapping[str, Any]]) -> None:
    """ValueError where two results, as dictionaries, are of one contest with one number of threads."""
    counts = collections.Counter(tuple(result[name] for name in KEY) for result in results)
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"results with the same {', '.join(KEY)}: {twice}; one of these must tell them apart")


def contest(
    contestants: Dict[str, Callable[[int], Any]],
    units: float,
    seconds: float = 1.0,
    rounds: Optional[int] = None,
    own_clock: bool = False,
    before: Callable[[], None] = lambda: None,
):
    """Median millions of units per second of each contestant. contestants[name](round) does `units` units.

    Round 0 warms up and is not timed. There are at least 5 rounds more, or exactly `rounds`. With `own_clock` contestants
    return the seconds that `units` units took. `before` is called before each turn, and is not timed.
    """
    for run in contestants.values():
        run(0)
    times: Dict[str, List[float]] = {name: [] for name in contestants}
    end, done = time.perf_counter() + seconds, 0
    while done < rounds if rounds else (done < 5 or (time.perf_counter() < end and done < 50)):
        done += 1
        for name, run in contestants.items():
            before()
            start = clock()
            took = run(done)
            times[name].append(took if own_clock else clock() - start)
    return {name: units / statistics.median(t) / 1e6 for name, t in times.items()}


def table(results: List[Result]) -> str:
    """The results as text: our rate, and each peer's with ours over it."""
    lines = []
    for r in results:
        ours = r.rates[OURS]
        peers = [f"{name} {rate:.2f} ({ours / rate:.1f}x)" for name, rate in r.rates.items() if name != OURS]
        facts = ", ".join(f"{name} {value}" for name, value in r.facts.items())
        lines.append(
            f"{r.benchmark:14} {r.what:6} dim {r.dim:<3} {r.distribution:7} {r.threads} thr  "
            f"ours {ours:7.2f} {r.unit}  " + "  ".join(peers) + f"  [{facts}]"
        )
    return "\n".join(lines)
