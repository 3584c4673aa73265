"""Who holds up whom, and how two ranks differ, without ranks."""

import pytest

from tf_booster.parallel import calls, failed_runs, progress
from tf_booster.parallel.agreement import differences
from tf_booster.parallel.failed_runs import FailedRuns
from tf_booster.parallel.hangs import Beat, Hangs


def beats(number, *ranks):
    return {
        r: None if c is None else Beat(number, c, at=f"train.py:{r}", process=f"host, pid {r}")
        for r, c in enumerate(ranks)
    }


IN, OUT = {"ids": (5, 4), "dense": (4, 4)}, {"ids": (4, 4), "dense": (4, 4)}


def test_a_rank_that_does_not_come_is_named_once_with_the_collective():
    hangs = Hangs(3, 30)
    for now in range(0, 30, 5):
        assert hangs.update(now, beats(now, IN, OUT, IN)) == []
    (message,) = hangs.update(30, beats(30, IN, OUT, IN))
    assert "rank 1 of 3 (host, pid 1) hangs: rank(s) 0, 2 have waited 30 s" in message
    assert "'ids', which they have reached 5 times and it 4 times" in message and "train.py:1" in message
    assert hangs.update(35, beats(35, IN, OUT, IN)) == []
    assert hangs.hanging_since == 0
    # It comes, and hangs again a step later.
    assert hangs.update(40, beats(40, OUT, {"ids": (6, 5)}, OUT)) == [] and hangs.hanging_since is None
    later = {"ids": (6, 5), "dense": (5, 5)}
    assert [len(hangs.update(now, beats(now, later, {"ids": (5, 5)}, later))) for now in (45, 60, 75)] == [0, 0, 1]


def test_ranks_that_move_or_wait_for_nobody_do_not_hang():
    hangs = Hangs(2, 30)
    for now in range(0, 300, 5):
        assert hangs.update(now, beats(now, {"ids": (now, now - 1)}, {"ids": (now - 1, now - 1)})) == []
    # Both compute, outside of collectives, for as long as they like.
    for now in range(300, 600, 5):
        assert hangs.update(now, beats(now, OUT, OUT)) == []


def test_a_rank_without_a_sign_of_life():
    hangs = Hangs(2, 10)
    stopped = Beat(1, OUT, at="train.py:7")
    told = [m for now in range(0, 20, 2) for m in hangs.update(now, {0: Beat(now, IN), 1: stopped})]
    assert len(told) == 1 and "no sign of life" in told[0] and "train.py" not in told[0]


def test_a_rank_that_was_never_heard():
    hangs = Hangs(2, 10)
    told = [m for now in range(0, 20, 2) for m in hangs.update(now, beats(now, IN, None))]
    assert len(told) == 1 and "rank 1 of 2 hangs" in told[0] and "it 0 times" in told[0]


def after_failures(waiting, late, entered=4):
    """Of a hang in which rank 0 waits for rank 1, runs of which have failed so often, the late one's last in its collective number `entered`, and what was told."""
    hangs = Hangs(2, 10)
    found = {
        0: Beat(1, IN, failed=FailedRuns(waiting, "OSError: 0", {"ids": 4})),
        1: Beat(1, OUT, failed=FailedRuns(late, "OSError: 1", {"ids": entered})),
    }
    told = [message for now in range(0, 20, 2) for message in hangs.update(now, found)]
    return hangs, told


def test_a_rank_whose_run_has_failed_will_not_come():
    hangs, (message,) = after_failures(0, 1)
    assert hangs.for_ever and "It will not come: its run ended with OSError: 1" in message
    assert hangs.update(20, beats(2, OUT, OUT)) == [] and not hangs.for_ever


def test_failed_runs_that_a_hang_has_nothing_to_do_with():
    # Of all ranks; of one that has gone on since, and is slow now.
    for waiting, entered in ((1, 4), (0, 3)):
        hangs, (message,) = after_failures(waiting, 1, entered)
        assert not hangs.for_ever and "will not come" not in message


def test_a_rank_may_wait_for_one_that_still_comes():
    for failed, told in (
        (FailedRuns(), 0),
        (FailedRuns(1, "OSError: 1", {"ids": 3}), 0),
        (FailedRuns(1, "OSError: 1", {"ids": 4}), 1),
    ):
        hangs = Hangs(2, 10, patient=["ids"])
        found = {0: Beat(1, IN), 1: Beat(1, OUT, failed=failed)}
        assert len([message for now in range(0, 100, 2) for message in hangs.update(now, found)]) == told
        assert hangs.for_ever == bool(told) and (hangs.hanging_since is None) != bool(told)


def test_which_failed_runs_are_noted(monkeypatch):
    class Session:
        graph = "alone"

        def run(self, error):
            raise error

    monkeypatch.setattr(progress, "collectives", lambda graph: ["ids"] if graph == "shared" else [])
    monkeypatch.setattr(progress, "counts", lambda: {"ids": (5, 4)})
    monkeypatch.setattr(failed_runs, "_noted", FailedRuns())
    monkeypatch.setattr(Session, "run", failed_runs.note_failure(Session.run))
    for graph, number in (("alone", 0), ("shared", 1), ("shared", 2)):
        session = Session()
        session.graph = graph
        with pytest.raises(OSError):
            session.run(OSError("no such\nfile"))
        assert failed_runs.noted().number == number
    assert failed_runs.noted() == FailedRuns(2, "OSError: no such", {"ids": 5})
    with pytest.raises(KeyError), calls.of_all():
        assert failed_runs.noted() == FailedRuns()
        raise KeyError("ids")
    assert failed_runs.noted().number == 1


def test_differences_of_graphs():
    assert differences(["a", "b"], ["a", "b"], 1) == ""
    text = differences(["a", "table x"], ["a", "table y", "table z"], 3)
    assert "Only rank 0 has: table x." in text and "Only rank 3 has: table y; table z." in text
    assert "in another order" in differences(["a", "b"], ["b", "a"], 1)
    many = differences([], [str(i) for i in range(25)], 1)
    assert "and 15 more" in many
