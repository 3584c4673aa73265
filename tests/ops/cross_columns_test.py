"""CrossColumns against SparseCross, on features of all kinds; and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

WORDS = st.sampled_from(
    ["", "a", "b", "seventeen letters", "some text that is longer than what a string holds in itself"]
)
INTS = st.one_of(st.integers(-2, 3), st.integers(-(2**63), 2**63 - 1))
SMALL = st.integers(-(2**31), 2**31 - 1)
KINDS = {"string": (object, WORDS), "int64": (np.int64, INTS), "int32": (np.int32, st.one_of(st.just(-1), SMALL))}


@st.composite
def features(draw, rows):
    """One feature: what the op is given, and what TensorFlow is."""
    dtype, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    if draw(st.booleans()):
        of_rows = draw(st.lists(st.lists(values, max_size=3), min_size=rows, max_size=rows))
        indices = np.array([(r, c) for r, of_row in enumerate(of_rows) for c in range(len(of_row))], np.int64).reshape(
            -1, 2
        )
        flat = np.array([value for of_row in of_rows for value in of_row], dtype)
        return {"given": flat, "indices": indices, "shape": [rows, 3], "skip": False}
    of_row = draw(st.integers(0, 3))
    flat = draw(st.lists(values, min_size=rows * of_row, max_size=rows * of_row))
    given_ = np.array(flat, dtype).reshape(rows, of_row)
    return {"given": given_, "indices": None, "shape": None, "skip": draw(st.booleans())}


@st.composite
def calls(draw):
    rows = draw(st.integers(0, 4))
    made = draw(st.lists(features(rows), min_size=1, max_size=4))
    made.sort(key=lambda feature: feature["indices"] is None)
    places = st.integers(0, len(made) - 1)
    keys = draw(st.lists(st.lists(places, min_size=1, max_size=3), min_size=1, max_size=4))
    # As sparse_cross has its inputs: sparse ones first.
    keys = [sorted(of, key=lambda place: _is_dense_there(made[place])) for of in keys]
    buckets = draw(st.lists(st.sampled_from([0, 1, 10, 2**62]), min_size=len(keys), max_size=len(keys)))
    hash_keys = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(keys), max_size=len(keys)))
    return made, keys, buckets, hash_keys


def _is_dense_there(feature):
    return feature["indices"] is None and not feature["skip"]


def _tensor(array):
    return tf.constant(array, tf.string) if array.dtype == object else tf.constant(array)


def _for_tensorflow(feature):
    """The feature as feature columns would give it to SparseCross."""
    values = _tensor(feature["given"])
    indices, shape = feature["indices"], feature["shape"]
    if indices is None:
        if _is_dense_there(feature):
            return values if values.dtype == tf.string else tf.cast(values, tf.int64)
        there = tf.ones_like(values, tf.bool)
        if feature["skip"]:
            there = tf.not_equal(values, "" if values.dtype == tf.string else tf.constant(-1, values.dtype))
        indices, shape = tf.where(there), tf.shape(values, out_type=tf.int64)
        values = tf.gather_nd(values, indices)
    values = values if values.dtype == tf.string else tf.cast(values, tf.int64)
    return tf.SparseTensor(indices, values, tf.cast(shape, tf.int64))


def _wanted(inputs, buckets, hash_key):
    sparse = [one for one in inputs if isinstance(one, tf.SparseTensor)]
    dense = [one for one in inputs if not isinstance(one, tf.SparseTensor)]
    return tf.raw_ops.SparseCross(
        indices=[one.indices for one in sparse],
        values=[one.values for one in sparse],
        shapes=[one.dense_shape for one in sparse],
        dense_inputs=dense,
        hashed_output=True,
        num_buckets=buckets,
        hash_key=hash_key,
        out_type=tf.int64,
        internal_type=tf.int64,
    )


def _made(made, of_crosses, buckets, hash_keys, **changed):
    sparse = [feature for feature in made if feature["indices"] is not None]
    attributes = {
        "indices": [tf.constant(feature["indices"]) for feature in sparse],
        "dense_shapes": [tf.constant(feature["shape"], tf.int64) for feature in sparse],
        "features": [_tensor(feature["given"]) for feature in made],
        "skip_missing": [feature["skip"] for feature in made],
        "N": len(of_crosses),
        "keys": [key for of_cross in of_crosses for key in of_cross],
        "num_keys": [len(of_cross) for of_cross in of_crosses],
        "num_buckets": buckets,
        "hash_keys": hash_keys,
    }
    return _native.ops().tf_booster_cross_columns(**{**attributes, **changed})


@settings(deadline=None, max_examples=300)
@given(calls())
def test_as_sparse_cross(call):
    made, keys, buckets, hash_keys = call
    outputs = list(zip(*_made(*call)))
    for of_cross, number, hash_key, found in zip(keys, buckets, hash_keys, outputs):
        wanted = _wanted([_for_tensorflow(made[key]) for key in of_cross], number, hash_key)
        for name, a, b in zip(("indices", "values", "shape"), found, wanted):
            np.testing.assert_array_equal(a, b, name)


def test_a_large_batch_on_all_threads():
    rng = np.random.default_rng(0)
    words = np.char.add("w", rng.integers(0, 1000, [30000, 2]).astype(str)).astype(object)
    numbers = rng.integers(-1, 5, [30000, 1])
    made = [
        {"given": words, "indices": None, "shape": None, "skip": False},
        {"given": numbers, "indices": None, "shape": None, "skip": True},
        {"given": words[:, :1], "indices": None, "shape": None, "skip": False},
        {"given": words[:, 1:], "indices": None, "shape": None, "skip": False},
    ]
    keys, buckets, hash_keys = [[1, 0], [2, 3], [3, 2]], [100, 0, 7], [1, 2, 3]
    for of_cross, number, hash_key, found in zip(keys, buckets, hash_keys, zip(*_made(made, keys, buckets, hash_keys))):
        wanted = _wanted([_for_tensorflow(made[key]) for key in of_cross], number, hash_key)
        for a, b in zip(found, wanted):
            np.testing.assert_array_equal(a, b)


ONE = {"given": np.array([[1], [2]]), "indices": None, "shape": None, "skip": False}
TWO = {"given": np.array([5]), "indices": np.array([[0, 0]]), "shape": [2, 1], "skip": False}


@pytest.mark.parametrize(
    "made, changed, message",
    [
        ([ONE], {"num_keys": [2]}, "num_keys has 2, wanted at least 1"),
        ([ONE], {"num_keys": [0]}, "num_keys has 0, wanted at least 1"),
        ([ONE], {"keys": [0, 0]}, "keys has 2 entries, wanted 1"),
        ([ONE], {"keys": [1]}, "keys has 1, wanted one of 1 features"),
        ([ONE], {"num_buckets": []}, "num_buckets has 0 entries, wanted 1, as many as crosses"),
        ([ONE], {"skip_missing": [True, False]}, "skip_missing has 2 entries, wanted 1, as many as features"),
        ([TWO], {"skip_missing": [True]}, r"skip_missing\[0\] is true, but that feature is sparse"),
        ([{**ONE, "given": np.array([1, 2])}], {}, r"rank 2|wanted \[rows, values of a row\]"),
        ([{**TWO, "shape": [2, 1, 1]}], {}, r"wanted \[2\]"),
        ([{**TWO, "shape": [-1, 1]}], {}, "has -1 rows, wanted 0"),
        ([{**TWO, "given": np.array([5, 6])}], {}, r"wanted \[entries, 2\] and \[entries\]"),
    ],
)
def test_what_it_refuses(made, changed, message):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _made(made, [[0]], [10], [0], **changed)
