"""Which rank this process is, out of how many; Horovod is started here and nowhere else.

No collective runs here, and no TensorFlow device or session is made: programs still set their threads and devices after
enable_gpu_booster().
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import os
import sys
import zlib
from typing import Any, Iterator, List, Mapping, Optional

from tf_booster import log
from tf_booster.options import Options

BUILD_COMMAND = (
    "HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 "
    "pip install --no-build-isolation --no-cache-dir horovod==0.28.1"
)

# How launchers tell a process the number of processes: horovodrun over Gloo, Open MPI, MPICH and Intel MPI, MVAPICH.
_SIZES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL_SIZES = ("HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")
_RANKS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")

# What all processes of one job, and of no other, have in their environment.
_JOB = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
        "PMI_JOBID")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among those that train together: rank out of size, and local_rank out of local_size on this machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


_HOROVOD = "horovod.tensorflow.mpi_ops"

_current = Ranks()
_users_own: List[str] = []
_seed: Optional[int] = None
_initialised_here = False


def current() -> Ranks:
    """This process's place; rank 0 of 1 without Horovod, and before enable_gpu_booster()."""
    return _current


def horovod() -> Any:
    """The module horovod.tensorflow, initialised. For use where current().size is above 1."""
    import horovod.tensorflow as hvd  # Takes a second, and is not everywhere. pylint: disable=import-outside-toplevel

    return hvd


def start(options: Options) -> Ranks:
    """Initialises Horovod if a launcher started several processes, or horovod=True asks for it, and returns current().

    A Horovod that the program has initialised is used as it is, and its cards are left to the program. Where Horovod is missing or has
    no TensorFlow, says so with the command that builds it, and one process goes on: of several that were started, rank 0; the
    others end (SystemExit(0)), because they would write over its checkpoints.
    """
    global _current, _seed, _initialised_here
    stop()
    _seed = options.seed
    launched = _launched(os.environ)
    if options.horovod is False:
        if launched.size > 1:
            log.once(f"horovod=False: each of the {launched.size} processes that were started trains by itself.")
        return _current
    by_user = _initialised_by_user()
    if launched.size == 1 and options.horovod is not True and not by_user:
        return _current
    try:
        hvd = horovod()
    except (
        Exception
    ) as error:  # Beside ImportError what a library for another TensorFlow raises. pylint: disable=broad-except
        _go_on_alone(launched, error)
        return _current
    if by_user:
        _users_own.append("hvd.init(), and which card a rank uses")
    else:
        if launched.size > 1:
            _bind_card(_local_rank(os.environ))
        hvd.init()
        if not _initialised_here:
            hvd.init = _only_again(hvd.init)
        _initialised_here = True
    _current = Ranks(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
    if _seed is None and _current.size > 1:
        _seed = _seed_of_job(os.environ)
    if _current.size > 1 and _current.rank == 0:
        log.once(f"{_current.size} ranks train together, {_current.local_size} of them on this machine.")
    return _current


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, this process is one of its own: for work on whole tables that one rank does for all."""
    global _current
    before, _current = _current, Ranks()
    try:
        yield
    finally:
        _current = before


def stop() -> None:
    """Makes this process one of its own again. Horovod stays initialised: it cannot be started twice."""
    global _current, _seed
    _current, _seed = Ranks(), None
    _users_own.clear()


def shared_seed() -> Optional[int]:
    """A seed that all ranks have in common: the option `seed`, or one of 31 bits; None for one process without that option."""
    return _seed


def left_alone() -> List[str]:
    """What the program does itself with Horovod, as far as it was known at start()."""
    return list(_users_own)


def launched() -> Ranks:
    """The place that the launcher named; known before Horovod starts."""
    return _launched(os.environ)


def _launched(env: Mapping[str, str]) -> Ranks:
    for size, rank, local_size in zip(_SIZES, _RANKS, _LOCAL_SIZES):
        if env.get(size):
            return Ranks(int(env.get(rank) or 0), int(env[size]), _local_rank(env), int(env.get(local_size) or 1))
    return Ranks()


def _local_rank(env: Mapping[str, str]) -> int:
    names = ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
    return int(next((env[name] for name in names if env.get(name)), 0))


def has_horovod() -> bool:
    """Whether this process has loaded Horovod, so that graphs may have its ops."""
    return _HOROVOD in sys.modules


def horovod_size() -> int:
    """How many ranks Horovod has, whoever started it; 1 where nobody has."""
    module = sys.modules.get(_HOROVOD)
    return module.size() if module is not None and module.is_initialized() else 1


def _initialised_by_user() -> bool:
    """Whether the program has called hvd.init(), of horovod.tensorflow or of its Keras module, which share one library."""
    module = sys.modules.get(_HOROVOD)
    return module is not None and not _initialised_here and module.is_initialized()


def _only_again(init: Any) -> Any:
    """hvd.init of a Horovod that was started here. It does nothing then, and of process sets it would say `KeyError: (0,)`."""

    @functools.wraps(init)
    def again(comm: Any = None, process_sets: Any = None) -> Any:
        if process_sets:
            raise ValueError(
                f"hvd.init: process_sets={process_sets!r}, but tf.enable_gpu_booster() has started Horovod, without them; "
                "call tf.enable_gpu_booster() after hvd.init(process_sets=…)"
            )
        return init() if comm is None else init(comm)

    return again


def _go_on_alone(launched: Ranks, error: Exception) -> None:
    said = f"there is no Horovod for this TensorFlow ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
    remedy = f"Build it with: {BUILD_COMMAND}"
    if launched.size == 1:
        log.once(f"{said}; one process goes on. {remedy}")
        return
    if launched.rank == 0:
        log.once(f"{said}; of {launched.size} processes that were started, rank 0 goes on alone. {remedy}")
        return
    log.once(f"{said}; rank {launched.rank} ends, and rank 0 goes on alone. {remedy}")
    raise SystemExit(0)


def visible_cards() -> List[str]:
    """The cards that CUDA is shown, by number or name."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = [str(i) for i in range(len(glob.glob("/proc/driver/nvidia/gpus/*")))] if shown is None else shown.split(",")
    return [card for card in cards if card.strip() not in ("", "-1")]


def _bind_card(local_rank: int) -> None:
    """Shows CUDA one card, before it looks; a session's own device list cannot be reached from here."""
    cards = visible_cards()
    if len(cards) <= 1:  # None, or the launcher has chosen.
        return
    if local_rank >= len(cards):
        log.once(
            f"local rank {local_rank} has no card of its own: there are {len(cards)}. Start at most one rank a card."
        )
        return
    os.environ["CUDA_VISIBLE_DEVICES"] = cards[local_rank]


def _seed_of_job(env: Mapping[str, str]) -> int:
    return zlib.crc32("|".join(env.get(name, "") for name in _JOB).encode()) & 0x7FFFFFFF
