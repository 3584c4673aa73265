"""Tables over ranks: N ranks with batch B train them as one process with batch N·B."""

import equal_training as equal
import launch
import pytest
import table_training
import tensorflow as tf

# Each optimizer, and each clipping, in both ways of owning keys, fused and not.
CASES = [
    (optimizer, clip, partition, fuse)
    for (optimizer, clip), partition, fuse in zip(
        zip(
            ["sgd", "momentum", "adagrad", "adam", "ftrl", "rmsprop", "keras sgd", "keras adam"],
            ["global norm", "value", "norm", "none", "global norm", "none", "norm", "global norm"],
        ),
        ["hash", "mod"] * 4,
        [True, True, True, False] * 2,
    )
]
CASES.append(("adagrad", "norm of each row", "hash", True))


def program(optimizer, clip):
    def build(features):
        loss = table_training.mean_loss(features)
        return loss, equal.minimize(equal.OPTIMIZERS[optimizer](), clip, loss)

    return build


def train_cases(rank, size, cases):
    data = table_training.records(size)
    found = {}
    for optimizer, clip, partition, fuse in cases:
        tf.enable_gpu_booster(partition=partition, fuse_tables=fuse, seed=3)
        found[optimizer, clip, partition, fuse] = table_training.train(
            program(optimizer, clip), equal.part(data, rank, size)
        )
    joined = {
        case: table_training.alone(program(*case[:2]), data, seed=3) for i, case in enumerate(cases) if i % size == rank
    }
    return found, joined


@pytest.mark.parametrize(("size", "cases"), [(2, CASES), (3, CASES[:1])])
def test_ranks_train_tables_as_one_process_with_the_joined_batch(size, cases):
    outcomes = launch.values(train_cases, size, cases=cases, seconds=400)
    wrong = {}
    for i, case in enumerate(cases):
        found = [outcome[0][case] for outcome in outcomes]
        joined = outcomes[i % size][1][case]
        assert len(joined["tables"]) == 11 and joined["tables"]["rare"]["pending"][0].size
        wrong[case] = table_training.differences(joined, found)
        norms = int(case[1] in ("norm", "global norm"))
        assert found[0]["report"]["collectives_per_step"] == {"tables": 3, "dense": 1, "sparse": 0, "other": norms}
    assert {case: reason for case, reason in wrong.items() if reason} == {}
