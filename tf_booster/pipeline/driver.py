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
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.parallel import ranks
from tf_booster.parallel.rank_0_says import Rank0Says
from tf_booster.pipeline.by_hand import RunsByHand, as_feed
from tf_booster.pipeline.denormals import flushing
from tf_booster.pipeline.needs import ByHand, Needs, Run
from tf_booster.pipeline.split import ASYNC, EXACT, Split
from tf_booster.pipeline.timing import Timing
from tf_booster.pipeline.worker import Job, Worker, in_background
from tf_booster.pipeline.worth import AHEAD, IN_ONE, Worth
from tf_booster.report import report_of

# An input function of Python code cannot be interrupted; whoever closes a session does not wait for it for ever.
_PATIENCE_SECONDS = 10.0
_LONGEST_CLOSE_SECONDS = 70.0  # tf.data's thread that tunes the input sleeps for up to 60.
# How many runs of the embedding graph are begun before the step that they are for: with the second one its thread has work when
# it ends the first, and does not wait for two threads to wake up. Rows that are read ahead would be two updates old.
_DEPTH = {EXACT: 2, ASYNC: 1}
# What a step is fed as a sign that its batch waits.
_THERE = np.array(1, np.int32)
# Errors that an input may raise; others are of the session.
_OF_INPUT = (tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError, tf.errors.DataLossError, tf.errors.NotFoundError,
             tf.errors.FailedPreconditionError, tf.errors.UnknownError, tf.errors.InternalError)  # fmt: skip
# Runs that take a batch: one that waits, and one that the run makes itself.
_MAIN, _BOTH = "main", "both"


class Driver:
    """Of one session on one split graph."""

    def __init__(self, session: tf.compat.v1.Session, split: Split, do_run: Callable[..., Any]):
        self.timing = Timing()
        self._split = split
        self._session, self._graph = session, session.graph
        self._original_run = do_run
        self._original_close = session.close
        self._original_partial_run_setup = session.partial_run_setup
        self._worker = Worker("tf_booster embedding graph")
        self._lock = threading.RLock()
        self._depth = _DEPTH[split.mode]
        self._ahead: Deque[Job] = (
            collections.deque()
        )  # Runs of the embedding graph that nobody has taken the batch of, in order.
        self._left = 0  # Batches in the queue, before those, that a failed step did not take.
        self._failed = False  # A step failed, before or after it had taken its batch.
        self._closed = False
        self._refuses = False  # To begin anything more.
        self._has_trained = False
        self._needs = Needs(session.graph, split)
        self._by_hand = RunsByHand(self._needs, split, do_run)
        # Ranks must agree on how far they are ahead.
        self._worth = Worth(agreed=Rank0Says("how the pipeline runs")) if split.meets_ranks else Worth()
        self._expected = split.expected.ref()
        # What says in such a run that its batch is there.
        self._sent = {_MAIN: split.there, _BOTH: split.enqueue.outputs[0]}
        self._tells_costs = _compat.tells_costs(session)
        self._can_be_one = _compat.can_prepare_runs(session)
        self._sends: Dict[str, Any] = {}  # The run of the embedding graph, prepared.
        self._under_way: Set[object] = set()  # Steps that have a batch, and may not have taken it yet.
        self._ends = threading.Condition()
        # Runs of own threads.
        self._of_own_thread = flushing if _compat.stays_on_caller(session) else lambda call: call
        self._own_run = self._of_own_thread(do_run)
        self._options = _compat.run_options(session, own_thread=True)
        self._tracing_options = _compat.run_options(session, own_thread=True, trace=True)
        self._trace_wanted = False
        # Two run beside a step.
        self._traced: Deque[Tuple[Job, _compat.RunMetadataBuffer]] = collections.deque(maxlen=2)
        _open_drivers.add(self)

    def do_run(
        self, handle: Any, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], feeds: Any, *rest: Any
    ) -> Any:
        """Stands for the session's `_do_run`; the same arguments, the same result, the same errors."""
        run = self._needs.of(targets, fetches, tuple(ref.deref() for ref in feeds))
        if run.resets_input:
            with self._lock:
                self._forget_batches()
        if handle is None and run.takes_batch:
            return self._with_batch(run, feeds, *self._said(*rest))
        return self._original_run(handle, run.targets, run.fetches, run.fed(feeds), *rest)

    def _said(self, options: Any, metadata: Any) -> Tuple[Any, Any]:
        """Options and metadata of a run, None for what says nothing: MonitoredSession gives every run empty ones of both."""
        asked = options is not None and _compat.says_something(options)
        return (options, metadata) if asked or self._tells_costs else (None, None)

    def _with_batch(self, run: Run, feeds: Any, *rest: Any) -> Any:
        if run.after_first is not None:
            values = self._run_again(run.prepared, "first", [], run.first, run.fed(feeds), rest[0], None)
            known = {tensor.name: value for tensor, value in zip(run.first, values)}
            feeds = {**feeds, **{tensor.ref(): as_feed(tensor, known[tensor.name]) for tensor in run.first}}
            results = iter(self._with_batch(run.after_first, feeds, *rest))
            return [known[t.name] if t.name in known else next(results) for t in run.fetches]
        by_hand = run.by_hand or self._look_at_input(run)
        if by_hand is not None:
            given = self._input_by_hand(by_hand) if by_hand.takes_batch else {}
            return self._by_hand.run(run, by_hand, given, feeds, *rest)
        return self._step(run, run.fed(feeds), *rest)

    def _run_again(
        self, known: Any, name: str, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any
    ) -> Any:
        """A run that comes again and again with other values. known, name: where it is kept; _MAIN and _BOTH take a batch."""
        sent = self._sent.get(name)
        if options is None and metadata is None:
            if name not in known:
                fed = [ref.deref() for ref in feeds]
                connected = [] if sent is None else [(sent, self._split.expected)]
                prepared = _compat.prepared_run(self._session, targets, fetches, fed, True, connected)
                known[name] = self._of_own_thread(prepared) if prepared is not None else None
            if known[name] is not None:
                return known[name](*feeds.values())
        if sent is not None:
            feeds = {self._expected: _THERE, **feeds}
        # Without options of the program's own: the pipeline's.
        if options is None:
            return self._own_run(None, targets, fetches, feeds, self._options, metadata)
        return self._original_run(None, targets, fetches, feeds, options, metadata)

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Stands for the session's partial_run_setup(), in which ops begin to run, those that take the batch too."""
        wanted = _compat.fetch_handler(self._graph, fetches)
        fed = _compat.fed_tensors(self._graph, feeds)
        run = self._needs.of(wanted.targets(), wanted.fetches(), fed)
        if run.by_hand is not None:
            raise ValueError(
                "partial_run_setup: feeds has a tensor with which the embedding pipeline computes a step ahead of its feed; "
                "use run, or enable_gpu_booster(pipeline='off')"
            )
        mapped = [t for tensor in fed for t in run.feeds[tensor.name]]
        ends = [*run.fetches, *run.targets]
        if not run.takes_batch:
            return self._original_partial_run_setup(ends, mapped)
        with self._lock:
            self._await_batch()
            handle = self._original_partial_run_setup(ends, [*mapped, self._split.expected])
            self._original_run(handle, [], [], {self._expected: _THERE}, None, None)
        return handle

    def _step(self, run: Run, feeds: Any, options: Any, metadata: Any) -> Any:
        """A run that takes a batch, as the graph is split."""
        step = object()
        began = time.perf_counter()
        name, targets = _MAIN, run.targets
        try:
            with self._lock:
                manner = self._worth.manner(began)
                if self._trace_wanted and not self._split.meets_ranks:
                    manner = AHEAD
                # A run with options of its own cannot be told of the batch that it makes itself.
                is_prepared = self._can_be_one and options is None and metadata is None
                if manner is IN_ONE and is_prepared and self._is_queue_empty():
                    name, targets, seconds = _BOTH, [*run.targets, self._split.enqueue], None
                else:
                    seconds = self._await_batch(_compat.timeout_seconds(options))
                    while manner is AHEAD and len(self._ahead) + self._left < self._depth:
                        self._ahead.append(self._start())
                self._under_way.add(step)
            waited = time.perf_counter() - began
            result = self._run_again(run.prepared, name, targets, run.fetches, feeds, options, metadata)
        except BaseException as error:
            # Ctrl-C comes at any place; what fails before a batch was there has taken none. The queue tells what has happened.
            self._failed = self._failed or step in self._under_way or not isinstance(error, tf.errors.OpError)
            if step not in self._under_way and isinstance(error, _OF_INPUT):
                self._run_without_batch(run, feeds)
            raise
        finally:
            with self._ends:
                self._under_way.discard(step)
                self._ends.notify_all()
        self.timing.add(began, waited, time.perf_counter(), seconds)
        return result

    def _run_without_batch(self, run: Run, feeds: Any) -> None:
        """What of a step without a batch TensorFlow has run by the time that it fails: counters and metrics of Variables alone."""
        if ranks.current().size == 1:
            changes = self._needs.without_batch(run)
            if changes:
                try:
                    self._original_run(None, changes, [], feeds, None, None)
                except tf.errors.OpError:  # The input's error is told.
                    pass

    def _look_at_input(self, run: Run) -> Optional[ByHand]:
        """Of a run that only looks at the input before any step trains: the embedding graph's tables may not be initialized yet."""
        if self._has_trained or not self._is_queue_empty():
            return None
        if self._needs.writes(run):
            self._has_trained = True
            return None
        wanted = self._needs.by_hand(run)
        return None if wanted.computed or wanted.checks else wanted

    def _input_by_hand(self, wanted: ByHand) -> Dict[Any, Any]:
        with self._lock:
            from_queue = not self._is_queue_empty()
            if from_queue:
                self._await_batch()
            return self._by_hand.take_input(wanted, from_queue, {self._expected: _THERE})

    @property
    def manner(self) -> Optional[str]:
        """How steps are run: AHEAD or IN_ONE; None until that is chosen."""
        return self._worth.to_dict()["manner"]

    def always(self, manner: str, depth: Optional[int] = None) -> None:
        """Has all steps from now on run as AHEAD or IN_ONE, for measurements. depth: how many runs of the embedding graph are begun before
        their step; with none AHEAD runs one half after the other."""
        self._worth = Worth(manner)
        if depth is not None:
            self._depth = depth

    def close(self) -> None:
        """Stands for the session's close(): nothing runs after it, and the threads have ended. Does not wait for more than _PATIENCE_SECONDS
        for what cannot be interrupted; a session that is collected does not wait at all."""
        if self._closed:
            return
        self._closed = True
        if sys.is_finalizing():  # A session that the program has left open. Threads neither start nor go on any more.
            self._original_close()
            return
        until = time.monotonic() + _PATIENCE_SECONDS
        closing = self._begin_to_close(_compat.take_if_collected(self._session))
        if closing is not None:
            # Of an Estimator's session the memory is free again before the next one takes as much.
            if closing.wait(_PATIENCE_SECONDS) and closing.error is not None:
                raise closing.error
            if not self._worker.wait(max(0.0, until - time.monotonic())):
                log.once(
                    "the session is closed, but its input function is still working on a batch that nobody will use; "
                    "its thread ends with that batch"
                )
        report = report_of(self._graph)
        if report is not None:
            report.add_pipeline({"mode": self._split.mode, **self.timing.to_dict(), **self._worth.to_dict()})

    def _begin_to_close(self, collected: Optional[Callable[[], None]]) -> Optional[Job]:
        """Has what closes the session run in the background; None if nobody is to wait for it.

        That can take long: Python code of an input function is not interrupted, and tf.data's iterator waits for its thread that tunes the
        input, which misses in one close of some that it has been cancelled, and sleeps on, for up to 60 s.
        collected: closes and frees what TensorFlow holds of a session that is being collected.
        """
        ahead = list(self._ahead) if self._split.meets_ranks and not self._failed else []
        close = self._original_close if collected is None else collected

        def work() -> None:
            if ahead:
                ahead[-1].wait(_PATIENCE_SECONDS)  # All ranks have begun it, and none can leave it alone.
            self._refuses = True
            close()  # Cancels what runs, and waits until it has noticed.

        self._worker.stop()
        closing = in_background(work)
        _closing.append(closing)
        return closing if collected is None else None

    def finish_ahead(self, until: float) -> None:
        """Begins nothing ahead any more, and waits for what has begun, at most until `time.monotonic()` says `until`."""
        self._depth = 0
        for job in list(self._ahead):
            job.wait(max(0.0, until - time.monotonic()))

    # --- Batches ---

    def _start(self) -> Job:
        enqueue = self._split.enqueue
        if not self._trace_wanted:
            return self._submit(lambda: self._run_again(self._sends, "", [enqueue], [], {}, None, None))
        self._trace_wanted = False
        metadata, options = _compat.RunMetadataBuffer(), self._tracing_options
        job = self._submit(lambda: self._own_run(None, [enqueue], [], {}, options, metadata.buffer))
        self._traced.append((job, metadata))
        return job

    def _submit(self, run: Callable[[], Any]) -> Job:
        def unless_closed() -> Any:
            if self._refuses:  # The session's part in TensorFlow may be gone.
                raise tf.errors.CancelledError(None, None, "The session is closed")
            return run()

        return self._worker.submit(unless_closed)

    def trace_next(self) -> None:
        """Traces the next run of the embedding graph that begins."""
        self._trace_wanted = True

    def take_traces(self) -> List[Any]:
        """RunMetadata of the runs that were traced last, when they have ended, without those that failed; two at most."""
        self._trace_wanted = False
        traced, self._traced = list(self._traced), collections.deque(maxlen=2)
        for job, _ in traced:
            job.wait()
        taken = [(job, metadata.take()) for job, metadata in traced]
        return [metadata for job, metadata in taken if job.error is None]

    def _is_queue_empty(self) -> bool:
        return not self._ahead and not self._left and not self._failed

    def _await_batch(self, timeout: Optional[float] = None) -> float:
        """Returns when a batch is in the queue that no other step takes: how long it took to make. Raises what the input raised.

        timeout: seconds, after which a DeadlineExceededError is raised, and the batch is the next step's.
        """
        if self._failed:
            self._count_left()
        if self._left:
            self._left -= 1
            return 0.0
        if not self._ahead:
            self._ahead.append(self._start())
        job = self._ahead[0]  # Ctrl-C may come while it is waited for.
        if not job.wait(timeout):
            raise tf.errors.DeadlineExceededError(None, None, "Timed out waiting for the input of a step")
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
        if self._is_queue_empty():
            return
        self._count_left()
        waiting = self._left + sum(job.error is None for job in self._ahead)
        self._ahead.clear()
        self._left = 0
        for _ in range(waiting):
            self._original_run(None, [self._split.dequeue], [], {self._expected: _THERE}, None, None)


_open_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()
_closing: Deque[Job] = collections.deque(maxlen=64)  # What closes sessions, the last ones: most have ended.


@atexit.register
def _finish_ahead() -> None:
    """Python code of an input function cannot go on once the interpreter ends. Sessions stay open: other handlers may use them."""
    until = time.monotonic() + _PATIENCE_SECONDS
    for driver in list(_open_drivers):
        driver.finish_ahead(until)
    # A thread that comes back from TensorFlow while the interpreter ends is ended by Python amid C++, and the process aborts.
    until = time.monotonic() + _LONGEST_CLOSE_SECONDS
    for closing in list(_closing):
        closing.wait(max(0.0, until - time.monotonic()))
