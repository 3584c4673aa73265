"""Ranks that are all on one host and on its processors exchange through shared memory, not through Horovod's sockets.

Horovod starts the ranks and still carries what is rare (broadcasts) and what the program does itself. Whether all ranks can read each
other's memory is tried once, and agreed on through the store.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Optional

from tf_booster import _native, log
from tf_booster.parallel import rank_process, ranks
from tf_booster.parallel.store import store

SWITCH = "TF_BOOSTER_SHARED_MEMORY"  # "0": everything goes through Horovod.

_SELDOM_MS = "5"
_TEXT_BYTES = 4096


def start() -> None:
    """Finds the other ranks, before Horovod starts; all ranks must call it, and wait for each other. Once a process.

    Horovod's thread then has little to do: unless the user has said how often it looks, it looks seldom. Every look is a negotiation
    between all ranks, also where nothing is to be done: at 0.1 ms a quarter of a core in each of two ranks, at 5 ms a fiftieth.
    """
    launched = ranks.launched()
    if launched.size > 1 and launched.local_size == launched.size and _connect(launched.rank, launched.size):
        if os.environ.get(rank_process.CHOSEN_CYCLE):
            os.environ["HOROVOD_CYCLE_TIME"] = _SELDOM_MS


def connected() -> bool:
    """Whether collectives of this process's ranks can go through shared memory."""
    here = ranks.current()
    return here.size > 1 and here.local_size == here.size and _connect(here.rank, here.size)


@functools.cache
def _connect(rank: int, size: int) -> bool:
    if not os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR"):
        return False  # Without a launcher's store, ranks would have to run a collective to agree.
    obstacle = _obstacle() or ""
    address = "" if obstacle else _call("tf_booster_host_ranks_create", ctypes.c_int32(rank), ctypes.c_int32(size))
    channel = store()
    channel.put(f"host-address-{rank}", address)
    addresses = [channel.wait(f"host-address-{other}", f"rank {other} to start") for other in range(size)]
    if not all(addresses):
        return False
    try:
        _call("tf_booster_host_ranks_connect", " ".join(addresses).encode())
    except OSError as error:
        obstacle = str(error)
        log.once(f"ranks exchange by Horovod alone, since they cannot share memory ({obstacle})")
    channel.put(f"host-obstacle-{rank}", obstacle)
    return not any([channel.wait(f"host-obstacle-{other}", f"rank {other} to start") for other in range(size)])


def _obstacle() -> Optional[str]:
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0"
    # On cards, tensors stay there, and NCCL carries them.
    return "there are cards" if ranks.visible_cards() else None


def _call(function: str, *arguments: object) -> str:
    """Calls one of cc/tf/kernels/host_ranks.cc; what it writes. Raises OSError with it if it fails."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    call = getattr(ctypes.CDLL(_native.shared_object()), function)
    failed = call(*arguments, text, ctypes.c_int64(_TEXT_BYTES))
    told = text.value.decode(errors="replace")
    if failed:
        raise OSError(told)
    return told
