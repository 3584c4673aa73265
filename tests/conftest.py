"""What every test leaves as it found it."""

from __future__ import annotations

import gc
import os

import pytest
import tensorflow as tf

# Up to 80 s of processor time a file. Begun first, so that at the end of a parallel run no process is left alone with one.
LONG = ("examples", "same_training")


def pytest_collection_modifyitems(items):
    folder = lambda item: item.path.relative_to(os.path.dirname(__file__)).parts[0]
    items.sort(key=lambda item: LONG.index(folder(item)) if folder(item) in LONG else len(LONG))


def pytest_collection_finish():
    """Python's garbage collector took 9 % of the tests' time: it walked what was imported again and again. Now 4 %."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(autouse=True)
def _no_seed_is_left():
    """TensorFlow's global seed makes a shuffle without a seed one with a seed, and that is another case."""
    yield
    tf.random.set_seed(None)
