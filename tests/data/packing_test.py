"""Packing tensors into one buffer and taking them out by offset."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native
from tf_booster.data import packing

DTYPES = [
    tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64, tf.float16, tf.bfloat16,
    tf.float32, tf.float64, tf.complex64, tf.complex128,
]  # fmt: skip


def spec_of(element):
    return tf.nest.map_structure(tf.type_spec_from_value, element)


def test_every_type_and_odd_shapes():
    rng = np.random.default_rng(0)
    element = {}
    for i, dtype in enumerate(DTYPES):
        for shape in ([], [0], [3, 0, 2], [7], [2, 3, 5]):
            element[f"{dtype.name}{shape}"] = tf.cast(tf.constant(rng.integers(0, 2 + i, shape)), dtype)
    packed = packing.pack(element)
    assert packed["packed"].shape[0] % 64 == 0
    back = packing.unpack(packed, spec_of(element))
    for name, tensor in element.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape
        # bfloat16 of TensorFlow 2.12 has no == of arrays.
        assert np.array_equal(back[name].numpy(), tensor.numpy()), name


def test_composites_and_strings():
    element = (
        {
            "sparse": tf.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 4]),
            "empty": tf.SparseTensor(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), [3, 0]),
            "ragged": tf.ragged.constant([[1, 2], [], [3]]),
            "words": tf.ragged.constant([["a"], ["b", "c"]]),
            "names": tf.constant(["x", "y"]),
        },
        tf.constant([1.0, 0.0]),
    )
    back = packing.unpack(packing.pack(element), spec_of(element))
    tf.nest.assert_same_structure(back, element, expand_composites=True)
    for a, b in zip(tf.nest.flatten(back, True), tf.nest.flatten(element, True)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_strings_alone_and_numbers_alone():
    for element in ({"s": tf.constant(["a"])}, [tf.constant(1), tf.constant([2.0])]):
        back = packing.unpack(packing.pack(element), spec_of(element))
        for a, b in zip(tf.nest.flatten(back), tf.nest.flatten(element)):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_nothing_is_copied():
    """Parts lie where `packed` says, 64-byte aligned; NumPy sees an eager tensor's own memory."""
    element = [tf.range(5, dtype=tf.int64), tf.zeros([3], tf.float32), tf.range(9, dtype=tf.int64)]
    packed = packing.pack(element)
    parts = packing.unpack(packed, spec_of(element))

    def address(tensor):
        return tensor._numpy().__array_interface__["data"][0]

    base = address(packed["packed"])
    assert [address(part) - base for part in parts] == [0, 64, 128]
    assert base % 64 == 0
    del packed
    np.testing.assert_array_equal(parts[2].numpy(), np.arange(9))  # The parts keep the buffer.


def test_in_a_dataset_and_in_a_graph():
    data = tf.data.Dataset.range(10).batch(4).map(lambda x: ({"x": x, "s": tf.as_string(x)}, tf.cast(x, tf.float32)))
    for element in packing.pack_batches(data):
        features, label = packing.unpack(element, data.element_spec)
        np.testing.assert_array_equal(features["x"], label)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.int64, [None, 2])
        back = packing.unpack(packing.pack([x, x + 1]), [tf.TensorSpec([None, 2], tf.int64)] * 2)
        assert back[1].shape.as_list() == [None, 2]
        np.testing.assert_array_equal(session.run(back[1], {x: [[1, 2]]}), [[2, 3]])


def test_bad_layouts_are_refused():
    ops = _native.ops()
    packed, layout = ops.tf_booster_pack_tensors([tf.range(4, dtype=tf.int64), tf.zeros([2])])
    numbers = np.frombuffer(layout.numpy(), np.int64)

    def unpack(values, types=(tf.int64, tf.float32), shapes=([4], [2]), buffer=packed):
        return ops.tf_booster_unpack_tensors(
            buffer, np.asarray(values, np.int64).tobytes(), T=list(types), shapes=[tf.TensorShape(s) for s in shapes]
        )

    assert len(unpack(numbers)) == 2
    bad = [numbers[:-1], [*numbers, 0], [8, *numbers[1:]], [-64, *numbers[1:]], [1 << 40, *numbers[1:]], [],
           [0, 1, 1 << 40, 64, 1, 2], [0, 300, 4, 64, 1, 2], [0, 1, -4, 64, 1, 2]]  # fmt: skip
    for values in bad:
        with pytest.raises(tf.errors.InvalidArgumentError):
            unpack(values, shapes=(None, None))
    with pytest.raises(tf.errors.InvalidArgumentError, match="wanted"):
        unpack(numbers, shapes=([5], [2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank 2"):
        unpack(numbers, buffer=tf.zeros([2, 64], tf.uint8))
    with pytest.raises(tf.errors.InvalidArgumentError, match="pass it beside"):
        ops.tf_booster_pack_tensors([tf.constant(["a"])])
