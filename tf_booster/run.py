"""Starts a script on several ranks: `python -m tf_booster.run -np N [-H host:slots,...] [Horovod's flags] script.py [arguments]`.

It runs Horovod's launcher, with an environment for each rank that parallel/rank_process.py sets, passes the output of all ranks
on (each line begins with its rank), and says at the end which rank failed, how, and what it said last.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, List, Optional, Sequence, TextIO, Tuple

from tf_booster.parallel import rank_process, ranks
from tf_booster.parallel.job_output import JobOutput

_GRACE_SECONDS = 20  # Horovod gives ranks 5 s to end, then kills them; after this the launcher is killed itself.

# Horovod's launcher starts each rank from a thread, and two of them would load these at once: with Python 3.9 a rank then
# ends now and then with "cannot import name 'register' from partially initialized module".
LAUNCHER = """
import multiprocessing.connection, multiprocessing.popen_spawn_posix, multiprocessing.resource_tracker, multiprocessing.synchronize
from horovod.runner import launch
launch.run_commandline()
"""

_USAGE = """usage: python -m tf_booster.run -np N [-H host:slots,...] [flags of horovodrun] script.py [arguments]

Starts N ranks of a Python script, or of another command. `horovodrun --help` lists the flags that may stand before it."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the job; returns the exit code: that of the rank that failed, 0 if none did."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    missing = _horovod_obstacle()
    if missing and _asks_for_one(arguments):
        print(f"tf_booster.run: {missing} One process goes on without it.", file=sys.stderr)
        return subprocess.call(_rank_command(arguments[2:]))
    if missing:
        print(f"tf_booster.run: {missing}", file=sys.stderr)
        return 1
    flags, command, size = _split(arguments)
    if size < 1:
        print(f"tf_booster.run: {size} ranks; wanted -np 1 or more\n{_USAGE}", file=sys.stderr)
        return 2
    if not command:
        print(f"tf_booster.run: no script to run\n{_USAGE}", file=sys.stderr)
        return 2
    return _run([sys.executable, "-c", LAUNCHER, *flags, *_rank_command(command)], size)


def _horovod_obstacle() -> str:
    """Why there is no Horovod for this TensorFlow, with the remedy; empty where there is one."""
    try:
        ranks.horovod()
    except Exception as error:  # A library for another TensorFlow raises its own. pylint: disable=broad-except
        return f"there is no Horovod for this TensorFlow ({type(error).__name__}: {error}). Build it with: {ranks.BUILD_COMMAND}"
    return ""


def _asks_for_one(arguments: Sequence[str]) -> bool:
    return list(arguments[:2]) in (["-np", "1"], ["--num-proc", "1"]) and not "".join(arguments[2:3]).startswith("-")


def _split(arguments: List[str]) -> Tuple[List[str], List[str], int]:
    """Horovod's flags, the command behind them, the number of ranks; by Horovod's own parser, which ends the process on errors."""
    from horovod.runner import launch  # pylint: disable=import-outside-toplevel

    before = sys.argv
    sys.argv = ["python -m tf_booster.run", *arguments]
    try:
        parsed = launch.parse_args()
    finally:
        sys.argv = before
    command = list(parsed.command or [])
    return arguments[: len(arguments) - len(command)], command, 1 if parsed.num_proc is None else parsed.num_proc


def _rank_command(command: Sequence[str]) -> List[str]:
    """What one rank runs: a Python script, or anything that can be executed, in the environment of a rank."""
    program = [sys.executable] if command[0].endswith(".py") or shutil.which(command[0]) is None else []
    return [sys.executable, "-I", rank_process.__file__, *program, *command]


def _run(launcher: List[str], size: int) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    # A session of its own: Ctrl-C reaches this process alone, which stops the ranks in order.
    process = subprocess.Popen(
        launcher,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_end_with_parent,
        encoding="utf-8",
        errors="replace",
    )
    output = JobOutput(size)
    interrupted = _forward_signals(process)
    readers = [_pass_on(process.stdout, sys.stdout, output), _pass_on(process.stderr, sys.stderr, output)]
    code = process.wait()
    for reader in readers:
        reader.join(timeout=5)  # A rank's own children may hold the pipe open.
    if interrupted:
        print("tf_booster.run: stopped; all ranks were ended.", file=sys.stderr)
        return 128 + interrupted[0]
    summary = output.summary()
    if code != 0 and summary:
        print(f"tf_booster.run: {summary}", file=sys.stderr)
        return output.cause().code
    print("".join(output.launchers_error), end="", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _end_with_parent() -> None:
    """The launcher ends, and the ranks with it, even where this process is killed in a way that it cannot see."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _forward_signals(process: Any) -> List[int]:
    """Hands SIGINT and SIGTERM to the launcher; the list returned gets the signal's number."""
    seen: List[int] = []

    def stop(number: int, frame: Any) -> None:
        del frame
        if not seen:
            timer = threading.Timer(_GRACE_SECONDS, process.kill)
            timer.daemon = True
            timer.start()
        seen.append(number)
        process.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return seen


def _pass_on(source: TextIO, target: TextIO, output: JobOutput) -> threading.Thread:
    def copy() -> None:
        for line in source:
            if output.line(line):
                target.write(line)
                target.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


if __name__ == "__main__":
    sys.exit(main())
