"""Small records of the kinds that recommendation models read: numbers, ids, words, lists of tags with weights."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import tensorflow as tf

BATCH, BATCHES = 16, 100
NUM_IDS, NUM_TAGS, MAX_TAGS = 40, 15, 3
WORDS = ["apple", "pear", "plum", "fig"]


def records(n: int = BATCH * BATCHES, seed: int = 0) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """(features, labels) of n records. Lists of tags are padded with −1, their weights with 0; some lists are empty."""
    rng = np.random.RandomState(seed)
    lengths = rng.randint(0, MAX_TAGS + 1, [n, 1])
    there = np.arange(MAX_TAGS) < lengths
    features = {
        "numbers": rng.randn(n, 3).astype(np.float32),
        "id": (rng.zipf(1.3, [n, 1]) % NUM_IDS).astype(np.int64),
        "other_id": rng.randint(0, NUM_IDS, [n, 1]).astype(np.int64),
        "word": rng.choice([w.encode() for w in WORDS + ["unknown"]], [n, 1]),
        "tags": np.where(there, rng.randint(0, NUM_TAGS, there.shape), -1).astype(np.int64),
        "tag_weights": np.where(there, rng.rand(*there.shape) + 0.5, 0).astype(np.float32),
    }
    logits = features["numbers"][:, :1] + np.sin(features["id"]) + 0.5 * np.cos(3.0 * features["tags"][:, :1])
    labels = (rng.rand(n, 1) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    return features, labels


def reorder_batches(features: Dict[str, np.ndarray], labels: np.ndarray, batch: int = BATCH) -> Tuple[Any, Any]:
    """The same batches with their rows in another order."""
    rng = np.random.RandomState(99)
    n = len(labels)
    order = np.concatenate([begin + rng.permutation(min(batch, n - begin)) for begin in range(0, n, batch)])
    return {name: values[order] for name, values in features.items()}, labels[order]


def input_fn(
    data: Optional[Tuple[Any, Any]] = None, batch: int = BATCH, static: bool = False
) -> Callable[[], tf.data.Dataset]:
    """An Estimator's input_fn over `data`, or records(), once, in order; the last batch may be smaller unless `static`."""
    features, labels = data or records()
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(batch, drop_remainder=static)
