"""The contests of small batches, smaller still: they build, agree and give figures."""

import functools

from benchmarks import small_batches_bench
from benchmarks.harness import contest


def test_the_contests_run_and_agree(monkeypatch):
    for name, value in {"ROWS": 32, "SIZES": (1, 8), "COPIES": 2}.items():
        monkeypatch.setattr(small_batches_bench, name, value)
    monkeypatch.setattr(small_batches_bench, "contest", functools.partial(contest, rounds=1))
    results = list(small_batches_bench.run(threads=1))
    assert [result.what for result in results] == ["find", "lookup", "apply", "unique"] * 2
    for result in results:
        assert len(result.rates) >= 2 and min(result.rates.values()) > 0
