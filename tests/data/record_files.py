"""TFRecord files for tests, and datasets as lists of NumPy arrays."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Sequence

import numpy as np
import tensorflow as tf

FEATURES: Dict[str, Any] = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "pair": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.5, 1.5]),
    "sequence": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1),
    "clicks": tf.io.VarLenFeature(tf.int64),
    "words": tf.io.VarLenFeature(tf.string),
    "weights": tf.io.RaggedFeature(tf.float32),
}


def example(number: int, rng: np.random.Generator) -> bytes:
    """A serialized Example whose feature "id" is `number`."""
    features = tf.train.Example()
    values = features.features.feature
    values["id"].int64_list.value.append(number)
    if number % 3:
        values["pair"].float_list.value.extend([number, -number])
    values["sequence"].int64_list.value.extend(rng.integers(-5, 2**40, rng.integers(0, 4)).tolist())
    values["clicks"].int64_list.value.extend(rng.integers(-(2**62), 2**62, rng.integers(0, 6)).tolist())
    values["words"].bytes_list.value.extend([b"w%d" % i for i in range(number % 4)])
    values["weights"].float_list.value.extend(rng.random(rng.integers(0, 3)).tolist())
    return features.SerializeToString(deterministic=True)


def write_files(folder: Any, counts: Sequence[int], compression: str = "") -> List[str]:
    """One file for each of `counts`, with so many records; "id" numbers the records of all files."""
    rng = np.random.default_rng(len(counts))
    paths, number = [], 0
    for i, count in enumerate(counts):
        paths.append(os.path.join(str(folder), f"part-{i}{compression}"))
        with tf.io.TFRecordWriter(paths[-1], compression) as writer:
            for _ in range(count):
                writer.write(example(number, rng))
                number += 1
    return paths


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def stock(records: tf.data.Dataset, batch_size: int, drop_remainder: bool = False) -> tf.data.Dataset:
    """TensorFlow's own way from records to batches."""
    return records.batch(batch_size, drop_remainder).map(lambda s: tf.io.parse_example(s, FEATURES))


def arrays(element: Any) -> List[np.ndarray]:
    """All components of an element."""
    return [np.asarray(tensor) for tensor in tf.nest.flatten(element, expand_composites=True)]


def ids(dataset: Any) -> List[List[int]]:
    """The feature "id" of each batch."""
    return [batch["id"].numpy().tolist() for batch in dataset]


def outcomes(iterator: Iterator[Any], limit: int = 50) -> List[Any]:
    """What an iterator gives, call after call: ids of a batch, or the name of an error, and "end"."""
    found: List[Any] = []
    for _ in range(limit):
        try:
            found.append(next(iterator)["id"].numpy().tolist())
        except StopIteration:
            return [*found, "end"]
        except tf.errors.OpError as error:
            found.append(type(error).__name__)
    return found


def assert_same(ours: tf.data.Dataset, theirs: tf.data.Dataset) -> None:
    """The same elements, values and types, in the same order, and the same element_spec."""
    assert ours.element_spec == theirs.element_spec
    a, b = list(ours), list(theirs)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        tf.nest.assert_same_structure(x, y, expand_composites=True)
        for p, q in zip(arrays(x), arrays(y)):
            assert p.dtype == q.dtype
            np.testing.assert_array_equal(p, q)
