"""What processors can do when nothing is shared: the same work in a process of its own on each of them.

The processes live beside a contest and take their turns in it, so that both meet the same machine.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import Any, Callable, Dict, Sequence


class Apart:
    """A process on each processor, which does nothing until it is asked.

    In each process `make_work(*case)` gives the function that a turn calls; it returns the seconds of a unit of work. `make_work` must be
    found by its name in a module.
    """

    def __init__(self, make_work: Callable[..., Callable[[], float]]):
        context = multiprocessing.get_context("spawn")
        self._pipes, self._workers = [], []
        for processor in sorted(os.sched_getaffinity(0)):
            pipe, end = context.Pipe()
            worker = context.Process(target=_work, args=(processor, end, make_work), daemon=True)
            worker.start()
            end.close()
            self._pipes.append(pipe)
            self._workers.append(worker)

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: Any) -> None:
        for pipe in self._pipes:
            pipe.close()
        for worker in self._workers:
            worker.join()

    def one(self, case: Sequence[Any]) -> float:
        """Seconds of a unit in one process alone."""
        return _answers(self._pipes[:1], case)[0]

    def each(self, case: Sequence[Any]) -> float:
        """Seconds of a unit of all processes together, which work at the same time."""
        return 1 / sum(1 / seconds for seconds in _answers(self._pipes, case))


def _answers(pipes: Sequence[Any], case: Sequence[Any]) -> Sequence[float]:
    for pipe in pipes:
        pipe.send(case)
    answers = [pipe.recv() for pipe in pipes]
    for answer in answers:
        if isinstance(answer, str):
            raise RuntimeError(f"a process of {len(pipes)} failed: {answer}")
    return answers


def _work(processor: int, pipe: Any, make_work: Callable[..., Callable[[], float]]) -> None:
    os.sched_setaffinity(0, {processor})
    works: Dict[str, Callable[[], float]] = {}
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            if repr(case) not in works:
                works[repr(case)] = make_work(*case)
            pipe.send(works[repr(case)]())
        except Exception as error:  # Told to the one who asked.
            pipe.send(repr(error))
