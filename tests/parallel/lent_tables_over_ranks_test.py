"""Evaluations within a training on several ranks: each rank reads its part of the tables where the training has it."""

import os
import sys

import launch
import numpy as np
import pytest

import tf_booster

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "estimator"))
from lent_tables_test import (  # noqa: E402
    Evaluations,
    Tables,
    estimator,
    in_memory,
    receiver,
    same,
    tensors,
    training_input,
)


def train(rank, size, folder, hidden):
    tf_booster.enable_gpu_booster(shard_input=False)
    made = estimator(folder, hidden=hidden)
    listener, memory = Evaluations(made), Tables()
    made.train(training_input, hooks=[in_memory(made, memory)], saving_listeners=[listener])
    within, evicted = dict(listener.found), list(listener.tables.evicted)
    after = {step: listener.evaluate(f"{folder}/model.ckpt-{step}") for step in within}
    return within, after, evicted, memory.rows


@pytest.mark.parametrize("size,hidden", [(2, False), (3, True)])
def test_each_rank_reads_its_part(tmp_path, size, hidden):
    found = launch.values(train, size, folder=str(tmp_path), hidden=hidden)
    for within, after, evicted, memory in found:
        assert tuple(within) == (0, 4, 8, 12)
        for step in within:
            same(within[step], after[step])
        assert evicted[0] == 0 < evicted[-1]
        for rows, step in zip(memory, (0, 4, 8, 12, 12)):
            np.testing.assert_array_equal(np.concatenate(rows), after[step]["rows"])
    assert found[0][0][12]["loss"] == found[1][0][12]["loss"]


def export(rank, size, folder):
    """Rank 0 exports within the training: whole tables, of which it has a part."""
    tf_booster.enable_gpu_booster(shard_input=False)
    made = estimator(folder)
    within = Evaluations(made, lambda: made.export_saved_model(f"{folder}/within", receiver))
    made.train(training_input, saving_listeners=[within])
    after = made.export_saved_model(f"{folder}/after", receiver)
    return within.found[12].decode(), after.decode()


def test_exports_have_whole_tables(tmp_path):
    (within, after), _ = launch.values(export, 2, folder=str(tmp_path))
    one, other = (tensors(f"{path}/variables/variables") for path in (within, after))
    same(one, other)
    assert len(one["user/keys"]) > 15  # A rank has some ten.
