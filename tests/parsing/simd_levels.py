"""Which levels of instructions the parser can be made to use on this processor."""

from __future__ import annotations

from typing import List

from tf_booster import parsing


def levels_here() -> List[str]:
    """At least "scalar". A level that the processor lacks is no test of its own: there is nothing to run."""
    found = []
    for level in ("scalar", "sse4.1", "avx2-no-bmi2", "avx2", "avx512"):
        try:
            parsing.force_simd_level(level)
        except ValueError:
            continue
        found.append(level)
    parsing.force_simd_level("")
    assert found[:1] == ["scalar"]
    return found
