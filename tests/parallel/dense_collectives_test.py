"""Ranks with batch B against one process with the joined batch, in plain TensorFlow."""

import equal_training as equal
import launch
import pytest
import tensorflow as tf

v1 = tf.compat.v1

CASES = list(zip(equal.OPTIMIZERS, list(equal.CLIPS) * 3))


def program(optimizer, clip, rate=1.0):
    def build(features):
        logits = equal.logits_of(features)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits))
        return loss, equal.minimize(equal.OPTIMIZERS[optimizer](rate), clip, loss)

    return build


def train_cases(rank, size, cases):
    tf.enable_gpu_booster()
    data = equal.records(size)
    found = {case: equal.train(program(*case), equal.part(data, rank, size)) for case in cases}
    joined = {}
    for i, case in enumerate(cases):
        if i % size == rank:  # Plain TensorFlow knows no ranks: each trains some of the cases.
            build = program(*case)
            joined[case] = equal.reference(lambda d, build=build: equal.plain(build, d), data, found[case])
    return found, joined


def divided(features):
    """Tables in three Variables each, of which one is looked up twice, and rows with max_norm."""
    parts = v1.fixed_size_partitioner(3)
    ids = v1.get_variable("divided_ids", [equal.NUM_IDS, 5], partitioner=parts)
    tags = v1.get_variable("divided_tags", [equal.NUM_TAGS + 1, 4], partitioner=parts)
    rows = [
        v1.nn.embedding_lookup(ids, features["id"], "div"),
        v1.nn.embedding_lookup(ids, features["other_id"], "div"),
        v1.nn.embedding_lookup(tags, features["tags"][:, 0] + 1, "mod", max_norm=0.5),
    ]
    logits = equal.logits_of(features) + v1.layers.dense(tf.concat(rows, 1), 1)[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits))
    return loss, equal.minimize(equal.OPTIMIZERS["adagrad"](), "none", loss)


def train_divided(rank, size):
    tf.enable_gpu_booster()
    data = equal.records(size)
    found = equal.train(divided, equal.part(data, rank, size))
    return found, equal.reference(lambda d: equal.plain(divided, d), data, found) if rank == 0 else None


def test_partitioned_variables_and_max_norm():
    outcomes = launch.values(train_divided, 2)
    joined, noise = outcomes[0][1]
    assert equal.worst(joined, [found for found, _ in outcomes], noise) == ""
    changed = {p["name"] for p in outcomes[0][0]["report"]["passes"] if p["modified"]}
    assert {"partitioned_lookups", "clipped_rows"} <= changed


@pytest.mark.parametrize("size", [2])
def test_every_optimizer_and_clipping_trains_as_one_process(size):
    outcomes = launch.values(train_cases, size, cases=CASES, seconds=400)
    wrong = {}
    for i, case in enumerate(CASES):
        found = [outcome[0][case] for outcome in outcomes]
        joined, noise = outcomes[i % size][1][case]
        assert len(set(joined["losses"].tolist())) == equal.STEPS
        wrong[case] = equal.worst(joined, found, noise)
        assert found[0]["report"]["collectives_per_step"] == {"tables": 0, "dense": 1, "sparse": 1, "other": 0}
        assert [f["report"]["rank"] for f in found] == list(range(size)) and found[0]["report"]["size"] == size
    assert {case: reason for case, reason in wrong.items() if reason} == {}
