"""The pipeline over several ranks that are slow at random: the numbers of "off", in one order of collectives, without a hang.

By hand, with more steps: TFB_PIPELINE_STEPS=10000 python -m pytest tests/pipeline/pipeline_over_ranks_test.py
"""

import os
import random
import sys
import time

import pytest
from pipelined import assert_same, assert_same_entries, batch, dataset, entries, pipeline_pass, threads, train, v1

from tf_booster.pipeline import worth
from tf_booster.pipeline.worth import AHEAD, IN_ONE, Worth

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parallel"))
import launch  # noqa: E402

STEPS = int(os.environ.get("TFB_PIPELINE_STEPS", "30"))


class Slow(v1.train.SessionRunHook):
    """Keeps some steps of this rank waiting, before or after."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def before_run(self, run_context):
        self.pause()

    def after_run(self, run_context, run_values):
        self.pause()

    def pause(self):
        time.sleep(max(0.0, self._random.uniform(-0.02, 0.01)))


class StopsAlone(v1.train.SessionRunHook):
    """Asks for the end on this rank after its third step."""

    def __init__(self):
        self._steps = 0

    def after_run(self, run_context, run_values):
        self._steps += 1
        if self._steps == 3:
            run_context.request_stop()


def train_on_rank(rank, size, modes, steps, folder):
    """What this rank saw in each mode, the report, and rank 0's checkpoint."""
    worth.BEGINS = AHEAD  # Training ends soon after the first turn.
    found = {}
    for mode in modes:
        slow = Slow(100 * rank + len(mode))

        def read(step, slow=slow):
            slow.pause()
            return batch(step % 500)

        # One rank has a batch more than the others, which repeat their last one for the step.
        seen, report = train(mode, f"{folder}/{mode}", lambda read=read: dataset(size * steps + 1, read), hooks=[slow])
        left = entries(f"{folder}/{mode}") if rank == 0 else None
        found[mode] = (
            seen,
            pipeline_pass(report) if mode != "off" else None,
            report.to_dict()["collectives_per_step"],
            left,
        )
    # An input function that returns tensors: the iterator in the graph is divided.
    tensors = lambda: v1.data.make_one_shot_iterator(dataset(size * 6)).get_next()
    trained = [train(mode, f"{folder}/{mode} tensors", tensors) for mode in modes[:2]]
    # Manners that change from step to step, alike on all ranks.
    same = random.Random(5)
    measured, Worth.manner = Worth.manner, lambda self, now: same.choice((AHEAD, IN_ONE))
    trained.append(train("exact", f"{folder}/manners", tensors))
    Worth.manner = measured
    found["tensors"] = [seen for seen, _ in trained], pipeline_pass(trained[1][1])
    hooks = [StopsAlone()] if rank == size - 1 else []
    found["stopped"] = len(train("exact", f"{folder}/stopped", lambda: dataset(1000), hooks=hooks)[0]), threads()
    return found


@pytest.mark.parametrize("size", [2])
def test_ranks_that_are_slow_at_random(size, tmp_path):
    modes = ["off", "exact", "async"]
    ranks = launch.values(
        train_on_rank, size, modes=modes, steps=STEPS, folder=str(tmp_path), seconds=150 + 0.5 * STEPS
    )
    for rank in ranks:
        off, exact, stale = (rank[mode] for mode in modes)
        assert len(off[0]) == STEPS + 1
        assert_same(exact[0], off[0])
        assert_same([step[:3] for step in stale[0]], [step[:3] for step in off[0]])  # The same batches.
        assert exact[1]["modified"] and stale[1]["modified"]
        assert exact[2] == off[2] == stale[2] == {"tables": 3, "dense": 1, "sparse": 1, "other": 0}
        (off_tensors, exact_tensors, manners), split = rank["tensors"]
        assert len(off_tensors) == 6 and split["modified"]
        assert_same(exact_tensors, off_tensors)
        assert_same(manners, off_tensors)
        assert rank["stopped"] == (4, [])  # A step later than one process: the others learn of it in the next step.
    assert_same_entries(ranks[0]["exact"][3], ranks[0]["off"][3])
