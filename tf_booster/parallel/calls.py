"""Which calls of an Estimator all ranks make together, and which one rank makes by itself: `if hvd.rank() == 0: estimator.evaluate(…)`.

Each rank tells the store what it has come to, behind the calls that all have made together. All ranks train; an evaluation, a prediction
or an export is one of all ranks if all have come to it, from the same lines of the program. Rank 0 says whether they have, so that no two
ranks can think differently of it: it waits for what each comes to. One that trains, or has ended, does not come; nor, after a while, one
that has said nothing, since it may wait in the program's own barrier. What a rank does by itself it does as a process of its own, with the
whole input and whole tables.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, Optional, Tuple, TypeVar

from tf_booster import _compat, log
from tf_booster.parallel import ranks
from tf_booster.parallel.program_lines import program_lines
from tf_booster.parallel.store import StoreError, store

EVALUATION, PREDICTION, EXPORT, SESSION = "an evaluation", "a prediction", "an export", "a session"
_TRAINING, _END = "a training", "its end"
_GONE_ON = (_TRAINING, _END)
_PATIENCE = (30.0, 3.0)  # Seconds for ranks that say nothing; the second, once that was in vain.
_SAY_AFTER_SECONDS = 30

_Found = TypeVar("_Found")


class Calls:
    """Those of one rank."""

    def __init__(self, channel: Any, rank: int, size: int, patience: Tuple[float, float] = _PATIENCE):
        """`channel`: a Store."""
        self._store, self._rank, self._others = channel, rank, [r for r in range(size) if r != rank]
        self._patience = patience
        self._position = 0  # How many calls all ranks have made together.
        self._told = 0  # What this rank has told so far.
        self._answered: Dict[int, int] = {}  # On rank 0: the number of the latest that it has answered, by rank.
        self._within: Optional[bool] = None  # Inside a training: whether what is called there is of all ranks.

    @contextlib.contextmanager
    def training(self, evaluates: bool) -> Iterator[None]:
        """A training of all ranks. evaluates: by train_and_evaluate's listener, which ranks may have or not.

        Raises:
          RuntimeError: another rank has ended.
        """
        self._tell(_TRAINING, evaluates=evaluates)
        # Not in a collective, where one that still evaluates would be told to hang.
        found = [self._training_of(rank) for rank in (self._others if evaluates or self._rank == 0 else [0])]
        self._position += 1
        outer, self._within = self._within, not evaluates or all(told["evaluates"] for told in found)
        try:
            yield
        finally:
            self._within = outer

    def is_of_all(self, what: str, where: str = "") -> bool:
        """Whether all ranks have come to `what`, and from the same lines of the program; else it is this rank's own, which must not wait for
        the others in it."""
        if self._within is not None:
            return self._within
        call = f"{what} ({where})"
        number = self._tell(call)
        together = self._answer(call) if self._rank == 0 else self._answer_of_rank_0(call, number)
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
        return self._store.get(self._key("call", rank)) or {"what": "", "number": 0}

    def _answer(self, what: str) -> bool:
        """Rank 0's, for all that have come to `what`, as it was told."""
        number, (seconds, later) = self._told, self._patience
        end = time.monotonic() + seconds
        calls = {rank: self._until(lambda rank=rank: self._new_call_of(rank), end) for rank in self._others}
        silent = [rank for rank, call in calls.items() if call is None]
        if silent:
            self._patience = (later, later)
            log.warning(
                f"rank 0 makes {what} alone, with the whole input and whole tables: rank(s) {', '.join(map(str, silent))} "
                f"have come to none, and no further, in {seconds:.0f} s"
            )
        asked = {rank: call["number"] for rank, call in calls.items() if call is not None and call["what"] == what}
        self._answered.update(asked)
        together = len(asked) == len(calls)
        self._store.put(
            self._key("answer", number), {"together": together, "asked": {str(r): n for r, n in asked.items()}}
        )
        return together

    def _new_call_of(self, rank: int) -> Optional[Dict[str, Any]]:
        call = self._call_of(rank)
        return call if call["what"] in _GONE_ON or call["number"] > self._answered.get(rank, 0) else None

    def _answer_of_rank_0(self, what: str, number: int) -> bool:
        def answer() -> Optional[bool]:
            call = self._call_of(0)
            if call["what"] in _GONE_ON:
                return False
            said = self._store.get(self._key("answer", call["number"])) if call["what"] == what else None
            return said["together"] if said and said["asked"].get(str(self._rank)) == number else None

        found = self._until(answer, said=f"rank 0 to come to {what}, too, or to what follows it")
        assert found is not None
        return found

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


def start() -> None:
    """Has the other ranks of a job know when this one ends, too."""
    if ranks.current().size > 1:
        _calls()


@functools.cache
def _calls() -> Calls:
    here = ranks.current()
    made = Calls(store(), here.rank, here.size)
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
        listener = _compat.evaluation_listener_class()
        with training_of_all(any(isinstance(each, listener) for each in saving_listeners or ())):
            return original(self, input_fn, hooks, steps, max_steps, saving_listeners)

    return train


def training_of_all(evaluates: bool = False) -> ContextManager[None]:
    """For one of several ranks: Calls.training."""
    return _calls().training(evaluates)


def is_alone(what: str) -> bool:
    """Whether this process makes `what` by itself, in one process or as one rank of several."""
    return ranks.current().size == 1 or not _calls().is_of_all(what, program_lines(sys._getframe()))
