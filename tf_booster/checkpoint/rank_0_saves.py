"""Checkpoints of graphs without tables: rank 0 saves them for all, and the others wait until they are there.

Where ranks meet in the program's own collectives alone a rank may save more or less often than rank 0, or before rank 0, which waits for it in a broadcast,
or under a name or in a folder of its own. Such a rank saves by itself.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Optional, Set

from tf_booster import log
from tf_booster.parallel import own_folders, ranks, watchdog
from tf_booster.parallel.store import RankFailed, StoreError, store

_SECONDS = 60
_APART_SECONDS = 15  # For rank 0 to begin, where it may never do so.

_saved: List[str] = []  # What rank 0 has saved, in its order, as far as this rank knows.
_met: List[int] = [0]  # How many of these came before, and with, what this rank last waited for.
# Names, with the step and without, under which rank 0 saved nothing when this rank waited for it.
_own: Set[str] = set()


def begin() -> None:
    """Says on rank 0 that it saves; tell() follows."""
    store().put(f"{_key()}-begin", True)


def tell(outcome: Dict[str, Any]) -> None:
    """Says on rank 0 how a save has ended: "prefix" is the checkpoint, "error" why there is none."""
    store().put(_key(), outcome)
    _saved.append(outcome["prefix"])


def wait_for(prefix: str, apart: bool) -> Optional[Dict[str, Any]]:
    """What rank 0 says of the checkpoint `prefix`, {} where it says nothing and this rank goes on; None where this rank is to save it, which it also is
    where rank 0 cannot.

    Args:
      apart: whether ranks meet in the program's own collectives alone.
    """
    name, base = os.path.basename(prefix), _without_step(prefix)
    while _is_new(name):
        outcome = _next(not apart or not _is_own(name, base), apart)
        if outcome is None:
            _own.update((name, base))
            return None if apart else {}
        _saved.append(outcome["prefix"])
        if "error" in outcome:
            _met[0] = len(_saved)
            return None if apart else outcome
        if base not in map(_without_step, _saved):  # Nor will it be.
            _met[0] = len(_saved)
            return None if apart else {}
    _own.difference_update((name, base))
    _met[0] += [os.path.basename(saved) for saved in _saved[_met[0] :]].index(name) + 1
    folder = os.path.dirname(prefix)
    if apart and not own_folders.is_known(folder):
        own_folders.compare(folder, os.path.dirname(_saved[_met[0] - 1]))
    return None if own_folders.has(prefix) else {}


def _is_new(name: str) -> bool:
    return name not in map(os.path.basename, _saved[_met[0] :])


def _is_own(name: str, base: str) -> bool:
    """Whether rank 0 is not known to save it, although it was waited for."""
    return name in _own or (base in _own and base not in map(_without_step, _saved))


def _next(waits: bool, apart: bool) -> Optional[Dict[str, Any]]:
    """What rank 0 says next; None where it says nothing."""
    if not waits:
        return store().get(_key())
    what, key, deadline = "rank 0 to put the checkpoint in its place", _key(), time.monotonic() + _APART_SECONDS

    def in_vain() -> bool:
        late = time.monotonic() > deadline
        return apart and (watchdog.waits_ahead(0) or (late and store().get(f"{key}-begin") is None))

    try:
        outcome = store().wait(key, what, _SECONDS, in_vain)
    except RankFailed:
        raise
    except StoreError as error:
        log.once(f"{error}; it goes on, since rank 0 alone writes checkpoints of graphs without tables")
        return None
    if outcome is None:
        rank = ranks.current().rank
        log.once(
            f"rank {rank} waited for {what}, and rank 0 has gone on; rank {rank} saves by itself what rank 0 does not"
        )
    return outcome


def _key() -> str:
    return f"saved-{len(_saved)}"


def _without_step(prefix: str) -> str:
    return re.sub(r"-\d+$", "", os.path.basename(prefix))
