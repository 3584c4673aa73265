"""One thread that runs what it is given, one after the other, until it is told to stop; and work that nobody waits for."""

from __future__ import annotations

import _thread
import math
import queue
import threading
import time
import weakref
from typing import Any, Callable, Optional

_LONGEST_SECONDS = 1.0  # That a wait lasts before it looks again.


class Job:
    """What runs on the thread: wait() returns when it has ended; `error` is what it raised, `seconds` how long it took."""

    def __init__(self, work: Callable[[], Any]):
        self._work: Optional[Callable[[], Any]] = work
        # Not an Event: Ctrl-C within its wait(), which is Python's, may come out as "release unlocked lock".
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._has_ended = False
        self.error: Optional[BaseException] = None
        self.began = self.seconds = 0.0

    def run(self) -> None:
        """Runs the work; keeps what it raises."""
        self.began = time.perf_counter()
        try:
            self._work()
        except BaseException as error:  # It is raised where the result is waited for. pylint: disable=broad-except
            self.error = error
        self.seconds = time.perf_counter() - self.began
        self._work = None
        self._has_ended = True
        self._running.release()

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether it has ended within `seconds`; without a limit, waits for the end. Ctrl-C interrupts it."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while not self._has_ended:
            left = min(until - time.monotonic(), _LONGEST_SECONDS)
            if left <= 0.0:
                return False
            if self._running.acquire(timeout=left):
                self._running.release()  # For others that wait. Ctrl-C just before leaves them to look again.
        return True


class Worker:
    """A daemon thread, begun with the first job, that holds nothing between two jobs."""

    def __init__(self, name: str):
        self._name = name
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._ending: Optional[threading.Thread] = None

    def submit(self, work: Callable[[], Any]) -> Job:
        """Has the thread run `work` after what it has been given before."""
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
            # Of a session that nobody closes. While the interpreter ends, other handlers may still use it.
            weakref.finalize(self, self._jobs.put, None).atexit = False
        job = Job(work)
        self._jobs.put(job)
        return job

    def stop(self) -> None:
        """Has the thread end after its last job. Waits for nothing and takes no lock: a finalizer may call it."""
        self._ending, self._thread = self._thread, None
        if self._ending is not None:
            self._jobs.put(None)

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether the thread that stop() ends has ended within `seconds`, or is the caller's own."""
        if self._ending is None or self._ending.ident == threading.get_ident():
            return True
        self._ending.join(seconds)
        return not self._ending.is_alive()


def in_background(work: Callable[[], Any]) -> Job:
    """Runs `work` on a thread of its own, which ends with it.

    A finalizer may call it, wherever the garbage collector came: threading.Thread takes locks that the thread which collects may hold.
    """
    job = Job(work)
    _thread.start_new_thread(job.run, ())
    return job


def _serve(jobs: queue.SimpleQueue) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job.run()
        del job
