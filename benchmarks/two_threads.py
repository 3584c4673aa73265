"""python -m benchmarks.two_threads [results.json]: what the second thread brings, and what it could bring on this machine.

Two bounds stand beside each contest: the bare loop of the same contest on two threads (floors.py), and two processes that
share nothing, a core each, that copy large arrays or read random 64-byte lines. Where they gain 1.4, no op gains 1.8.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Dict, List

import numpy as np

from benchmarks import processes
from benchmarks.harness import KEY

Loops = Dict[str, Callable[[], Any]]


def loops(mebibytes: int) -> Loops:
    """The loops of a process, by name, over arrays of that size."""
    source = np.ones(mebibytes << 17, np.int64)
    target = np.empty_like(source)
    places = np.random.default_rng(os.getpid()).integers(0, len(source) // 8, len(source) // 16) * 8
    out = np.empty(len(places), np.int64)
    return {
        "copies": lambda: np.copyto(target, source),
        "random lines": lambda: np.take(source, places, out=out, mode="clip"),
    }


def loop_of(name: str, mebibytes: int, seconds: float) -> Callable[[], float]:
    """A turn of a process: it runs the loop of that name for so many seconds, and returns what one pass took."""
    run = loops(mebibytes)[name]
    run()

    def turn() -> float:
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            run()
            count += 1
        return (time.perf_counter() - start) / count

    return turn


def two_processes(mebibytes: int = 128, seconds: float = 0.5) -> Dict[str, float]:
    """How often processes on all cores do each loop together, over one alone; nothing where there is one core."""
    if len(os.sched_getaffinity(0)) < 2:
        return {}
    cases = {name: (name, mebibytes, seconds) for name in ("copies", "random lines")}
    with processes.Apart(loop_of) as apart:
        for case in cases.values():
            apart.each(case)  # Makes the arrays.
        return {name: apart.one(case) / apart.each(case) for name, case in cases.items()}


def gains(results: List[Dict[str, Any]]) -> List[str]:
    """A line a contest that was run with one and with two threads: each contestant's rate with two over that with one."""
    of = {}
    for r in results:
        of[tuple(r[name] for name in KEY)] = r["rates"]
    lines = []
    for (*contest, threads), rates in of.items():
        one = of.get((*contest, 1))
        if threads != 2 or one is None:
            continue
        both = [f"{name} {rate / one[name]:.2f}x" for name, rate in rates.items() if name in one]
        benchmark, what, dim, distribution = contest
        lines.append(f"{benchmark:14} {what:6} dim {dim:<3} {distribution:8} " + "  ".join(both))
    return lines


def main() -> int:
    path = sys.argv[1] if len(sys.argv) > 1 else "build/benchmarks.json"
    print("two processes over one: " + ", ".join(f"{name} {gain:.2f}x" for name, gain in two_processes().items()))
    with open(path) as file:
        print("\n".join(gains(json.load(file)["results"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
