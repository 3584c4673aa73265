"""sample_from_datasets with its numbers drawn many at a time: the same choices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_same

from tf_booster import _compat
from tf_booster.passes import sampled_datasets
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

Dataset = tf.data.Dataset
v1 = tf.compat.v1


def counting(size, n=3):
    return [Dataset.range(1000 * i, 1000 * i + size) for i in range(n)]


def sampled(datasets, weights=None, **options):
    return Dataset.sample_from_datasets(datasets, weights, **options)


CHANGED = {
    "weights": lambda: sampled(counting(300), [0.2, 0.7, 0.1], seed=5),
    "no weights": lambda: sampled(counting(300), seed=5),
    "one that weighs nothing": lambda: sampled(counting(300), [0.5, 0.0, 0.5], seed=5),
    "doubles": lambda: sampled(counting(300), tf.constant([0.5, 1.0, 0.1], tf.float64), seed=5),
    "until one ends": lambda: sampled(counting(300), [0.2, 0.7, 0.1], seed=5, stop_on_empty_dataset=True),
    "the graph's seed": lambda: sampled(counting(300), [0.2, 0.7, 0.1]),
    "repeated": lambda: sampled(counting(40), [0.2, 0.7, 0.1], seed=5).repeat(3),
    "in another order each time": lambda: sampled(
        counting(40), [0.2, 0.7, 0.1], seed=5, rerandomize_each_iteration=True
    ).repeat(3),
    "sampled twice": lambda: sampled(
        [sampled(counting(50), [1.0, 2.0, 3.0], seed=1), *counting(60, 2)], [3.0, 2.0, 1.0], seed=2
    ),
    "batches": lambda: sampled([d.batch(7, drop_remainder=True) for d in counting(300)], [1.0, 2.0, 3.0], seed=1),
    "experimental": lambda: tf.data.experimental.sample_from_datasets(counting(300), [0.2, 0.7, 0.1], seed=5),
}


def draw(seed, logits=((0.1, 0.2, 0.3),), samples=1):
    return tf.squeeze(tf.raw_ops.StatelessMultinomial(logits=logits, num_samples=samples, seed=seed), [0, 1])


LEFT = {
    "random numbers of the program's": lambda: Dataset.choose_from_datasets(
        counting(60), Dataset.random(seed=4).map(lambda n: n % 3)
    ),
    "weights that change": lambda: sampled(
        counting(60), Dataset.from_tensor_slices([[0.1, 0.5, 0.4], [0.9, 0.05, 0.05]]).repeat(), seed=5
    ),
    "chosen": lambda: Dataset.choose_from_datasets(counting(60), Dataset.range(3).repeat()),
    "one alone": lambda: sampled(counting(60, 1), [1.0], seed=5),
}


# They hold a tensor or a generator of seeds, which the function of a one-shot iterator cannot.
INITIALIZED = ("doubles", "in another order each time")
CASES = [
    (name, one_shot) for name in sorted(CHANGED) for one_shot in (False, True) if not (one_shot and name in INITIALIZED)
]


@pytest.mark.parametrize("name,one_shot", CASES)
def test_the_same_choices(name, one_shot):
    result, _ = assert_same(CHANGED[name], one_shot=one_shot)
    assert any("drawn many at a time" in change for change in result.changes) and not result.skipped, result


@pytest.mark.parametrize("name", sorted(LEFT))
def test_what_is_no_draw(name):
    result, _ = assert_same(LEFT[name])
    assert not result.modified


def test_weights_that_are_fed():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        weights = v1.placeholder(tf.float32, [2])
        iterator = v1.data.make_initializable_iterator(sampled(counting(500, 2), weights, seed=1).batch(200))
        number = iterator.get_next()
        shares = []
        for rewrite in (False, True):
            if rewrite:
                assert InputPipeline().run(GraphView(graph)).modified
            found = []
            for fed in ([1.0, 9.0], [9.0, 1.0]):
                session.run(iterator.initializer, {weights: fed})
                found.append(session.run(number))
            shares.append(found)
        np.testing.assert_array_equal(*shares)
        assert np.mean(shares[0][0] < 1000) < 0.3 < 0.7 < np.mean(shares[0][1] < 1000)


# By its seeds: how many at a time, and what is done with them.
NO_DRAWS = {
    "seeds in another order": (2, lambda s: draw(s[::-1])),
    "seeds of three": (3, lambda s: draw(s[:2])),
    "three seeds": (3, draw),
    "half floats": (2, lambda s: draw(s, tf.constant([[0.1, 0.2, 0.3]], tf.float16))),
    "plus one": (2, lambda s: (draw(s) + 1) % 3),
    "another number of them": (2, lambda s: draw(s, samples=tf.cast(s[0] // s[0], tf.int32))),
    "logits by the seeds": (2, lambda s: draw(s, tf.cast(s[None], tf.float32))),
}


@pytest.mark.parametrize("name", [None, *sorted(NO_DRAWS)])
def test_what_is_known_for_a_draw(name):
    size, function = NO_DRAWS[name] if name else (2, draw)
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(Dataset.random(seed=4).batch(size).map(function))
        functions = _compat.functions_by_name(graph)
        (map_op,) = GraphView(graph).ops("MapDataset")
        assert (sampled_datasets.logits_of(map_op, functions) is not None) == (name is None)
