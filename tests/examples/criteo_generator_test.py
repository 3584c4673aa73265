"""The generator: what it writes is what it drew, by seed, with the distribution and the reachable AUC that it claims."""

import filecmp
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from criteo import inputs, planted
from criteo.columns import CATEGORICAL, LABEL, NUMERIC
from criteo.planted import Batch, Population, auc
from criteo.tfrecords import encode, write_split
from criteo_generator import EVAL_STREAM, generate


@pytest.fixture(scope="module")
def population():
    return Population(seed=5, max_cardinality=2000)


@pytest.fixture(scope="module")
def batch(population):
    return population.sample(20_000, stream=0)


def parsed(serialized):
    features, label = inputs.parse_examples(tf.constant(serialized))
    numbers = np.stack([features[name].numpy() for name in NUMERIC], 1)
    return numbers, np.stack([features[name].numpy() for name in CATEGORICAL], 1), label.numpy()


def test_encoded_records_parse_to_what_was_drawn(batch):
    part = Batch(*(a[:700] for a in batch))
    numbers, ids, label = parsed(encode(part))
    np.testing.assert_array_equal(numbers, part.numbers)
    np.testing.assert_array_equal(ids, part.ids)
    np.testing.assert_array_equal(label, part.label)
    assert np.isnan(part.numbers).any() and not part.id_present.all()


def test_encoded_record_is_the_message_of_protobuf(batch):
    part = Batch(*(a[:50] for a in batch))
    for i, serialized in enumerate(encode(part)):
        feature = tf.train.Example.FromString(serialized).features.feature
        here = {LABEL} | {n for j, n in enumerate(NUMERIC) if not np.isnan(part.numbers[i, j])}
        here |= {n for j, n in enumerate(CATEGORICAL) if part.id_present[i, j]}
        assert set(feature) == here
        assert all(
            list(feature[n].int64_list.value) == [part.ids[i, CATEGORICAL.index(n)]] for n in here & set(CATEGORICAL)
        )


def test_extreme_ids_survive():
    extremes = np.array([0, 1, -1, 127, 128, 2**31, -(2**31), 2**56 - 1, 2**56, 2**63 - 1, -(2**63)], np.int64)
    n = len(extremes)
    ids = np.tile(extremes[:, None], (1, 26))
    part = Batch(np.zeros((n, 13), np.float32), ids, np.ones((n, 26), bool), np.ones(n, np.float32), np.full(n, 0.5))
    np.testing.assert_array_equal(parsed(encode(part))[1], ids)


def test_files_hold_the_examples_in_order(population, tmp_path):
    done = write_split(population, str(tmp_path / "x-%d-of-%d.tfrecord"), records=9001, shards=2, first_stream=4)
    serialized = list(tf.data.TFRecordDataset(done["files"]).as_numpy_iterator())
    expected = [population.sample(4500, 4), population.sample(4501, 5)]
    assert len(serialized) == 9001 == done["records"]
    np.testing.assert_array_equal(parsed(serialized)[1], np.concatenate([b.ids for b in expected]))
    label = np.concatenate([b.label for b in expected])
    assert done["positives"] == label.sum()
    assert done["reachable_auc"] == auc(np.concatenate([b.probability for b in expected]), label)


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    folders = [str(tmp_path / name) for name in "abc"]
    metas = [
        generate(folder, 300, 100, seed=seed, shards=2, max_cardinality=100, show_progress=False)
        for folder, seed in zip(folders, (1, 1, 2))
    ]
    names = sorted(name for name in os.listdir(folders[0]) if name.endswith(".tfrecord"))
    assert len(names) == 3
    for name in names:
        a, b, c = (os.path.join(folder, name) for folder in folders)
        assert filecmp.cmp(a, b, shallow=False)
        assert not filecmp.cmp(a, c, shallow=False)
    with open(os.path.join(folders[0], "meta.json")) as f:
        assert json.load(f)["eval"]["reachable_auc"] == metas[1]["eval"]["reachable_auc"]


def test_evaluation_records_are_drawn_apart_from_training_records(population):
    assert not np.array_equal(population.sample(50, 0).ids, population.sample(50, EVAL_STREAM).ids)


def test_another_seed_draws_other_numbers_and_other_ids():
    a, b = (Population(seed, max_cardinality=50).sample(50, 0) for seed in (1, 2))
    assert not np.array_equal(a.numbers[:, 1], b.numbers[:, 1])
    assert not set(a.ids[a.id_present]) & set(b.ids[b.id_present])


def test_ids_are_large_of_both_signs_and_of_one_field_each(batch):
    fields = [np.unique(batch.ids[batch.id_present[:, f], f]) for f in range(26)]
    distinct = np.concatenate(fields)
    assert len(np.unique(distinct)) == len(distinct)
    assert 0.45 < (distinct < 0).mean() < 0.55
    assert (np.abs(distinct.astype(np.float64)) > 2.0**55).mean() > 0.95
    sizes = [len(ids) for ids in fields]
    assert min(sizes) == 3 and max(sizes) > 1000


def test_ids_follow_the_zipf_law(population, batch):
    field = CATEGORICAL.index("C7")
    counts = np.sort(np.unique(batch.ids[:, field], return_counts=True)[1])[::-1]
    weights = np.arange(1, population.cardinalities[field] + 1) ** -1.2
    expected = len(batch.ids) * weights / weights.sum()
    head = slice(0, 10)
    assert np.all(np.abs(counts[head] - expected[head]) < 5 * np.sqrt(expected[head]))


def test_missing_shares(batch):
    missing = np.concatenate([np.isnan(batch.numbers), ~batch.id_present], axis=1).mean(axis=0)
    wanted = planted.NUMERIC_MISSING + planted.CATEGORICAL_MISSING
    np.testing.assert_allclose(missing, wanted, atol=0.02)
    assert batch.numbers[:, 1].min() < 0  # I2 of Criteo reaches below zero.


def test_labels_come_with_the_probability_that_is_claimed(batch):
    order = np.argsort(batch.probability)
    for part in np.array_split(order, 10):
        expected = batch.probability[part]
        deviation = np.sqrt((expected * (1 - expected)).sum())
        assert abs(batch.label[part].sum() - expected.sum()) < 5 * deviation


def test_no_other_score_reaches_the_reachable_auc(population, batch):
    reachable = auc(batch.probability, batch.label)
    logit = np.log(batch.probability / (1 - batch.probability))
    noisy = logit + np.random.default_rng(0).normal(0, 0.5, len(logit))
    assert 0.8 < reachable < 0.9
    assert auc(noisy, batch.label) < reachable - 0.005


def test_ids_carry_most_of_the_effect():
    """What the demo rests on: without the ids' effects the best AUC falls to about 0.66."""
    population = Population(seed=5, max_cardinality=2000)
    with_ids = population.sample(20_000, 0)
    logit = np.log(with_ids.probability / (1 - with_ids.probability))
    population._id_effects = lambda ranks, present: np.zeros(len(ranks))
    without = population.sample(20_000, 0)
    numbers_only = np.log(without.probability / (1 - without.probability))
    assert auc(numbers_only, with_ids.label) < 0.72 < 0.82 < auc(logit, with_ids.label)


def test_auc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(1)
    score, label = rng.integers(0, 12, 200) / 12.0, rng.integers(0, 2, 200)
    positive, negative = score[label == 1][:, None], score[label == 0][None, :]
    pairs = (positive > negative).mean() + 0.5 * (positive == negative).mean()
    assert auc(score, label) == pytest.approx(pairs, abs=1e-12)


def test_refusals(population, tmp_path):
    with pytest.raises(ValueError, match="zipf is 0"):
        Population(zipf=0)
    with pytest.raises(ValueError, match="2 records in 3 shards"):
        write_split(population, str(tmp_path / "%d-%d"), records=2, shards=3, first_stream=0)
    with pytest.raises(ValueError, match="0 positives and 2 negatives"):
        auc(np.array([0.1, 0.2]), np.array([0.0, 0.0]))
