"""Which calls all ranks make together: none waits for ever, and all think the same of it, however fast each rank is."""

import random
import threading
import time

import pytest

from tf_booster.parallel import calls
from tf_booster.parallel.calls import EVALUATION, PREDICTION, Calls

TRAIN, LATE, PAUSE = "train", "late", "pause"


class Memory:
    """A Store."""

    def __init__(self):
        self._values, self._lock = {}, threading.Lock()

    def put(self, key, value):
        with self._lock:
            self._values[key] = value

    def get(self, key):
        with self._lock:
            return self._values.get(key)


def run(programs, seed=0, patience=(0.4, 0.2)):
    """Runs a program on each rank, a list of TRAIN, LATE, PAUSE and (what, where). Returns whether each of its calls was of all ranks."""
    memory, size = Memory(), len(programs)
    together = threading.Barrier(size)
    found, errors = [[] for _ in programs], []

    def call(own, step, draw):
        if step in (LATE, PAUSE):
            time.sleep((2 if step == LATE else 1.5) * patience[0])
        elif step == TRAIN:
            with own.training():
                together.wait(20)
        else:
            found[rank_of[own]].append(own.is_of_all(*step))
            if found[rank_of[own]][-1]:
                together.wait(20)
            time.sleep(draw.random() * 0.01)

    def rank(number):
        draw = random.Random(f"{seed} {number}")
        own = Calls(memory, number, size, patience)
        rank_of[own] = number
        try:
            for step in programs[number]:
                time.sleep(draw.choice([0, 0, 0.001, 0.01]))
                call(own, step, draw)
            own.end()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)
            together.abort()

    rank_of = {}
    threads = [threading.Thread(target=rank, args=[number], daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors and not [thread for thread in threads if thread.is_alive()], errors
    return found


HERE, THERE = (EVALUATION, "a.py:1"), (EVALUATION, "a.py:2")
PREDICT = (PREDICTION, "a.py:3")


def test_what_all_ranks_come_to():
    program = [HERE, TRAIN, HERE, PREDICT, TRAIN, THERE]
    assert run([program] * 3) == [[True] * 4] * 3


def test_what_rank_0_comes_to():
    assert run([[TRAIN, HERE, PREDICT, TRAIN, HERE], [TRAIN, TRAIN], [TRAIN, TRAIN]]) == [[False] * 3, [], []]


def test_what_another_rank_comes_to():
    assert run([[TRAIN, TRAIN], [TRAIN, HERE, HERE, TRAIN, PREDICT]]) == [[], [False] * 3]


def test_two_ranks_of_three():
    program = [TRAIN, HERE, HERE, TRAIN, HERE]
    assert run([program, [TRAIN, TRAIN], program]) == [[False] * 3, [], [False] * 3]


def test_from_other_lines():
    """They may have other inputs."""
    assert run([[TRAIN, HERE, THERE, PREDICT], [TRAIN, THERE, PREDICT]]) == [[False, True, True], [True, True]]
    assert run([[TRAIN, HERE], [TRAIN, THERE]]) == [[False], [False]]


def test_a_rank_that_says_nothing():
    """It waits in a barrier of the program, say, and comes to the next call of all with the others."""
    assert run([[TRAIN, HERE, LATE, PREDICT, TRAIN], [TRAIN, LATE, PREDICT, TRAIN]])[0][0] is False


def test_what_was_answered_does_not_count_again():
    """Of three ranks one is late and one slow in what it makes alone; the next call waits for it."""
    programs = [[HERE, HERE], [LATE, HERE], [HERE, LATE, HERE]]
    assert run(programs, patience=(1, 10)) == [[False, True], [True], [False, True]]


def test_an_answer_is_for_those_that_asked():
    assert run([[HERE, PAUSE, HERE], [LATE, HERE]], patience=(1, 10)) == [[False, True], [True]]


def test_a_rank_that_ends_does_not_train():
    with pytest.raises(
        AssertionError, match="rank 0 has come to a training, but rank 1 has ended; all ranks must train"
    ):
        run([[TRAIN, TRAIN], [TRAIN]])


def within(*ranks, waits_ahead=(), patience=(1, 0.5)):
    """Runs a function of each rank's Calls, in a thread of its own; what they return."""
    memory, found = Memory(), {}

    def rank(number, program):
        found[number] = program(Calls(memory, number, len(ranks), patience, waits_ahead.__contains__))

    threads = [threading.Thread(target=rank, args=each, daemon=True) for each in enumerate(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_the_listener_of_a_training():
    """Ranks say at its beginning whether they have it; so nobody has to wait for what does not come."""

    def program(*trainings):
        def run_all(own):
            found = []
            for evaluates in trainings:
                with own.training([calls.LISTENER] if evaluates else []):
                    found.append(own.is_of_all(EVALUATION, by=calls.LISTENER) if evaluates else None)
            return found

        return run_all

    assert within(program(True, True), program(True, False), patience=(100, 100)) == {0: [True, False], 1: [True, None]}


def test_what_a_hook_evaluates_within_a_training():
    def all_of_them(own):
        with own.training():
            return [own.is_of_all(*HERE) for _ in range(3)]

    def none(own):
        with own.training():
            return []

    assert within(all_of_them, all_of_them) == {0: [True] * 3, 1: [True] * 3}
    assert within(all_of_them, none) == {0: [False] * 3, 1: []}
    assert within(all_of_them, none, patience=(2, 2), waits_ahead=(1,)) == {0: [False] * 3, 1: []}


def test_a_hook_of_another_rank():
    """Rank 0 waits for it in the next step."""

    def twice(own):
        with own.training():
            return [own.is_of_all(*HERE) for _ in range(2)]

    def waits(own):
        with own.training():
            time.sleep(2)
            return []

    assert within(waits, twice, patience=(0.5, 0.2)) == {0: [], 1: [False, False]}


def test_other_checkpoints():
    def program(*paths):
        return lambda own: [own.is_of_all(*HERE, path=path) for path in paths]

    found = within(program("a", "a", "a", "a"), program("b", "a", "", "b"), patience=(5, 5))
    assert found == {0: [False, True, True, False], 1: [False, True, True, False]}


def test_a_barrier_behind_what_each_rank_comes_to_elsewhere():
    behind = threading.Barrier(2)

    def program(*step):
        def both(own):
            found = [own.is_of_all(*step)]
            behind.wait(20)
            return [*found, own.is_of_all(*PREDICT)]

        return both

    assert within(program(*HERE), program(*THERE), patience=(1, 10)) == {0: [False, True], 1: [False, True]}


def test_a_rank_that_is_late_within_a_training_goes_alone():
    """Rank 0 waits for it in the next step by then. What it asked does not count for the next time."""
    first, steps = threading.Event(), threading.Barrier(2)

    def rank_0(own):
        with own.training():
            found = [own.is_of_all(*HERE)]
            first.set()
            steps.wait(20)
            return [*found, own.is_of_all(*HERE)]

    def rank_1(own):
        with own.training():
            first.wait(20)
            found = [own.is_of_all(*HERE)]
            steps.wait(20)
            time.sleep(0.2)
            return [*found, own.is_of_all(*HERE)]

    assert within(rank_0, rank_1, patience=(0.5, 10)) == {0: [False, True], 1: [False, True]}


@pytest.mark.parametrize("size", [2, 3, 4])
def test_any_programs(size):
    for seed in range(8):
        draw = random.Random(seed * 10 + size)
        programs = [[] for _ in range(size)]
        for _ in range(draw.randint(1, 4)):
            steps = [draw.choice([HERE, THERE, PREDICT]) for _ in range(draw.randint(0, 3))]
            for program in programs:
                own = [step for step in steps if draw.random() < draw.choice([0.5, 1])]
                program += own + [TRAIN] if draw.random() > 0.05 else [LATE, *own, TRAIN]
        found = run(programs, seed)
        of_all = {sum(each) for each in found}
        assert len(of_all) == 1, (seed, programs, found)  # run() has seen them together.


def test_lines_of_the_program():
    assert calls.program_lines(calls.sys._getframe()).startswith("calls_test.py:")
    assert eval("calls.program_lines(calls.sys._getframe())").startswith("<string>:1, calls_test.py:")
