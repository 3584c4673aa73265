"""What every test leaves as it found it."""

from __future__ import annotations

import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _no_seed_is_left():
    """TensorFlow's global seed makes a shuffle without a seed one with a seed, and that is another case."""
    yield
    tf.random.set_seed(None)
