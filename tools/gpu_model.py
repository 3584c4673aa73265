"""A model of a card: what the counts of cc/ptx_machine say about a kernel's time. docs/design/ptx_machine.md, "Counting".

It tells two versions of a kernel apart; its times are no measurements. It sees neither ptxas' scheduling nor TLBs nor how atomics
on one address wait for each other.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Mapping, Tuple

SECTOR = 32
WARP = 32


@dataclasses.dataclass(frozen=True)
class Card:
    """Public figures of a card; rates are in bytes a second."""

    name: str
    memory: float  # Of the data sheet.
    copy_share: float  # What a copy within the memory reaches of it.
    l2: float
    l2_bytes: int = 50 << 20
    multiprocessors: int = 132
    schedulers: int = 4
    clock: float = 1.98e9
    warps: int = 64  # A multiprocessor's, as the following.
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 227 << 10
    launch: float = 2.5e-6  # From one kernel's beginning to the next one's, of kernels that do nothing.

    @property
    def copy(self) -> float:
        """What a copy moves: bytes read and written a second."""
        return self.memory * self.copy_share


CARDS = {
    "H200": Card("H200", memory=4.8e12, copy_share=0.9, l2=5.5e12),
    "H100": Card("H100", memory=3.35e12, copy_share=0.9, l2=5.5e12),
}


@dataclasses.dataclass(frozen=True)
class Resources:
    """What ptxas says that a thread needs, for sm_90."""

    registers: int
    stack: int = 0  # Bytes of local memory.
    spills: int = 0  # Bytes stored there because registers did not suffice.


def resident_warps(card: Card, registers: int, threads: int, shared_bytes: int) -> int:
    """Warps that a multiprocessor holds at once, of blocks of so many threads. Registers come in pieces of 256 a warp."""
    warps = math.ceil(threads / WARP)
    of_warp = math.ceil(max(registers, 1) * WARP / 256) * 256
    blocks = min(card.blocks, card.warps // warps, card.registers // (of_warp * warps))
    blocks = min(blocks, card.shared_bytes // (shared_bytes + 1024))  # 1 KiB of each block is CUDA's.
    return max(blocks, 1) * warps


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Seconds of all launches of a kernel, by what could bound them, without the launches' own time."""

    parts: Dict[str, float]
    launches: float
    resident: int  # Warps of a multiprocessor.

    @property
    def bound(self) -> Tuple[str, float]:
        """What bounds it, and for how long."""
        return max(self.parts.items(), key=lambda part: part[1])

    @property
    def seconds(self) -> float:
        return self.bound[1]


def estimate(card: Card, row: Mapping[str, Any], resources: Resources, scale: float) -> Estimate:
    """The time of what a line of counts says if all were `scale` times as much.

    A kernel of one block a launch is as long whatever the size, and is not scaled.
    """
    counts, issue = row["counts"], row["issue"]
    if 0 < counts["blocks"] <= counts["launches"]:
        scale = 1.0
    memory = (counts["memory_read"] + counts["memory_written"]) * SECTOR
    # An atomic reads and writes its sector in the L2.
    l2 = (counts["read_sectors"] + counts["written_sectors"] + 2 * counts["atomic_sectors"]) * SECTOR
    parts = {"DRAM": memory * scale / card.copy, "L2": l2 * scale / card.l2}
    resident = 0
    if counts["warps"]:
        resident = resident_warps(card, resources.registers, counts["threads"], counts["shared_bytes"])
        per_launch = counts["warps"] * scale / counts["launches"]
        # Few blocks are on as many multiprocessors.
        multiprocessors = min(card.multiprocessors, counts["blocks"] * scale / counts["launches"])
        parts["issue"] = max(issue.values()) * scale / (multiprocessors * card.schedulers * card.clock)
        beside = min(per_launch, resident * card.multiprocessors)
        parts["latency"] = max(counts["cycles"] * scale / beside, counts["longest"]) / card.clock
    return Estimate(parts, counts["launches"], resident)
