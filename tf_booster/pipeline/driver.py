"""Runs the two halves of a split graph in one session: while the main graph of a step runs, the embedding graph of the next one does.

The session's own `run` is what programs, hooks and MonitoredSessions end in, so it is what the driver stands in front of. A run that
needs a batch is a step. It waits until its batch is in the queue, has the thread go on with the next ones, and runs the main graph on
the caller's thread. Between two steps nothing of the model changes.
"""

from __future__ import annotations

import atexit
import collections
import sys
import threading
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.passes.graph_view import GraphView
from tf_booster.pipeline.split import ASYNC, EXACT, Split
from tf_booster.pipeline.timing import Timing
from tf_booster.pipeline.worker import Job, Worker
from tf_booster.pipeline.worth import AHEAD, IN_ONE, Worth
from tf_booster.report import report_of

# An input function of Python code cannot be interrupted; whoever closes a session does not wait for it for ever.
_PATIENCE_SECONDS = 10.0
# How many runs of the embedding graph are begun before the step that they are for: with the second one its thread has work when
# it ends the first, and does not wait for two threads to wake up. Rows that are read ahead would be two updates old.
_DEPTH = {EXACT: 2, ASYNC: 1}
# How many batches a step finds in the queue when it begins: its own, or one that its run makes itself.
_ONE, _NONE = np.array(1, np.int32), np.array(0, np.int32)


class _Run(NamedTuple):
    """What a program asks for, in terms of the split graph."""

    targets: List[tf.Operation]
    fetches: List[tf.Tensor]
    feeds: Dict[str, tf.Tensor]  # Name of a tensor that is fed -> what is fed in its place.
    takes_batch: bool
    resets_input: bool


class Driver:
    """Of one session on one split graph."""

    def __init__(self, session: tf.compat.v1.Session, split: Split, do_run: Callable[..., Any]):
        self.timing = Timing()
        self._split = split
        self._graph = session.graph
        self._original_run = do_run
        self._original_close = session.close
        self._worker = Worker("tf_booster embedding graph")
        self._lock = threading.RLock()
        self._depth = _DEPTH[split.mode]
        self._ahead: Deque[Job] = (
            collections.deque()
        )  # Runs of the embedding graph that nobody has taken the batch of, in order.
        self._left = 0  # Batches in the queue, before those, that a failed step did not take.
        self._failed = False  # A step failed, before or after it had taken its batch.
        self._closed = False
        self._known: Dict[Any, _Run] = {}
        self._version = -1
        self._behind_batch: Set[tf.Operation] = set()
        self._behind_reset: Set[tf.Operation] = set()
        self._behind_send: Set[tf.Operation] = set()
        # Ranks must agree on how far they are ahead.
        self._worth = Worth(AHEAD if split.meets_ranks else None)
        self._expected = split.expected.ref()
        self._under_way: Set[object] = set()  # Steps that have a batch, and may not have taken it yet.
        self._ends = threading.Condition()
        self._options = _compat.run_options(session, own_thread=True)
        self._tracing_options = _compat.run_options(session, own_thread=True, trace=True)
        self._trace_wanted = False
        self._traced: Optional[Tuple[Job, _compat.RunMetadataBuffer]] = None
        _open_drivers.add(self)

    def do_run(
        self, handle: Any, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], feeds: Any, *rest: Any
    ) -> Any:
        """Stands for the session's `_do_run`; the same arguments, the same result, the same errors."""
        run = self._known_run(targets, fetches, feeds)
        if run.feeds:
            feeds = {run.feeds.get(ref.deref().name, ref.deref()).ref(): value for ref, value in feeds.items()}
        if run.resets_input:
            with self._lock:
                self._forget_batches()
        if not run.takes_batch:
            return self._original_run(handle, run.targets, run.fetches, feeds, *rest)
        if handle is not None:
            raise RuntimeError(
                "partial_run of a graph with an embedding pipeline; use enable_gpu_booster(pipeline='off')"
            )
        step = object()
        began = time.perf_counter()
        targets, expected = run.targets, _ONE
        try:
            with self._lock:
                manner = AHEAD if self._trace_wanted else self._worth.manner(began)
                if manner is IN_ONE and not self._ahead and not self._left and not self._failed:
                    targets, expected, seconds = [*run.targets, self._split.enqueue], _NONE, None
                else:
                    seconds = self._await_batch()
                    while manner is AHEAD and len(self._ahead) + self._left < self._depth:
                        self._ahead.append(self._start())
                self._under_way.add(step)
            waited = time.perf_counter() - began
            feeds = {**feeds, self._expected: expected}
            if rest[0] is None:  # Without options of the program's own.
                rest = self._options, *rest[1:]
            result = self._original_run(handle, targets, run.fetches, feeds, *rest)
        except BaseException:
            self._failed = True  # Ctrl-C comes at any place. The queue tells what has happened.
            raise
        finally:
            with self._ends:
                self._under_way.discard(step)
                self._ends.notify_all()
        self.timing.add(began, waited, time.perf_counter(), seconds)
        return result

    def always(self, manner: str) -> None:
        """Has all steps from now on run as AHEAD, APART or IN_ONE, for measurements."""
        self._worth = Worth(manner)

    def close(self) -> None:
        """Stands for the session's close(): nothing runs after it, and the threads have ended."""
        if self._closed:
            return
        self._closed = True
        if sys.is_finalizing():  # A session that the program has left open. Threads neither start nor go on any more.
            self._original_close()
            return
        if self._split.meets_ranks and self._ahead and not self._failed:
            self._ahead[-1].wait(_PATIENCE_SECONDS)  # All ranks have begun it, and none can leave it alone.
        # Cancels what runs, and waits until it has noticed: Python code of an input function does not.
        closing = threading.Thread(target=self._original_close, name="tf_booster closes a session", daemon=True)
        closing.start()
        closing.join(_PATIENCE_SECONDS)
        if not self._worker.stop(_PATIENCE_SECONDS) or closing.is_alive():
            log.once(
                "the session is closed, but its input function is still working on a batch that nobody will use; "
                "its thread ends with that batch"
            )
        report = report_of(self._graph)
        if report is not None:
            report.add_pipeline({"mode": self._split.mode, **self.timing.to_dict()})

    def finish_ahead(self, until: float) -> None:
        """Begins nothing ahead any more, and waits for what has begun, at most until `time.monotonic()` says `until`."""
        self._depth = 0
        for job in list(self._ahead):
            job.wait(max(0.0, until - time.monotonic()))

    # --- Batches ---

    def _start(self) -> Job:
        run, enqueue, options = self._original_run, self._split.enqueue, self._options
        if not self._trace_wanted:
            return self._worker.submit(lambda: run(None, [enqueue], [], {}, options, None))
        self._trace_wanted = False
        metadata, options = _compat.RunMetadataBuffer(), self._tracing_options
        job = self._worker.submit(lambda: run(None, [enqueue], [], {}, options, metadata.buffer))
        self._traced = job, metadata
        return job

    def trace_next(self) -> None:
        """Has the next run of the embedding graph tell the times of its ops."""
        self._trace_wanted = True

    def take_trace(self) -> Any:
        """RunMetadata of the run that was traced last, when it has ended; None if there is none, or it failed."""
        self._trace_wanted = False
        traced, self._traced = self._traced, None
        if traced is None:
            return None
        traced[0].wait()
        metadata = traced[1].take()
        return None if traced[0].error is not None else metadata

    def _await_batch(self) -> float:
        """Returns when a batch is in the queue that no other step takes: how long it took to make. Raises what the input raised."""
        if self._failed:
            self._count_left()
        if self._left:
            self._left -= 1
            return 0.0
        if not self._ahead:
            self._ahead.append(self._start())
        job = self._ahead[0]  # Ctrl-C may come while it is waited for.
        job.wait()
        self._ahead.popleft()
        if job.error is not None:
            raise job.error
        return job.seconds

    def _count_left(self) -> None:
        """A step that failed has taken its batch, or not; the queue tells, as soon as nobody adds to it."""
        if self._ahead:
            self._ahead[-1].wait()
        with self._ends:  # Of other threads.
            self._ends.wait_for(lambda: not self._under_way)
        (waiting,) = self._original_run(None, [], [self._split.size], {}, None, None)
        self._left = waiting - sum(job.error is None for job in self._ahead)
        self._failed = False

    def _forget_batches(self) -> None:
        """Throws away what was taken ahead of an input that begins anew."""
        if not self._ahead and not self._failed and not self._left:
            return
        self._count_left()
        waiting = self._left + sum(job.error is None for job in self._ahead)
        self._ahead.clear()
        self._left = 0
        for _ in range(waiting):
            self._original_run(None, [self._split.dequeue], [], {self._expected: _ONE}, None, None)

    # --- What a run needs ---

    def _known_run(self, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], feeds: Any) -> _Run:
        if self._version != self._graph.version:
            self._look_at_graph()
        fed = tuple(ref.deref() for ref in feeds)
        key = (tuple(targets), tuple(tensor.name for tensor in fetches), tuple(tensor.name for tensor in fed))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._examine(targets, fetches, fed)
        return found

    def _look_at_graph(self) -> None:
        self._behind_batch = GraphView.downstream([self._split.dequeue])
        self._behind_send = GraphView.downstream([self._split.enqueue])
        self._behind_reset = GraphView.downstream(self._split.resets)
        self._known.clear()
        self._version = self._graph.version

    def _examine(
        self, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], fed: Tuple[tf.Tensor, ...]
    ) -> _Run:
        crossing, source = self._split.crossing, self._split.source
        for tensor in fed:
            if tensor.name in self._split.ahead:
                raise ValueError(
                    f"feed_dict has '{tensor.name}', with which the embedding pipeline computes a step ahead of its feed; "
                    "use enable_gpu_booster(pipeline='off')"
                )
        in_place = {tensor.name: crossing[tensor.name] for tensor in fed if tensor.name in crossing}
        mapped_targets = [self._split.dequeue if op is source else op for op in targets]
        mapped_fetches = [crossing.get(tensor.name, tensor) for tensor in fetches]
        ends = [*mapped_targets, *(tensor.op for tensor in mapped_fetches)]
        if fed:
            barrier = {in_place.get(tensor.name, tensor).name for tensor in fed}
            takes = _needs(ends, self._split.dequeue, barrier)
        else:
            takes = any(op in self._behind_batch for op in ends)
        if any(op in self._behind_send for op in ends):
            raise RuntimeError(
                f"a run asks for '{self._split.enqueue.name}', which the embedding pipeline runs itself: the batch would be one that no "
                "step takes, and the next one would wait for room for ever; fetch the train op alone, or use "
                "enable_gpu_booster(pipeline='off')"
            )
        resets = any(op in self._behind_reset for op in ends)
        return _Run(mapped_targets, mapped_fetches, in_place, takes, resets)


_open_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


@atexit.register
def _finish_ahead() -> None:
    """Python code of an input function cannot go on once the interpreter ends. Sessions stay open: other handlers may use them."""
    until = time.monotonic() + _PATIENCE_SECONDS
    for driver in list(_open_drivers):
        driver.finish_ahead(until)


def _needs(ends: Sequence[tf.Operation], wanted: tf.Operation, fed: Set[str]) -> bool:
    """Whether `wanted` is upstream of `ends` when the tensors named `fed` are given."""
    stack: List[tf.Operation] = list(ends)
    seen: Set[tf.Operation] = set()
    while stack:
        op = stack.pop()
        if op is wanted:
            return True
        if op in seen:
            continue
        seen.add(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor.name not in fed)
        stack.extend(op.control_inputs)
    return False
