"""Sparse indices and row_splits that features and batches have in common: right each time, and nobody's to change."""

import example_records
import numpy as np
import pytest
import tensorflow as tf

from tf_booster import parsing

v1 = tf.compat.v1

# By feature, the length of its list in record i. `again` goes with `items`; `other` has the same shortest, longest and
# sum, but not the same lists.
LENGTHS = {
    "items": lambda i: (2, 0, 5, 1)[i % 4],
    "again": lambda i: (2, 0, 5, 1)[i % 4],
    "other": lambda i: (0, 2, 1, 5)[i % 4],
    "one": lambda i: 1,
    "one_more": lambda i: 1,
    "three": lambda i: 3,
    "none": lambda i: 0,
}
SPECS = {
    "sparse": {name: tf.io.VarLenFeature(tf.int64) for name in LENGTHS},
    "ragged": {
        name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=splits)
        for name, splits in zip(LENGTHS, (tf.int32, tf.int64, tf.int32, tf.int64, tf.int64, tf.int32, tf.int32))
    },
}


def record(i, longer=0):
    lists = {name: ("int64", [i * 10 + k for k in range(length(i) + longer)]) for name, length in LENGTHS.items()}
    return example_records.simple(**lists)


@pytest.fixture(params=SPECS)
def parse(request):
    """A function from serialized records to arrays, always by the same kernel; TensorFlow's or ours."""
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None])
        parsed = tf.nest.flatten(tf.io.parse_example(serialized, SPECS[request.param]), expand_composites=True)
        fetch = session.make_callable(parsed, [serialized])

        def run(records, ours):
            parsing.serve_stock_ops(ours)
            return fetch(np.array(records, object))

        yield run


def assert_same(theirs, ours):
    for a, b in zip(theirs, ours):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_batch_after_batch(parse):
    # 5,000 records are parsed in several slices where there are several threads; 0, and others, come twice.
    batches = [
        [record(i, longer) for i in range(n)] for n, longer in ((9, 0), (9, 2), (8, 0), (5000, 0), (0, 0), (9, 0))
    ]
    for records in batches + batches:
        assert_same(parse(records, False), parse(records, True))


def test_what_was_fetched_may_be_written_to(parse):
    records = [record(i) for i in range(9)]
    theirs = parse(records, False)
    for _ in range(3):
        ours = parse(records, True)
        assert_same(theirs, ours)
        for array in ours:
            if array.flags.writeable:
                array += 7


def test_tensors_are_shared():
    records = [record(i) for i in range(9)]
    parsing.serve_stock_ops(True)

    def parse():
        return {name: tensor.indices for name, tensor in tf.io.parse_example(records, SPECS["sparse"]).items()}

    def address(tensor):
        return np.asarray(memoryview(tensor)).__array_interface__["data"][0]

    first, second = parse(), parse()
    assert address(first["items"]) == address(first["again"]) != address(first["other"])
    assert address(first["one"]) == address(first["one_more"]) == address(second["one"])
    assert address(first["items"]) != address(second["items"])
