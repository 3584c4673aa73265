"""How long the steps of a pipeline spend where."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional


@dataclasses.dataclass
class Timing:
    """Sums over the steps so far, in seconds of a clock.

    embedding: runs of the embedding graph, on their thread. main: runs of the main graph; in_one: how many of them had both halves.
    waiting: how long steps waited for the embedding graph before their main graph could begin.
    total: from the begin of the first step that was timed to the end of the last one, with what the program does in between.
    """

    steps: int = 0
    in_one: int = 0
    embedding: float = 0.0
    main: float = 0.0
    waiting: float = 0.0
    first_began: float = 0.0
    last_ended: float = 0.0

    def add(self, began: float, waited: float, ended: float, embedding: Optional[float]) -> None:
        """Takes in a step that began at `began`, waited so long, and ended; `embedding`: seconds of its embedding graph, None if it
        was a part of the run."""
        if self.steps == 0:
            self.first_began = began
        self.steps += 1
        self.in_one += embedding is None
        self.embedding += embedding or 0.0
        self.waiting += waited
        self.main += ended - began - waited
        self.last_ended = ended

    def to_dict(self) -> Dict[str, Any]:
        """Milliseconds a step, and which half bounds it: "embedding", "main", or "program" (what is between two runs).

        Where most steps were one run with both halves, the embedding graph ran by itself in the first ones alone, which wait for the first batch.
        """
        steps = max(self.steps, 1)
        each = {
            "embedding_ms": 1e3 * self.embedding / max(steps - self.in_one, 1),
            "main_ms": 1e3 * self.main / steps,
            "waiting_ms": 1e3 * self.waiting / steps,
            "step_ms": 1e3 * (self.last_ended - self.first_began) / steps,
        }
        between = each["step_ms"] - each["main_ms"] - each["waiting_ms"]
        halves = [("main", each["main_ms"]), ("program", between)]
        if 2 * self.in_one <= self.steps:
            halves.append(("embedding", each["embedding_ms"]))
        longest = max(halves, key=lambda half: half[1])
        return {
            "steps": self.steps,
            "in_one_run": self.in_one,
            **{name: round(ms, 4) for name, ms in each.items()},
            "bound_by": longest[0],
        }
