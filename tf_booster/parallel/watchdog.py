"""A thread in each rank that tells which rank hangs, and at which collective; Horovod's own check of stalls stays silent then.

Every few seconds each rank puts into the store how often it has entered and left each collective, and where its main thread is. Rank 0
compares them; rank 1 looks after rank 0. A step costs what the marks cost, some nanoseconds.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import threading
import time
from typing import Optional

from tf_booster import log
from tf_booster.parallel import failed_runs, host_exchange, progress, ranks
from tf_booster.parallel.failed_runs import FailedRuns
from tf_booster.parallel.hangs import Beat, Hangs
from tf_booster.parallel.program_lines import program_frames
from tf_booster.parallel.store import Store, StoreError, store

EXIT_CODE = 70  # EX_SOFTWARE, of a rank that ends the job because of a hang.

_running: Optional[Watchdog] = None


def start(limit: float, abort: float) -> None:
    """Starts the thread, or another one if these are other seconds: after `limit` a hang is told, after `abort` it ends the job; 0: never."""
    global _running
    here = ranks.current()
    given = (limit, abort)
    if here.size == 1 or (_running is not None and _running.given == given):
        return
    stop()
    if any(given):
        _running = Watchdog(store(), here.rank, here.size, *given)
        _running.start()


def stop() -> None:
    """Ends the thread."""
    global _running
    if _running is not None:
        _running.stopped.set()
        _running = None


class Watchdog(threading.Thread):
    """See the module."""

    def __init__(self, channel: Store, rank: int, size: int, limit: float, abort: float):
        super().__init__(name="tf_booster_watchdog", daemon=True)
        self.stopped = threading.Event()
        self.given = (limit, abort)
        limit = min(seconds for seconds in self.given if seconds > 0)  # What ends the job is told then.
        self._store, self._rank, self._size, self._abort = channel, rank, size, abort
        self._watched = range(size) if rank == 0 else range(2 if rank == 1 else 0)
        self._hangs = Hangs(size, limit, patient=[host_exchange.COLLECTIVE])  # Where a prediction waits for its reader.
        self._interval = min(5.0, limit / 4)
        self._patience = 3 * self._interval if rank else 0.0  # Rank 0, which sees all, ends the job first if it can.
        self._number = 0

    def run(self) -> None:
        """Until stop() or the end of the process."""
        while not self.stopped.wait(self._interval):
            try:
                self._beat()
            except StoreError:
                return  # The launcher has ended, and this process will.

    def _beat(self) -> None:
        self._number += 1
        process = f"{socket.gethostname()}, pid {os.getpid()}"
        own = Beat(self._number, progress.counts(), where_main_thread_is(), process, failed_runs.noted())
        own = dataclasses.asdict(own)
        self._store.put(f"beat-{self._rank}", own)
        beats = {}
        for rank in self._watched:
            found = self._store.get(f"beat-{rank}") if rank != self._rank else own
            beats[rank] = _beat_of(found) if found else None
        for message in self._hangs.update(time.monotonic(), beats):
            log.warning(message)
        since = self._hangs.hanging_since
        if self._hangs.for_ever:
            self._end_job("that rank will not come")
        if self._abort > 0 and since is not None and time.monotonic() - since > self._abort + self._patience:
            self._end_job(f"it has hung for more than {self._abort:.0f} s (watchdog_abort)")

    def _end_job(self, why: str) -> None:
        log.warning(f"rank {self._rank} ends the job: {why}")
        sys.stderr.flush()
        os._exit(EXIT_CODE)  # No other way out of a collective.


def waits_ahead(rank: int) -> bool:
    """Whether another rank waits in a collective that this one has yet to enter, as far as the watchdog has heard."""
    beat, own = store().get(f"beat-{rank}"), progress.counts()
    collectives = _beat_of(beat).collectives if beat else {}
    return any(left < entered > own.get(name, (0, 0))[0] for name, (entered, left) in collectives.items())


def _beat_of(found: dict) -> Beat:
    collectives = {name: tuple(pair) for name, pair in found["collectives"].items()}
    return Beat(**{**found, "collectives": collectives, "failed": FailedRuns(**found["failed"])})


def where_main_thread_is() -> str:
    """The line of the program, outside of Python's library and of packages, that the main thread is in: "train.py:33, in input_fn"."""
    frame = sys._current_frames().get(
        threading.main_thread().ident
    )  # Python's own way. pylint: disable=protected-access
    frame = next(program_frames(frame), frame)
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
