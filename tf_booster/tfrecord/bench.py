"""A file through TensorFlow's parser and through ours, in turns."""

from __future__ import annotations

import statistics
import time
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf

from tf_booster import parsing
from tf_booster.data.tf_record_example_dataset import TFRecordExampleDataset


def run(files: List[str], compression: str, features: Dict[str, Any], batch_size: int, rounds: int) -> Dict[str, float]:
    """Median seconds a pass over `files`, by way: TFRecordDataset, batch and parse_example, by TensorFlow's kernel or ours;
    and TFRecordExampleDataset."""
    was_on = parsing.serves_stock_ops()

    def stock() -> tf.data.Dataset:
        batches = tf.data.TFRecordDataset(files, compression).batch(batch_size)
        return batches.map(lambda s: tf.io.parse_example(s, features), num_parallel_calls=tf.data.AUTOTUNE)

    ways = {
        "TensorFlow": (stock(), False),
        "TensorFlow with tf_booster's kernel": (stock(), True),
        "TFRecordExampleDataset": (TFRecordExampleDataset(files, features, batch_size, compression), True),
    }
    times: Dict[str, List[float]] = {name: [] for name in ways}
    try:
        for round_number in range(rounds + 1):
            for name, (dataset, ours) in ways.items():
                parsing.serve_stock_ops(ours)
                start = time.perf_counter()
                dataset.reduce(np.int64(0), lambda count, _: count + 1)
                if round_number:  # The first brings the file into memory.
                    times[name].append(time.perf_counter() - start)
    finally:
        parsing.serve_stock_ops(was_on)
    return {name: statistics.median(t) for name, t in times.items()}
