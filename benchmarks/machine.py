"""What the machine gives at this moment: the scale for all other figures."""

from __future__ import annotations

import statistics
import time
from typing import Dict

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
