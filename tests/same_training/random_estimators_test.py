"""Some of the Estimators that random_estimators.py puts together.

`pytest tests/same_training/random_estimators_test.py --seeds 1000:1200` tries others.
"""

import pytest
from random_estimators import check, check_in_integers, check_padded, check_repeated, draw

from tf_booster import _compat
from tf_booster.passes import quantized_products, xla_padding_plan


@pytest.mark.seeds(2, 5, 13, 28, 1011)
def test_equal(seed):
    print(draw(seed))  # Shown if it fails.
    check(seed)


@pytest.mark.seeds(1, 9, 11)
def test_predictions_with_repeated_features(seed):
    """In the first one an op of the rest waits for what is expanded, and an op of the region for that."""
    print(draw(seed))
    check_repeated(seed)


@pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="before 2.14 nothing is padded for XLA")
@pytest.mark.seeds(3, 9, 14)
def test_predictions_of_padded_batches(seed, monkeypatch):
    """Clusters that are too small to pay are made, too."""
    for cost in ("_LAUNCH_NS", "_PADDING_NS", "_SUM_NS"):
        monkeypatch.setattr(xla_padding_plan, cost, 0.0)
    print(draw(seed))
    report = check_padded(seed)
    assert next(p for p in report["passes"] if p["name"] == "xla_padding")["modified"]


@pytest.mark.seeds(1, 4, 8)
def test_predictions_in_integers(seed, monkeypatch):
    """Of layers of any size: those of these models are small. The last one has partitions."""
    monkeypatch.setattr(quantized_products, "FEWEST_INPUTS", 1)
    monkeypatch.setattr(quantized_products, "FEWEST_OUTPUTS", 1)
    print(draw(seed))
    report = check_in_integers(seed)
    assert next(p for p in report["passes"] if p["name"] == "quantized_products")["modified"]
