"""What a hash table should hold after each step, as dictionaries of numpy rows: slow and obvious."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Dict, Iterable, Optional

import numpy as np

RATE, MOMENTUM = np.float32(0.25), np.float32(0.5)


@dataclasses.dataclass
class Row:
    """float32 [dim] each; slot: of momentum, unused without."""

    values: np.ndarray
    slot: np.ndarray
    frequency: int
    last_step: int


class TableModel:
    """One table. `first`: what rows begin with, by key."""

    def __init__(self, dim: int, first: Dict[int, np.ndarray]):
        self.dim, self.first = dim, first
        self.rows: Dict[int, Row] = {}
        self.pending: Dict[int, int] = {}
        self.step = 0

    def copy(self) -> TableModel:
        """All of it but for first values, which never change."""
        made = copy.copy(self)
        made.rows, made.pending = copy.deepcopy(self.rows), dict(self.pending)
        return made

    def forget_slots(self) -> None:
        """As under another optimizer."""
        for row in self.rows.values():
            row.slot = np.zeros(self.dim, np.float32)

    def train(self, sums: Dict[int, np.ndarray], sightings: Dict[int, int], settings: Dict[str, Any]) -> None:
        """One step without its eviction. sums: of the gradients of each key, exact; sightings: of each key."""
        self.step += 1
        for key, count in sightings.items():
            row = self.rows.get(key)
            if row is None:
                seen = self.pending.pop(key, 0) + count
                if seen < settings["min_frequency"]:
                    self.pending[key] = seen
                    continue
                row = self._insert(key, 0)
                count = seen
            row.frequency += count
            row.last_step = self.step
            if settings["optimizer"] == "momentum":
                row.slot = row.slot * MOMENTUM + sums[key]
                row.values = row.values - RATE * row.slot
            else:
                row.values = row.values - RATE * sums[key]

    def evict(self, eviction: Optional[Dict[str, Any]], kept: Iterable[int]) -> None:
        """Removes the rows that a policy takes. Of rows that are alike it may take any: `kept` says which it left."""
        if eviction is None:
            return
        if "max_idle_steps" in eviction:
            limit = self.step - eviction["max_idle_steps"]
            self.rows = {key: row for key, row in self.rows.items() if row.last_step > limit}
            return
        over = len(self.rows) - eviction["max_rows"]
        if over <= 0:
            return
        score = lambda key: self.rows[key].last_step if eviction["order"] == "lru" else self.rows[key].frequency
        bound = sorted(map(score, self.rows))[over - 1]
        kept = set(kept)
        gone = {key for key in self.rows if key not in kept}
        assert len(gone) == over, f"{len(gone)} rows left, wanted {over}"
        assert all(score(key) <= bound for key in gone), "a row left before one of a lower score"
        assert all(score(key) >= bound for key in self.rows if key in kept), "a row stayed that should have left"
        self.rows = {key: row for key, row in self.rows.items() if key in kept}

    def assign(self, key: int, values: np.ndarray) -> None:
        self.pending.pop(key, None)
        (self.rows.get(key) or self._insert(key, 1)).values = values

    def erase(self, key: int) -> bool:
        """Whether there was a row."""
        self.pending.pop(key, None)
        return self.rows.pop(key, None) is not None

    def _insert(self, key: int, frequency: int) -> Row:
        row = self.rows[key] = Row(self.first[key], np.zeros(self.dim, np.float32), frequency, self.step)
        return row
