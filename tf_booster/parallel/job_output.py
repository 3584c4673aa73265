"""What a job of ranks prints, passed on as it comes, and what is worth repeating when it has failed."""

from __future__ import annotations

import collections
import re
import signal
from typing import Deque, Dict, List, NamedTuple, Optional

_LINES = 25  # Of stderr that are repeated: a traceback of TensorFlow's has 20 and its message.
_KEPT = 300  # That are looked through: behind the message TensorFlow repeats where the program has made the op.

_LINE_OF_RANK = re.compile(r"[^\[]*\[(\d+)\]<(stdout|stderr)>:(.*)", re.DOTALL)
_EXIT = re.compile(r"Process (\d+) exit with status code (-?\d+)\.")
# What Horovod says in a rank when another one has left.
_CONSEQUENCES = (
    "Horovod has been shut down",
    "Connection reset by peer",
    "Connection closed by peer",
    "HorovodInternalError",
    "whose process has ended",  # Said by HostGroup.
)


class Exit(NamedTuple):
    """A rank that ended with an error; `code` as a shell gives it, 128 + n for signal n."""

    rank: int
    code: int

    def __str__(self) -> str:
        number = self.code - 128
        if self.code > 128 and number in set(signal.Signals):
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        return f"ended with exit code {self.code}"


class JobOutput:
    """Reads the lines that Horovod's launcher prints for all ranks. One thread for each stream may call `line`."""

    def __init__(self, size: int):
        self._size = size
        self._last: Dict[int, Deque[str]] = collections.defaultdict(lambda: collections.deque(maxlen=_KEPT))
        self.exits: List[Exit] = []
        self.launchers_error: List[
            str
        ] = []  # The traceback with which the launcher ends; it tells nothing of a rank's.

    def line(self, text: str) -> bool:
        """Takes in a line of the launcher's stdout or stderr; says whether it is to be shown at once."""
        # The launcher writes a line's end apart from the line, so a rank's line may follow on it.
        exited = _EXIT.match(text)
        if exited:
            self.exits.append(Exit(int(exited[1]), int(exited[2])))
            text = text[exited.end() :]
        of_rank = _LINE_OF_RANK.match(text)
        if of_rank and of_rank[2] == "stderr" and of_rank[3].strip():
            self._last[int(of_rank[1])].append(of_rank[3].rstrip())
        if not of_rank and (self.launchers_error or text.startswith("Traceback (most recent call last)")):
            self.launchers_error.append(text)
            return False
        return True

    def cause(self) -> Optional[Exit]:
        """The rank that ended the job: the first one that failed for a reason of its own; None if no rank failed."""
        own = [exited for exited in self.exits if not self._is_consequence(exited)]
        return (own or self.exits or [None])[0]

    def _is_consequence(self, exited: Exit) -> bool:
        # The launcher stops the others with SIGTERM, and kills those that do not go.
        if exited.code == 128 + signal.SIGTERM or (exited.code == 128 + signal.SIGKILL and exited != self.exits[0]):
            return True
        return any(text in line for line in self._last[exited.rank] for text in _CONSEQUENCES)

    def summary(self) -> str:
        """Several lines about a job that failed: which rank, how, and the end of its stderr. Empty if no rank failed."""
        cause = self.cause()
        if cause is None:
            return ""
        lines = [f"rank {cause.rank} of {self._size} {cause}, and the job with it."]
        others = [e for e in self.exits if e.rank != cause.rank]
        quiet = sorted(set(range(self._size)) - {e.rank for e in self.exits})
        if self._is_consequence(cause) and cause.code != 128 + signal.SIGTERM and quiet:
            ranks = ", ".join(map(str, quiet))
            lines.append(f"It was left alone: rank(s) {ranks} had ended before, with exit code 0.")
        elif others:
            lines.append(f"The other ranks were stopped after it: {', '.join(str(e.rank) for e in others)}.")
        if self._last[cause.rank]:
            last = [*self._last[cause.rank]][-_LINES:]
            lines += [f"Rank {cause.rank}'s stderr ended with:", *(f"    {line}" for line in last)]
        else:
            lines.append(f"Rank {cause.rank} wrote nothing to stderr.")
        return "\n".join(lines)
