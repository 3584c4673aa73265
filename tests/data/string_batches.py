"""Datasets of batches of strings: by an op of ours from files on, and what iterators over such datasets give."""

from __future__ import annotations

import gzip
import itertools
import zlib

import tensorflow as tf

from tf_booster import _compat
from tf_booster.data.record_batches import Batching, Reading

COMPRESSIONS = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def batches_by(make_op, paths, batch_size=2, stages=(), drop_remainder=False, **reading):
    """The dataset that make_op, line_batches_op or serialized_batches_op, makes of these files."""
    like = tf.data.Dataset.from_tensor_slices(["a"]).batch(batch_size, drop_remainder=drop_remainder)
    variant = make_op(
        _compat.variant_of_dataset(tf.data.Dataset.from_tensor_slices(paths)),
        Reading(stages=tuple(stages), **reading),
        Batching(batch_size, drop_remainder),
        like.element_spec.shape,
    )
    return without_prefetch(_compat.dataset_in_place_of(like, variant))


def without_prefetch(dataset):
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # Nothing is asked for before the test asks.
    return dataset.with_options(options)


def outcomes(batches, limit=12, messages=True):
    """What an iterator gives, call after call: the strings of a batch, or an error with its message, and "end"."""
    found, iterator = [], iter(batches)
    for _ in range(limit):
        try:
            found.append(next(iterator).numpy().tolist())
        except StopIteration:
            return [*found, "end"]
        except tf.errors.OpError as error:
            message = error.message.split("}} ")[-1].split(" [Op:")[0] if messages else ""
            found.append((type(error).__name__, message))
    return found


def strings(batches):
    return [batch.numpy().tolist() for batch in batches]


def assert_saved_anywhere(make, folder):
    """An iterator over make() that is saved before any batch, or at the end, is restored where it was."""
    whole = strings(make())
    assert whole
    for position in range(len(whole) + 1):
        dataset = make()  # Its iterators draw their orders from one sequence.
        saved = iter(dataset)
        assert strings(itertools.islice(saved, position)) == whole[:position]
        path = tf.train.Checkpoint(iterator=saved).save(str(folder / "state"))
        assert strings(saved) == whole[position:]  # Saving disturbs nothing.
        restored = iter(dataset)
        tf.train.Checkpoint(iterator=restored).restore(path)
        assert strings(restored) == whole[position:], position


def write(path, content):
    path.write_bytes(content)
    return str(path)
