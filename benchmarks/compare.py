"""python -m benchmarks.compare before.json after.json: how our ratio to each peer changed between two runs.

Absolute rates of two runs differ with the machine's load; ratios to a peer of the same run do not.
"""

from __future__ import annotations

import json
import sys
from typing import Dict, Tuple

from benchmarks.harness import KEY, OURS

Ratios = Dict[Tuple, Dict[str, float]]


def ratios(path: str) -> Ratios:
    """{KEY: {peer: ours over it}}."""
    with open(path) as file:
        results = json.load(file)["results"]
    return {
        tuple(r[name] for name in KEY): {
            peer: r["rates"][OURS] / rate for peer, rate in r["rates"].items() if peer != OURS
        }
        for r in results
    }


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    before, after = ratios(sys.argv[1]), ratios(sys.argv[2])
    for key in before:
        for peer, ratio in before[key].items():
            if key in after and peer in after[key]:
                now = after[key][peer]
                name = " ".join(str(part) for part in key)
                print(f"{name:44} against {peer:16} {ratio:6.2f}x -> {now:6.2f}x  ({now / ratio - 1:+.0%})")
    missing = sorted(set(map(str, before)) ^ set(map(str, after)))
    if missing:
        print(f"in one file only: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
