"""What the second thread brings is each contestant's rate with two threads over its own with one."""

from benchmarks import two_threads


def _result(threads, dim, rates):
    return {"benchmark": "find", "what": "op", "dim": dim, "distribution": "zipf", "threads": threads, "rates": rates}


def test_contests_of_both_numbers_of_threads_are_compared():
    results = [
        _result(1, 16, {"tf_booster": 10.0, "bare loop": 20.0, "TFRA": 1.0}),
        _result(1, 64, {"tf_booster": 4.0}),
        _result(2, 16, {"tf_booster": 15.0, "bare loop": 32.0}),
    ]
    (line,) = two_threads.gains(results)
    assert "dim 16" in line and "tf_booster 1.50x" in line and "bare loop 1.60x" in line and "TFRA" not in line
    assert two_threads.gains(results[:2]) == []


def test_two_processes_do_more_than_none():
    found = two_threads.two_processes(mebibytes=4, seconds=0.01)
    assert set(found) <= {"copies", "random lines"} and all(gain > 0 for gain in found.values())
