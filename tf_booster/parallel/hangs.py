"""Which rank holds up the others, from how far each has come. No clocks of other machines: only when something changed here."""

from __future__ import annotations

import dataclasses
from typing import Any, Collection, Dict, List, Mapping, Optional, Set, Tuple

from tf_booster.parallel.failed_runs import FailedRuns


@dataclasses.dataclass
class Beat:
    """What a rank says of itself every few seconds.

    number: counts the beats. collectives: name -> (times entered, times left). at: where its main thread is. failed: runs that ended with an error.
    """

    number: int
    collectives: Mapping[str, Tuple[int, int]]
    at: str = ""
    process: str = ""
    failed: FailedRuns = dataclasses.field(default_factory=FailedRuns)


@dataclasses.dataclass
class _Seen:
    beat: Beat
    alive_at: float  # When its last beat came.
    moved_at: float  # When it last entered or left a collective.


class Hangs:
    """Takes in the beats of all ranks, and tells of each hang once.

    Args:
      limit: seconds that ranks may wait in a collective for another one.
      patient: collectives in which they may wait for as long as it may still come.
    """

    def __init__(self, size: int, limit: float, patient: Collection[str] = ()):
        self._size, self._limit, self._patient = size, limit, patient
        self._seen: Dict[int, _Seen] = {}
        self._told: Set[Any] = set()
        self.hanging_since: Optional[float] = None
        self.for_ever = False  # Whether it cannot end: a run of the rank that is waited for has failed.

    def update(self, now: float, beats: Mapping[int, Optional[Beat]]) -> List[str]:
        """The hangs that were not told yet; `now` in seconds, `beats` by rank, None of a rank that was not heard yet."""
        for rank, beat in beats.items():
            self._note(now, rank, beat)
        late = {rank: names for rank in self._seen for names in [self._waited_for(now, rank)] if names}
        if not late:
            self.hanging_since = None
            self.for_ever = False
            return []
        if self.hanging_since is None:
            self.hanging_since = now - self._limit
        self.for_ever = any(self._failed(rank, names) for rank, names in late.items())
        found = []
        for rank, names in sorted(late.items()):
            key = (rank, *((name, self._entered(rank, name)) for name in names))
            if key not in self._told:
                self._told.add(key)
                found.append(self._describe(now, rank, names))
        return found

    def _note(self, now: float, rank: int, beat: Optional[Beat]) -> None:
        seen = self._seen.get(rank)
        if beat is None or seen is None:
            self._seen.setdefault(rank, _Seen(beat or Beat(0, {}), now, now))
            if beat is not None:
                self._seen[rank].beat = beat
            return
        if beat.number != seen.beat.number:
            seen.alive_at = now
        if beat.collectives != seen.beat.collectives:
            seen.moved_at = now
        seen.beat = beat

    def _entered(self, rank: int, name: str) -> int:
        return self._seen[rank].beat.collectives.get(name, (0, 0))[0]

    def _waited_for(self, now: float, rank: int) -> List[str]:
        """Collectives in which others have waited too long for `rank`."""
        names = []
        for other in self._seen:
            seen = self._seen[other]
            if other == rank or now - seen.moved_at < self._limit:
                continue
            for name, (entered, left) in seen.beat.collectives.items():
                if entered > left and entered > self._entered(rank, name):
                    if name not in self._patient or self._failed(rank, [name]):
                        names.append(name)
        return sorted(set(names))

    def _failed(self, rank: int, names: List[str]) -> bool:
        """Whether the run in which `rank` would have entered one of these collectives has failed there, and not for those who wait."""
        failed = self._seen[rank].beat.failed
        return any(
            failed.number > min(self._seen[other].beat.failed.number for other in self._waiting(name))
            and failed.entered.get(name, 0) == self._entered(rank, name)
            for name in names
        )

    def _waiting(self, name: str) -> List[int]:
        most = max(self._entered(other, name) for other in self._seen)
        return [other for other in sorted(self._seen) if self._entered(other, name) == most]

    def _describe(self, now: float, rank: int, names: List[str]) -> str:
        name = names[0]
        waiting = self._waiting(name)
        waited = min(now - self._seen[other].moved_at for other in waiting)
        seen = self._seen[rank]
        silent = now - seen.alive_at
        who = f"rank {rank} of {self._size}" + (f" ({seen.beat.process})" if seen.beat.process else "")
        others = ", ".join(map(str, waiting))
        more = f" (and {len(names) - 1} others)" if len(names) > 1 else ""
        lines = [
            f"{who} hangs: rank(s) {others} have waited {waited:.0f} s for it in the collective '{name}'{more}, which they have reached "
            f"{self._entered(waiting[0], name)} times and it {self._entered(rank, name)} times."
        ]
        if self._failed(rank, names):
            lines.append(f"It will not come: its run ended with {seen.beat.failed.error}, which was caught there.")
        if silent >= self._limit:
            lines.append(
                f"There has been no sign of life from it for {silent:.0f} s: it is stopped, swapped out, or cut off."
            )
        elif seen.beat.at:
            lines.append(f"Its main thread is at {seen.beat.at}.")
        return " ".join(lines)
