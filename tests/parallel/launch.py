"""Starts several ranks of a test's function, or of a script, over Gloo on this machine.

    def weights(rank, size, lr): ...            # In a test file; runs in a process of its own, one a rank.

    first, second = launch.values(weights, 2, lr=0.1)

Ranks of functions are forked from processes that have imported TensorFlow (rank_forks.py); scripts are started anew.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import rank_forks

# When one rank has failed, the others fail by themselves in a tenth of a second, or are not meant to.
_GRACE_SECONDS = 10

# One thread a rank: tests share few cores. Horovod negotiates every 4 ms: at 0.1 ms a collective takes 0.5 ms, but a rank that waits or
# builds its graph takes a quarter of a core for nothing; these tests took twice the processor time, and a third more by the clock.
_ENVIRONMENT = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HOROVOD_CYCLE_TIME": "4",
    "HOROVOD_CONTROLLER": "gloo",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_IFACE": "lo",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "60",
}


@dataclasses.dataclass
class Outcome:
    """How one rank ended: what its function returned, or the traceback of what it raised; what it printed; its exit status
    (negative: the signal that ended it)."""

    value: Any
    error: str
    output: str
    status: int


def values(function: Callable[..., Any], size: int, **kwargs: Any) -> List[Any]:
    """What function(rank=…, size=size, **kwargs) returns on each of `size` ranks. See outcomes() for options.

    Raises AssertionError, with what each rank printed, if one fails.
    """
    found = outcomes(function, size, **kwargs)
    failed = [rank for rank, outcome in enumerate(found) if outcome.status or outcome.error]
    told = [f"--- rank {rank}, status {o.status}\n{o.output[-6000:]}\n{o.error}" for rank, o in enumerate(found)]
    assert not failed, "\n".join([f"ranks {failed} of {size} failed", *told])
    return [outcome.value for outcome in found]


def outcomes(
    function: Callable[..., Any],
    size: int,
    seconds: float = 150,
    env: Optional[Mapping[str, str]] = None,
    launched: bool = True,
    **kwargs: Any,
) -> List[Outcome]:
    """Runs function(rank=…, size=size, **kwargs) in `size` processes; whatever it takes and returns is pickled.

    Args:
      function: of a test file's or helper's top level. Its folder is in the path of modules there, as under pytest.
      seconds: after these all ranks are killed.
      env: added to the environment of all ranks.
      launched: whether the processes see a launcher's variables; without them each is a program of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        call = os.path.join(folder, "call")
        with open(call, "wb") as file:
            pickle.dump(kwargs, file)
        paths = [os.path.join(folder, f"outcome{rank}") for rank in range(size)]
        commands = [[inspect.getfile(function), function.__qualname__, call, path] for path in paths]
        ended = _run(_fork, commands, seconds, env, launched)
        for outcome, path in zip(ended, paths):
            if os.path.exists(path):
                with open(path, "rb") as file:
                    outcome.value, outcome.error = pickle.load(file)
        return ended


def programs(
    commands: Sequence[Sequence[str]],
    seconds: float = 150,
    env: Optional[Mapping[str, str]] = None,
    launched: bool = True,
) -> List[Outcome]:
    """Runs one Python program a rank, each given as a script's path with its arguments, and waits for all.

    `seconds`, `env` and `launched` are those of outcomes().
    """
    return _run(_start, commands, seconds, env, launched)


def _run(
    start: Callable[..., Any],
    commands: Sequence[Sequence[str]],
    seconds: float,
    env: Optional[Mapping[str, str]],
    launched: bool,
) -> List[Outcome]:
    server = _rendezvous(len(commands)) if launched else None
    try:
        places = [{}] * len(commands) if server is None else server.environments
        with tempfile.TemporaryDirectory() as folder:
            outputs = [os.path.join(folder, f"output{rank}") for rank in range(len(commands))]
            processes = [start(*each, env or {}) for each in zip(range(len(commands)), commands, places, outputs)]
            try:
                late = _wait(processes, seconds)
            finally:
                for process in processes:
                    _kill(process)
            return [
                Outcome(None, f"killed after {seconds} s" if rank in late else "", _read(path), process.returncode)
                for rank, (process, path) in enumerate(zip(processes, outputs))
            ]
    finally:
        if server is not None:
            server.stop()


@dataclasses.dataclass
class _Rendezvous:
    environments: List[Dict[str, str]]
    stop: Callable[[], None]


def _rendezvous(size: int) -> _Rendezvous:
    # Imported here: ranks import this file too, and need none of it.
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer(0)
    port = server.start()
    slots = get_host_assignments(parse_hosts(f"localhost:{size}"), size)
    server.init(slots)
    address = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": "lo",  # Else Gloo asks for the address of this machine's name, which may have none.
    }
    return _Rendezvous([{**create_slot_env_vars(slot), **address} for slot in slots], server.stop)


def _start(
    rank: int, command: Sequence[str], place: Mapping[str, str], output: str, env: Mapping[str, str]
) -> subprocess.Popen:
    environment = {**_inherited(), "TEST_RANK": str(rank), **place, **env}
    with open(output, "wb") as file:
        return subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def _fork(rank: int, command: Sequence[str], place: Mapping[str, str], output: str, env: Mapping[str, str]) -> Any:
    inherited = _inherited()
    server = rank_forks.server(rank, tuple(sorted(_at_import(inherited).items())))
    return server.start(list(command), {**inherited, "TEST_RANK": str(rank), **place, **env}, output)


def _inherited() -> Dict[str, str]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**inherited, **_ENVIRONMENT, "PYTHONPATH": path}


def _at_import(environment: Mapping[str, str]) -> Dict[str, str]:
    """Without what differs from test to test, and is looked at later."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}


def _wait(processes: List[Any], seconds: float) -> List[int]:
    """Waits for all, and returns the ranks that did not end in time."""
    end = time.monotonic() + seconds
    failed = False
    while time.monotonic() < end:
        statuses = [process.poll() for process in processes]
        if None not in statuses:
            return []
        if not failed and any(statuses):
            failed, end = True, min(end, time.monotonic() + _GRACE_SECONDS)
        time.sleep(0.02)
    return [rank for rank, process in enumerate(processes) if process.poll() is None]


def _kill(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # What it started goes too.
    except ProcessLookupError:
        pass
    process.wait()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def be_a_rank(path: str, function: str, call: str, outcome: str) -> None:
    """Calls the pickled `call` of the function of that name in the file `path`, and writes to `outcome`."""
    name = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    value, error = None, ""
    try:
        spec.loader.exec_module(module)
        with open(call, "rb") as file:
            kwargs = pickle.load(file)
        rank, size = int(os.environ["TEST_RANK"]), int(os.environ.get("HOROVOD_SIZE", 1))
        value = getattr(module, function)(rank=rank, size=size, **kwargs)
        pickled = pickle.dumps((value, error))
    except BaseException:  # pylint: disable=broad-except
        pickled = pickle.dumps((None, traceback.format_exc()))
        raise
    finally:
        with open(outcome + ".part", "wb") as file:
            file.write(pickled)
        os.replace(outcome + ".part", outcome)
