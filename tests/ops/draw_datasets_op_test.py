"""TfBoosterDrawDatasets beside TensorFlow's stateless_multinomial, seed by seed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**32, 2**32 - 1, -(2**32)]


def drawn(logits, seeds):
    return _native.ops().tf_booster_draw_datasets(logits=logits, seeds=seeds).numpy()


def one_by_one(logits, seeds):
    return [int(tf.raw_ops.StatelessMultinomial(logits=logits, num_samples=1, seed=seed)) for seed in seeds]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "weights", [[0.7, 0.3], [1.0], [1, 1, 1, 1, 1], [1e-30, 1, 1e30], [0.2, np.nan, np.inf, 0.1], [0.0, 5.0, 0.0, 1.0]]
)
def test_each_seed_gives_tensorflows_number(weights, dtype):
    rng = np.random.default_rng(len(weights))
    seeds = rng.integers(-(2**63), 2**63 - 1, [500, 2])
    seeds[: len(EXTREMES), 0] = EXTREMES
    seeds[4 : 4 + len(EXTREMES), 1] = EXTREMES
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray([weights], dtype))
    found = drawn(logits, seeds)
    assert found.dtype == np.int64 and found.tolist() == one_by_one(logits, seeds)


def test_no_seeds():
    assert drawn(np.zeros([1, 3], np.float32), np.zeros([0, 2], np.int64)).shape == (0,)


def test_wrong_shapes():
    for logits, seeds in (([1, 0], [5, 2]), ([2, 3], [5, 2]), ([1, 3], [5, 3])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="wanted"):
            drawn(np.zeros(logits, np.float32), np.zeros(seeds, np.int64))
