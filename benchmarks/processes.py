"""What processors can do when nothing is shared: the same work in a process of its own on each of them."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from typing import Any, Callable, List, Sequence, Tuple

SECONDS = 1.0


def rates(make_work: Callable[..., Callable[[], float]], cases: Sequence[Sequence[Any]]) -> List[Tuple[float, float]]:
    """Of each case, the units of work a second of one process alone, and of one process on each processor together.

    In each process `make_work(*case)` gives the function that is called again and again, and returns the seconds of a
    unit; `make_work` must be found by its name in a module.
    """
    processors = sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    together, found = context.Barrier(len(processors)), context.Queue()
    workers = [
        context.Process(target=_work, args=(place, processor, together, found, make_work, cases))
        for place, processor in enumerate(processors)
    ]
    for worker in workers:
        worker.start()
    results = [found.get() for _ in workers]
    for worker in workers:
        worker.join()
    broken = [error for _, error in results if error]
    if broken:
        raise RuntimeError(f"a process of {len(workers)} failed: {broken[0]}")
    return [tuple(map(sum, zip(*of_processes))) for of_processes in zip(*(rates for rates, _ in results))]


def _work(
    place: int, processor: int, together: Any, found: Any, make_work: Callable, cases: Sequence[Sequence[Any]]
) -> None:
    try:
        os.sched_setaffinity(0, {processor})
        rates = []
        for case in cases:
            work = make_work(*case)
            work()
            together.wait()
            alone = _rate(work) if place == 0 else 0.0
            together.wait()
            rates.append((alone, _rate(work)))
        found.put((rates, ""))
    except Exception as error:
        together.abort()
        found.put(([], repr(error)))


def _rate(work: Callable[[], float]) -> float:
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 3 or time.perf_counter() < end:
        times.append(work())
    return 1 / statistics.median(times)
