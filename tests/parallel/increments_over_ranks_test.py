"""Increments of a training on several ranks: the chain goes on from one number of ranks to another, and a served model follows."""

import os
import signal
import sys

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "checkpoint"))
from increment_model import Job, Served, batches, increment, same  # noqa: E402
from resume_over_ranks_test import KillAt  # noqa: E402

from tf_booster.checkpoint import increments  # noqa: E402


@pytest.fixture(autouse=True)
def booster():
    yield
    tf_booster.disable_gpu_booster()


def train(rank, size, folder, first, last, kill=None, secs=None, forgetful=False, unlike=False):
    """Steps first + 1 to last; returns where the model is exported then, on rank 0.

    forgetful: rank 1 does not know which keys have left its tables. unlike: it finds others than the newest increment has."""
    tf_booster.enable_gpu_booster(shard_input=False, updatable_exports=True)
    if forgetful and rank == 1:
        read_marks = increments._IncrementWriter._read_marks
        increments._IncrementWriter._read_marks = lambda self, session: [
            np.concatenate([marks[:, :3], np.full_like(marks[:, 3:], np.iinfo(np.int64).max)], 1)
            for marks in read_marks(self, session)
        ]
    if unlike and rank == 1:
        increments._IncrementWriter._has_variables_of = lambda self, reader, session: False
    job = Job(folder, save_steps=4, idle=4)
    hooks = [KillAt(kill)] if kill is not None and rank == 1 else []
    hooks.append(tf_booster.IncrementHook(job.increments, save_steps=3 if secs is None else None, save_secs=secs))
    job.estimator.train(lambda: batches(first, last, rank, size), hooks=hooks)
    exported = job.export()
    return exported if rank == 0 else None


def test_a_served_model_follows_a_training_on_any_number_of_ranks(tmp_path):
    folder, chain = str(tmp_path), str(tmp_path / "increments")
    served = Served(launch.values(train, 2, folder=folder, first=0, last=8)[0], True)
    newest = launch.values(train, 3, folder=folder, first=8, last=13)[0]
    tf.enable_gpu_booster()
    assert served.apply(chain) == 5
    assert same(served.predict(), Served(newest, True).predict())
    tensors = increment(chain, 5)
    assert tensors["user_emb/since_step"] == 11 and len(tensors["user_emb/left_keys"]) > 3
    assert not [name for name in tensors if name.endswith("all_keys")]

    newest = launch.values(train, 2, folder=folder, first=13, last=19, forgetful=True)[0]
    served.apply(chain)
    assert same(served.predict(), Served(newest, True).predict())
    tensors = increment(chain, 7)
    assert len(tensors["user_emb/all_keys"]) > len(tensors["user_emb/keys"]) and "user_emb/left_keys" not in tensors
    assert sorted(set(tensors["user_emb/all_keys"])) == sorted(tensors["user_emb/all_keys"])

    ended = launch.outcomes(train, 2, seconds=90, folder=folder, first=19, last=40, kill=11)
    assert ended[1].status == -signal.SIGKILL and ended[0].status != 0
    assert served.apply(chain) > 7
    newest = launch.values(train, 2, folder=folder, first=50, last=55, secs=0.0)[0]
    numbers = increments.numbers_in(chain)
    assert numbers == list(range(1, numbers[-1] + 1))
    assert [n for n in numbers if increment(chain, n)["item_emb/since_step"] == -1]
    served.apply(chain)
    assert same(served.predict(), Served(newest, True).predict())
    newest = launch.values(train, 1, folder=folder, first=60, last=64)[0]
    served.apply(chain)
    assert same(served.predict(), Served(newest, True).predict())

    newest = launch.values(train, 2, folder=folder, first=64, last=66, unlike=True)[0]
    all_rows = [increment(chain, n)["item_emb/since_step"] == -1 for n in increments.numbers_in(chain)[-3:]]
    assert all_rows == [False, True, False]  # The newest of before, what the two ranks agreed on, and their steps.
    served.apply(chain)
    assert same(served.predict(), Served(newest, True).predict())
    assert not [name for name in os.listdir(chain) if "temp" in name]
