"""A share of the cases that are alike, another one for each commit: what .ci/run has time for. `make test` runs all."""

from __future__ import annotations

import collections
from typing import Any, List, Tuple


def divided(items: List[Any], share: str) -> Tuple[List[Any], List[Any]]:
    """(kept, left out) of collected tests for a share such as "2/3": each third case, from the second on, of tests with six cases or more.

    Raises:
      ValueError: `share` is nothing like that.
    """
    first, _, count = share.partition("/")
    which, step = int(first) - 1, int(count)
    if not 0 <= which < step:
        raise ValueError(f"TFB_TEST_SHARE is '{share}'; wanted k/n with k from 1 to n, such as 2/3")
    cases = collections.defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left = {
        item
        for alike in cases.values()
        if len(alike) >= 2 * step
        for place, item in enumerate(alike)
        if place % step != which
    }
    return [item for item in items if item not in left], [item for item in items if item in left]
