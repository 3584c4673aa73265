"""Datasets that are iterated eagerly: the same elements in the same order, from one op where it can be."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf
from record_files import FEATURES, arrays, ids

import tf_booster
from tf_booster.passes import eager_datasets

Records = tf.data.TFRecordDataset
FEW = {key: FEATURES[key] for key in ("id", "clicks")}


@pytest.fixture
def boosted():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def parse(serialized):
    return tf.io.parse_example(serialized, FEATURES)


def parse_one(serialized):
    return tf.io.parse_single_example(serialized, FEW)


def is_one_op(dataset):
    return eager_datasets.stands_for(dataset) is not dataset


PIPELINES = {
    "plain": lambda files: Records(files).batch(4).map(parse),
    "shuffled": lambda files: Records(files).shuffle(10, seed=3).repeat(2).batch(4).map(parse).prefetch(2),
    "shuffle_and_repeat": lambda files: (
        Records(files).apply(tf.data.experimental.shuffle_and_repeat(10, 2, 3)).batch(4).map(parse)
    ),
    "batches repeated": lambda files: Records(files).shuffle(10, seed=3).batch(4).repeat(2).map(parse),
    "one order": lambda files: Records(files).shuffle(10, seed=3, reshuffle_each_iteration=False).batch(4).map(parse),
    "one by one": lambda files: Records(files).map(parse_one, 2).shuffle(10, seed=3).batch(4, True),
    "filtered": lambda files: (
        Records(files).map(parse_one, 2).filter(lambda f: f["id"] % 3 > 0).shuffle(10, seed=3).batch(4)
    ),
    "several files": lambda files: Records(files, num_parallel_reads=3).map(parse_one).batch(4).prefetch(1),
    "interleaved": lambda files: (
        tf.data.Dataset.from_tensor_slices(files).interleave(Records, cycle_length=2).batch(4).map(parse)
    ),
    "with options": lambda files: Records(files).batch(4).map(parse, tf.data.AUTOTUNE).with_options(tf.data.Options()),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_what_iterators_give(files, name):
    plain = PIPELINES[name](files)
    epochs = [list(plain), list(plain)]
    tf.enable_gpu_booster()
    try:
        mine = PIPELINES[name](files)
        assert is_one_op(mine)
        given = eager_datasets.stands_for(mine)
        assert given.element_spec == plain.element_spec and given.options() == plain.options()
        for epoch in epochs:  # A shuffle's second order is another one.
            found = list(mine)
            assert len(found) == len(epoch)
            for x, y in zip(found, epoch):
                tf.nest.assert_same_structure(x, y, expand_composites=True)
                assert all(a.dtype == b.dtype and (a == b).all() for a, b in zip(arrays(x), arrays(y)))
    finally:
        tf_booster.disable_gpu_booster()
    assert is_one_op(PIPELINES[name](files))  # Asked for by hand.


def test_the_switch(files, boosted):
    dataset = Records(files).shuffle(10).batch(4).map(parse)
    stands_for = eager_datasets.stands_for(dataset)
    assert iter(dataset)._dataset is stands_for is not dataset
    tf_booster.disable_gpu_booster()
    assert iter(dataset)._dataset is dataset
    tf.enable_gpu_booster(disable_passes=["input_pipeline"])
    assert iter(dataset)._dataset is dataset


def test_two_parts_of_one_order_stay_so(files, boosted):
    """take and skip of a shuffle without reshuffling are disjoint."""
    shuffled = Records(files).shuffle(100, reshuffle_each_iteration=False)
    first, rest = (part.batch(8).map(parse) for part in (shuffled.take(16), shuffled.skip(16)))
    assert not is_one_op(first) and not is_one_op(rest)
    assert sorted(sum(ids(first) + ids(rest), [])) == list(range(32))
    parts = Records(files).shuffle(100, reshuffle_each_iteration=False).batch(8).map(parse)
    first, rest = parts.take(2), parts.skip(2)
    assert sorted(sum(ids(first) + ids(rest), [])) == list(range(32))


def test_parts_of_an_order_that_follows_from_a_seed(files, boosted):
    tf.random.set_seed(7)
    shuffled = Records(files).shuffle(100, reshuffle_each_iteration=False)
    first, rest = (part.batch(8).map(parse) for part in (shuffled.take(16), shuffled.skip(16)))
    assert is_one_op(first) and is_one_op(rest)
    assert sorted(sum(ids(first) + ids(rest), [])) == list(range(32))


def test_a_debugger_hides_nobody_who_holds_a_shuffle(files, boosted):
    def trace(frame, event, argument):
        assert frame.f_locals is not None  # Holds what the variables hold.
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        is_one_op(Records(files).shuffle(100).batch(8).map(parse))
    finally:
        sys.settrace(before)
    test_two_parts_of_one_order_stay_so(files, None)


def test_a_sequence_of_orders_that_is_shared_goes_on(files):
    def orders():
        shuffled = Records(files).shuffle(100, seed=5)
        a, b = shuffled.batch(8).map(parse), shuffled.batch(16).map(parse)
        return [ids(a), ids(b), ids(a)]

    plain = orders()
    tf.enable_gpu_booster()
    try:
        assert orders() == plain
    finally:
        tf_booster.disable_gpu_booster()


def test_a_shuffle_that_may_have_been_iterated_goes_on(files):
    dataset, twin = (Records(files).shuffle(100, seed=5).batch(8).map(parse) for _ in range(2))
    assert ids(dataset) == ids(twin)
    tf.enable_gpu_booster()
    try:
        assert not is_one_op(dataset)
        second = ids(dataset)
    finally:
        tf_booster.disable_gpu_booster()
    assert second == ids(twin)


def test_what_cannot_be_is_left_and_reported(files, boosted, monkeypatch):
    # The report of a graph that was rewritten would stay the last one.
    monkeypatch.setattr(sys.modules["tf_booster.report"], "_last", None)
    dataset = Records(files).batch(4).map(parse).map(lambda f: (f["id"], tf.random.uniform([])))
    assert not is_one_op(dataset)
    assert [x.tolist() for x, _ in dataset.as_numpy_iterator()][0] == [0, 1, 2, 3]
    assert "could not be made a graph" in str(tf_booster.report())
    dataset = Records(files).filter(lambda s: tf.strings.length(s) > 0).batch(4).map(parse)
    assert not is_one_op(dataset) and len(ids(dataset)) == 8
    assert "FilterDataset" in str(tf_booster.report())
    both = tf.data.experimental.shuffle_and_repeat(3, 1, seed=1)
    assert len(ids(Records(files).apply(both).batch(4).map(parse))) == 8
    assert "AttributeError" not in str(tf_booster.report())


def test_lookup_tables_of_a_function_are_the_same_ones(files, boosted):
    def make():
        words = tf.lookup.KeyValueTensorInitializer([b"w0", b"w1"], [5, 6])
        table = tf.lookup.StaticHashTable(words, -1)
        return Records(files).batch(8).map(parse).map(lambda f: table.lookup(f["words"].values))

    dataset = make()
    assert is_one_op(dataset)
    assert next(iter(dataset)).numpy().tolist() == [5, 5, 6, 5, 6, -1, 5, 5, 6, 5, 6, -1]


def test_keras_trains_from_it(files, boosted):
    dataset = Records(files).batch(4).map(lambda s: (parse(s)["pair"], tf.cast(parse(s)["id"], tf.float32)))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    model.fit(dataset.map(lambda x, y: (x / 100, y)), verbose=0)


def test_iterators_are_saved_and_restored(files, tmp_path, boosted):
    make = lambda: iter(Records(files).map(parse_one).shuffle(9, seed=1).repeat(2).batch(4))
    whole = [batch["id"].numpy().tolist() for batch in make()]
    saved = make()
    for _ in range(5):
        next(saved)
    path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "saved"))
    restored = make()
    tf.train.Checkpoint(iterator=restored).restore(path)
    assert [batch["id"].numpy().tolist() for batch in restored] == whole[5:]


STEPS = {
    "all": lambda records: records,
    "for ever": lambda records: records.repeat(),
    "for ever of a share": lambda records: records.repeat().shard(3, 1).skip(2),
    "so many": lambda records: records.repeat().take(11),
    "a share of so many": lambda records: records.repeat().take(11).shard(4, 2),
    "the last of so many": lambda records: records.repeat().take(11).skip(2).repeat(3),
    "nothing": lambda records: records.skip(-1),
    "not even once": lambda records: records.repeat(0),
    "the first": lambda records: records.take(3),
}


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_cardinality(files, name, drop):
    dataset = STEPS[name](Records(files)).batch(4, drop_remainder=drop).map(parse)
    mine = eager_datasets.stands_for(dataset)
    assert mine is not dataset
    assert mine.cardinality().numpy() == dataset.cardinality().numpy()
