"""Which calls of an Estimator all ranks make together, and which one rank makes by itself: `if hvd.rank() == 0: estimator.evaluate(…)`.

Each rank tells the store what it has come to, behind the calls that all have made together. All ranks train; an evaluation, a prediction
or an export is one of all ranks if all have come to it, from the same lines of the program. Rank 0 says whether they have, so that no two
ranks can think differently of it: it waits for what each comes to. One that trains, or has ended, does not come; nor, after a while, one
that has said nothing: it may wait in the program's own barrier, or, where a hook evaluates, in the next step. What a rank does by itself
it does as a process of its own, with the whole input and whole tables.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import time
from typing import Any, Callable, Collection, ContextManager, Dict, Iterator, Optional, Tuple, TypeVar

from tf_booster import _compat, log
from tf_booster.parallel import failed_runs, meetings, own_folders, ranks, watchdog
from tf_booster.parallel.program_lines import program_lines
from tf_booster.parallel.store import StoreError, store

EVALUATION, PREDICTION, EXPORT, SESSION = "an evaluation", "a prediction", "an export", "a session"
LISTENER, HOOK = "train_and_evaluate", "InMemoryEvaluatorHook"
_TRAINING, _END = "a training", "its end"
_GONE_ON = (_TRAINING, _END)
_PATIENCE = (30.0, 3.0)  # Seconds for ranks that say nothing; the second, once that was in vain.
_SAY_AFTER_SECONDS = 30
_AHEAD_SECONDS = 5.0  # After which a rank that waits for this one in a collective will not come.

_by = ""
_NONE: Dict[str, Any] = {"what": "", "number": 0}

_Found = TypeVar("_Found")


class Calls:
    """Those of one rank."""

    def __init__(
        self,
        channel: Any,
        rank: int,
        size: int,
        patience: Tuple[float, float] = _PATIENCE,
        waits_ahead: Callable[[int], bool] = lambda rank: False,
    ):
        """`channel`: a Store. waits_ahead: whether a rank waits for this one in a collective."""
        self._store, self._rank, self._others = channel, rank, [r for r in range(size) if r != rank]
        self._patience, self._waits_ahead = patience, waits_ahead
        self._position = 0  # How many calls all ranks have made together.
        self._told = 0  # What this rank has told so far.
        self._answered: Dict[int, int] = {}  # On rank 0: the number of the latest that it has answered, by rank.
        self._trains = False
        self._all_have: Dict[str, bool] = {}  # What evaluates in this training -> whether all ranks have it.

    @contextlib.contextmanager
    def training(self, evaluate: Collection[str] = (), folder: str = "") -> Iterator[None]:
        """A training of all ranks.

        Args:
          evaluate: LISTENER, HOOK, what evaluates in it on this rank.
          folder: where this rank's Estimator saves.

        Raises:
          RuntimeError: another rank has ended.
        """
        self._tell(_TRAINING, evaluate=list(evaluate), folder=folder)
        # Not in a collective, where one that still evaluates would be told to hang.
        found = [self._training_of(rank) for rank in (self._others if evaluate or self._rank == 0 else [0])]
        self._position += 1
        if folder and self._rank > 0 and found[0]["folder"]:
            own_folders.compare(folder, found[0]["folder"])
        self._trains, self._all_have = True, {by: all(by in told["evaluate"] for told in found) for by in evaluate}
        try:
            with of_all(meetings.begin_training(), self._store):
                yield
        finally:
            self._trains = False

    def is_of_all(self, what: str, where: str = "", path: str = "", by: str = "") -> bool:
        """Whether all ranks have come to `what`, and from the same lines of the program; else it is this rank's own, which must not wait for
        the others in it.

        Args:
          path: of the checkpoint or folder that it is about; "" for the others'. Of different ones each rank's is its own.
          by: what evaluates within a training, which all ranks have, or some.
        """
        if by and self._trains:
            return self._all_have.get(by, True)
        call = f"{what} ({where})"
        number = self._tell(call, path=path)
        together = self._answer(call, path) if self._rank == 0 else self._answer_of_rank_0(call, number)
        if together:
            self._position += 1
        else:
            log.once(f"{what} is made by rank {self._rank} alone: it has the whole input, and whole tables")
        return together

    def end(self) -> None:
        """This rank's program has ended."""
        self._tell(_END)

    def _key(self, kind: str, of: Any) -> str:
        return f"{kind}-{self._position}-{of}"

    def _tell(self, what: str, **more: Any) -> int:
        self._told += 1
        self._store.put(self._key("call", self._rank), {"what": what, "number": self._told, **more})
        return self._told

    def _call_of(self, rank: int) -> Dict[str, Any]:
        return self._store.get(self._key("call", rank)) or _NONE

    def _answer(self, what: str, path: str) -> bool:
        """Rank 0's, for all that have come to `what`, as it was told."""
        number, (seconds, later) = self._told, self._patience
        begin = time.monotonic()

        def come(rank: int) -> Optional[Dict[str, Any]]:
            ahead = (
                self._trains and time.monotonic() - begin > min(_AHEAD_SECONDS, seconds / 2) and self._waits_ahead(rank)
            )
            return _NONE if ahead else self._new_call_of(rank)

        calls = {rank: self._until(functools.partial(come, rank), begin + seconds) for rank in self._others}
        if not all(call and call["what"] for call in calls.values()):
            self._patience = (later, later)
        silent = [rank for rank, call in calls.items() if call is None]
        if silent:
            log.warning(
                f"rank 0 makes {what} alone, with the whole input and whole tables: rank(s) {', '.join(map(str, silent))} "
                f"have come to none, and no further, in {seconds:.0f} s"
            )
        asked = {rank: call for rank, call in calls.items() if call is not None and call["what"] == what}
        together = len(asked) == len(calls) and all(call["path"] in ("", path) for call in asked.values())
        for rank, call in asked.items():
            self._answered[rank] = call["number"]
            self._store.put(self._key("answer", f"{rank}-{call['number']}"), together)
        self._store.put(self._key("answered", number), True)
        return together

    def _new_call_of(self, rank: int) -> Optional[Dict[str, Any]]:
        call = self._call_of(rank)
        is_new = call["what"] and call["number"] > self._answered.get(rank, 0)
        return call if call["what"] in _GONE_ON or is_new else None

    def _answer_of_rank_0(self, what: str, number: int) -> bool:
        end = time.monotonic() + self._patience[0]

        def answer() -> Optional[bool]:
            said, call = self._said(number), self._call_of(0)
            if said is not None or call["what"] in _GONE_ON:
                return bool(said)
            has_answered = call["what"] == what and self._has_answered(call)
            if has_answered and self._trains:  # It goes on to the next step without this rank, and waits there.
                return self._withdraw(number, call)
            is_about_to_answer = call["what"] == what and not has_answered
            if is_about_to_answer or time.monotonic() < end:
                return None
            seconds, later = self._patience
            self._patience = (later, later)
            log.warning(
                f"rank {self._rank} makes {what} alone, with the whole input and whole tables: rank 0 has not come to it, and no "
                f"further, in {seconds:.0f} s"
            )
            return self._withdraw(number, call)

        return bool(self._until(answer))

    def _withdraw(self, number: int, seen: Dict[str, Any]) -> bool:
        """Asks no longer. Returns what rank 0 says all the same, if it has come to something else than `seen` and is about to answer."""
        self._tell("")

        def answer() -> Optional[bool]:
            said, call = self._said(number), self._call_of(0)
            if said is not None:
                return said
            is_about_to_answer = (
                call["number"] != seen["number"] and call["what"] not in _GONE_ON and not self._has_answered(call)
            )
            return None if is_about_to_answer else False

        return bool(self._until(answer))

    def _said(self, number: int) -> Optional[bool]:
        """What rank 0 has answered to this rank's call `number`; None: nothing."""
        return self._store.get(self._key("answer", f"{self._rank}-{number}"))

    def _has_answered(self, call: Dict[str, Any]) -> bool:
        """Whether rank 0 has answered all that it will to those who have come to its `call`."""
        return self._store.get(self._key("answered", call["number"])) is not None

    def _training_of(self, rank: int) -> Dict[str, Any]:
        def come() -> Optional[Dict[str, Any]]:
            call = self._call_of(rank)
            return call if call["what"] in _GONE_ON else None

        call = self._until(come, said=f"rank {rank} to come to this training")
        assert call is not None
        if call["what"] == _END:
            raise RuntimeError(
                f"tf_booster: rank {self._rank} has come to a training, but rank {rank} has ended; all ranks must train alike"
            )
        return call

    def _until(
        self, find: Callable[[], Optional[_Found]], end: float = float("inf"), said: str = ""
    ) -> Optional[_Found]:
        """What find() gives as soon as it is not None; None if that is not before `end`. `said`: what is waited for."""
        begin = last = time.monotonic()
        pause = 0.002
        while True:
            found = find()
            now = time.monotonic()
            if found is not None or now > end:
                return found
            if said and now - last > _SAY_AFTER_SECONDS:
                last = now
                log.warning(f"rank {self._rank} has waited {now - begin:.0f} s for {said}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)


@contextlib.contextmanager
def of_all(call: Optional[meetings.Call] = None, channel: Any = None) -> Iterator[meetings.Call]:
    """Around a call to which all ranks have come. The program may catch the error of one: the watchdog hears of it for those who wait in a
    collective, the store has it for those who wait there.
    """
    failed_runs.forget()
    call = call or meetings.begin_call()
    try:
        yield call
    except Exception as error:
        failed_runs.note(error)
        with contextlib.suppress(StoreError):
            (channel or store()).put(call.failure_key, {"rank": ranks.launched().rank, "error": log.brief(error)})
        raise
    finally:
        meetings.end(call)


def start() -> None:
    """Has the other ranks of a job know when this one ends, too."""
    if ranks.current().size > 1:
        _calls()


@functools.cache
def _calls() -> Calls:
    here = ranks.current()
    made = Calls(store(), here.rank, here.size, waits_ahead=watchdog.waits_ahead)
    atexit.register(_end, made)
    return made


def _end(made: Calls) -> None:
    with contextlib.suppress(StoreError):  # The launcher has ended, too.
        made.end()


def train(original: Any) -> Any:
    """Wraps Estimator.train."""

    @functools.wraps(original)
    def train(
        self: Any,
        input_fn: Any,
        hooks: Any = None,
        steps: Any = None,
        max_steps: Any = None,
        saving_listeners: Any = None,
    ) -> Any:
        if ranks.current().size == 1:
            return original(self, input_fn, hooks, steps, max_steps, saving_listeners)
        kinds = ((LISTENER, _compat.evaluation_listener_class()), (HOOK, _compat.in_memory_hook_class()))
        given = [*(hooks or ()), *(saving_listeners or ())]
        evaluate = [name for name, kind in kinds if any(isinstance(each, kind) for each in given)]
        with training_of_all(evaluate, self.model_dir):
            return original(self, input_fn, hooks, steps, max_steps, saving_listeners)

    return train


def training_of_all(evaluate: Collection[str] = (), folder: str = "") -> ContextManager[None]:
    """For one of several ranks: Calls.training."""
    return _calls().training(evaluate, folder)


def by_listener(original: Any) -> Any:
    """Wraps what train_and_evaluate's listener calls: what is called inside is not the program's own doing."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        global _by
        outer, _by = _by, LISTENER
        try:
            return original(*args, **kwargs)
        finally:
            _by = outer

    return method


def is_alone(what: str, path: Optional[str] = None, by: str = "") -> bool:
    """Whether this process makes `what` by itself, in one process or as one rank of several; see Calls.is_of_all."""
    if ranks.current().size == 1:
        return True
    return not _calls().is_of_all(what, program_lines(sys._getframe()), path or "", by or _by)
