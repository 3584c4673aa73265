"""Processes beside a contest work when they are told, each on a processor of its own, and tell what goes wrong."""

from __future__ import annotations

import os

import pytest

from benchmarks.processes import Apart


def seconds_of_units(calls_before: int):
    """Work whose second call takes half of the first; units of 1 second."""
    if calls_before < 0:
        raise ValueError("no such case")
    calls = [calls_before]

    def work() -> float:
        assert len(os.sched_getaffinity(0)) == 1
        calls[0] += 1
        return 1.0 / calls[0]

    return work


def test_one_and_each_are_asked_again_and_again():
    processors = len(os.sched_getaffinity(0))
    with Apart(seconds_of_units) as apart:
        assert apart.one((0,)) == 1.0
        assert apart.one((0,)) == 0.5
        # The first process does its third unit, the others their first.
        assert apart.each((0,)) == pytest.approx(1 / (3 + processors - 1))
        assert apart.one((5,)) == pytest.approx(1 / 6)


def test_what_went_wrong_is_told_and_ends_nobody():
    with Apart(seconds_of_units) as apart:
        with pytest.raises(RuntimeError, match="no such case"):
            apart.each((-1,))
        assert apart.one((0,)) == 1.0
