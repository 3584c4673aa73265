"""What the machine gives at this moment: the scale for all other figures."""

from __future__ import annotations

import mmap
import os
import platform
import statistics
import time
from typing import Any, Dict, List, Tuple

import numpy as np


def _median_seconds(run, times: int = 5) -> float:
    run()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def probe() -> Dict[str, float]:
    """One core: GB/s of a large copy (bytes read plus written), and ns for each of many overlapped random 64-byte lines."""
    source = np.ones(1 << 25, np.int64)  # 256 MiB: beyond any last-level cache.
    target = np.empty_like(source)
    copy = _median_seconds(lambda: np.copyto(target, source))
    places = np.random.default_rng(0).integers(0, len(source) // 8, 1 << 20) * 8
    out = np.empty(len(places), np.int64)
    lines = _median_seconds(lambda: np.take(source, places, out=out, mode="clip"))
    return {
        "copy_gb_per_s": round(2 * source.nbytes / copy / 1e9, 1),
        "random_line_ns": round(lines / len(places) * 1e9, 1),
    }


def processor(cpuinfo: str = "/proc/cpuinfo") -> Dict[str, Any]:
    """Name, family and model of the processor, as far as the kernel tells them, and how many cores this process may use."""
    fields = {"model name": "processor", "cpu family": "family", "model": "model"}
    found: Dict[str, Any] = {}
    try:
        with open(cpuinfo) as file:
            for line in file:
                name, _, value = (part.strip() for part in line.partition(":"))
                if name in fields and fields[name] not in found:
                    found[fields[name]] = int(value) if value.isdigit() else value
    except OSError:
        pass
    found.setdefault("processor", platform.processor() or platform.machine())
    return {**found, "cores": len(os.sched_getaffinity(0))}


def huge_pages(size: int) -> mmap.mmap:
    """Private memory that asks for huge pages. Python's own default is shared memory, whose pages are of 4 KiB whatever is
    asked for (a random line then costs a TLB miss as well) and stay when MADV_DONTNEED gives them back."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class TouchedMemory:
    """Memory that has been written to once, to be given back to the kernel piece by piece: the pages that it hands out next.

    A virtual machine's host may give memory to it only when it is touched, and take it back when it is free. A new huge page,
    0.2 ms for the kernel to clear, then takes 2 to 30 ms, and a benchmark of tables that grow is one of that host.
    """

    PIECE = 16 << 20
    PAGE = 2 << 20

    def __init__(self, pieces: int):
        self._kept: List[mmap.mmap] = []
        self._pieces: List[Tuple[mmap.mmap, int]] = []  # With the place of the first huge page.
        for _ in range(pieces):
            piece = huge_pages(self.PIECE)
            content = np.frombuffer(piece, np.int64)
            content[:] = 1
            self._pieces.append((piece, -content.ctypes.data % self.PAGE))

    def release(self) -> None:
        """Gives half of a piece back, if there is one left: every other page, so that the kernel does not join them to larger
        blocks, which it would hand out last."""
        if not self._pieces:
            return
        piece, first = self._pieces.pop()
        for begin in range(first, self.PIECE - self.PAGE, 2 * self.PAGE):
            piece.madvise(mmap.MADV_DONTNEED, begin, self.PAGE)
        self._kept.append(piece)
