"""A share of the tests that are alike, another one for each commit: what .ci/run has time for. `make test` runs all."""

from __future__ import annotations

import collections
from typing import Any, List, Tuple

# Whole programs, each trained plain and boosted or by several ranks: seconds each, and each goes through most of the package.
PROGRAMS = ("same_training", "parallel", "estimator", "gpu", "examples")


def divided(items: List[Any], share: str) -> Tuple[List[Any], List[Any]]:
    """(kept, left out) of collected tests for a share such as "2/3": each third one, from the second on, of the programs of a folder, and of
    the cases of tests that have as many as there are shares.

    Raises:
      ValueError: `share` is nothing like that.
    """
    first, _, count = share.partition("/")
    which, step = int(first) - 1, int(count)
    if not 0 <= which < step:
        raise ValueError(f"TFB_TEST_SHARE is '{share}'; wanted k/n with k from 1 to n, such as 2/3")
    cases = collections.defaultdict(list)
    for item in items:
        folder = next((name for name in PROGRAMS if f"{name}/" in item.nodeid), "")
        if folder or hasattr(item, "callspec"):
            cases[folder or item.nodeid.partition("[")[0]].append(item)
    left = {
        item
        for alike in cases.values()
        if len(alike) >= step
        for place, item in enumerate(alike)
        if place % step != which
    }
    return [item for item in items if item not in left], [item for item in items if item in left]
