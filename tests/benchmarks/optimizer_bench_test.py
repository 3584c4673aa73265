"""The contests of the optimizers, small: they build, agree and give figures."""

import pytest
import tensorflow as tf

from benchmarks import optimizer_bench, tables


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_the_contests_run_and_agree(optimizer):
    with tf.Graph().as_default(), tables.session(threads=1) as session:
        results = optimizer_bench.contests(None, session, optimizer, 4, "zipf", rows=500, batch=64, threads=1)
    assert [result.what for result in results] == ["apply", "step"]
    for result in results:
        assert list(result.rates)[:2] == ["tf_booster", "TensorFlow"] and min(result.rates.values()) > 0
