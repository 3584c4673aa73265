import os
import sys
import time

import launch

from tf_booster.parallel import ranks


def where_it_is(rank, size, word):
    import tensorflow as tf

    tf.enable_gpu_booster()
    here = ranks.current()
    assert (rank, size) == (here.rank, here.size)
    print("said by", rank)
    return here, ranks.shared_seed(), word


def one_fails(rank, size):
    if rank == 1:
        raise ValueError("this one fails")
    return rank


def test_two_ranks_know_their_places():
    outcomes = launch.outcomes(where_it_is, 2, word="x")
    (first, seed, word), (second, other_seed, _) = [outcome.value for outcome in outcomes]
    assert first == ranks.Ranks(0, 2, 0, 2) and second == ranks.Ranks(1, 2, 1, 2)
    assert seed == other_seed is not None and word == "x"
    assert "said by 1" in outcomes[1].output and "2 ranks train together" in outcomes[0].output
    assert [outcome.status for outcome in outcomes] == [0, 0]


def test_a_failing_rank_is_told_with_its_error():
    outcomes = launch.outcomes(one_fails, 2, launched=False)
    assert outcomes[0].value == 0 and outcomes[0].error == ""
    assert "this one fails" in outcomes[1].error and outcomes[1].status == 1


def test_ranks_that_hang_are_killed_at_the_limit(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, time; time.sleep(int(sys.argv[1]))"
    )  # Without TensorFlow, a start is short on any machine.
    begin = time.monotonic()
    hangs, ends = launch.programs([[str(script), "600"], [str(script), "0"]], seconds=6, launched=False)
    assert time.monotonic() - begin < 60
    assert hangs.status == -9 and hangs.error == "killed after 6 s"
    assert ends.status == 0 and ends.error == ""


def test_programs_see_their_environment(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, sys; print(os.environ['HOROVOD_RANK'], os.environ['WORD'], sys.argv[1])")
    ended = launch.programs([[str(script), "a"], [str(script), "b"]], env={"WORD": "w"})
    assert [outcome.output for outcome in ended] == ["0 w a\n", "1 w b\n"]
    assert "HOROVOD_RANK" not in os.environ and sys.executable
