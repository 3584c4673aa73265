"""Codes are followed through ops that move values, and every other use of them is found."""

import pytest
import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.code_flow import CodeFlow

v1 = tf.compat.v1


def stand_in(ids=None):
    ids = v1.placeholder(tf.int64, [None]) if ids is None else ids
    return _native.ops().tf_booster_stand_in_ids(ids, table_name="t")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


MOVES = {
    "identity": tf.identity,
    "reshape": lambda c: tf.reshape(c, [-1, 1]),
    "expand and squeeze": lambda c: tf.squeeze(tf.expand_dims(c, 1), 1),
    "gather": lambda c: tf.gather(c, [0, 1]),
    "gather_nd": lambda c: tf.gather_nd(c, [[0], [1]]),
    "boolean_mask": lambda c: tf.boolean_mask(c, c >= 0),
    "slice": lambda c: c[1:3],
    "unique": lambda c: tf.unique(c).y,
    "unique with counts": lambda c: tf.unique_with_counts(c).y,
    "concat": lambda c: tf.concat([c, tf.zeros([2], tf.int64), c], 0),
    "stack and unstack": lambda c: tf.unstack(tf.stack([c, c]))[1],
    "split": lambda c: tf.split(tf.reshape(c, [4]), 2)[0],
    "tile": lambda c: tf.tile(c, [2]),
    "transpose": lambda c: tf.transpose(tf.reshape(c, [2, -1])),
    "pad": lambda c: tf.pad(c, [[1, 1]]),
    "reverse": lambda c: tf.reverse(c, [0]),
    "where": lambda c: tf.where(c >= 0, c, tf.zeros_like(c)),
    "stop_gradient": tf.stop_gradient,
    "fill_empty_rows": lambda c: tf.sparse.fill_empty_rows(tf.SparseTensor([[0, 0]], c, [2, 1]), 0)[0].values,
    "to_dense": lambda c: tf.sparse.to_dense(tf.SparseTensor([[0, 0]], c, [2, 1]), 0),
    "partition and stitch": lambda c: tf.dynamic_stitch(
        [[0, 1], [2, 3]], tf.dynamic_partition(tf.reshape(c, [4]), [0, 1, 0, 1], 2)
    ),
}


@pytest.mark.parametrize("move", MOVES)
def test_codes_pass_ops_that_move_values(move):
    codes = stand_in()
    flow_before = CodeFlow([codes.op])
    assert flow_before.uses == []
    moved = MOVES[move](codes)
    end = tf.cast(moved, tf.float32)
    flow = CodeFlow([codes.op])
    assert flow.sources(moved) == {codes.op}
    assert [use.op for use in flow.uses] == [end.op]
    assert flow.foreign_inputs() == []


COMPUTES = {
    "add": lambda c: c + 1,
    "mod": lambda c: c % 5,
    "one_hot": lambda c: tf.one_hot(c, 3),
    "cast": lambda c: tf.cast(c, tf.int32),
    "index": lambda c: tf.gather(tf.range(10), c),
    "compare with a positive bound": lambda c: c >= 1,
    "is zero": lambda c: tf.equal(c, 0),
    "compare with ids": lambda c: tf.equal(c, v1.placeholder(tf.int64, [])),
}


@pytest.mark.parametrize("compute", COMPUTES)
def test_ops_that_compute_with_codes_are_uses(compute):
    codes = stand_in()
    end = COMPUTES[compute](codes)
    assert [use.op for use in CodeFlow([codes.op]).uses] == [end.op]


HARMLESS = {
    "shape": tf.shape,
    "size": tf.size,
    "zeros_like": lambda c: tf.raw_ops.ZerosLike(x=c),
    ">= 0": lambda c: c >= 0,
    "> -1": lambda c: c > -1,
    "!= -1": lambda c: tf.not_equal(c, -1),
    "0 <=": lambda c: tf.raw_ops.LessEqual(x=tf.constant(0, tf.int64), y=c),
}


@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_is_true_of_ids_and_codes_alike_is_no_use(harmless):
    codes = stand_in()
    HARMLESS[harmless](codes)
    assert CodeFlow([codes.op]).uses == []


def test_other_values_among_codes_are_found():
    codes = stand_in()
    mixed = tf.concat([codes, v1.placeholder(tf.int64, [None])], 0)
    tf.negative(mixed)
    (found,) = CodeFlow([codes.op]).foreign_inputs()
    assert (found.op, found.index) == (mixed.op, 1)


def test_a_fill_value_that_is_an_id_is_found():
    codes = stand_in()
    filled = tf.sparse.fill_empty_rows(tf.SparseTensor([[0, 0]], codes, [2, 1]), 7)[0].values
    (found,) = CodeFlow([codes.op]).foreign_inputs()
    assert (found.op, found.index) == (filled.op, 3)


def test_sources_of_mixed_lookups_and_the_ends_that_each_way_reaches():
    first, second = stand_in(), stand_in()
    both = tf.concat([tf.identity(first), second], 0)
    end = tf.negative(both)
    alone = tf.negative(second)
    flow = CodeFlow([first.op, second.op])
    assert flow.sources(both) == {first.op, second.op}
    assert flow.reaches(both.op, 1) == {end.op}
    assert flow.reaches(alone.op, 0) == {alone.op}
    assert flow.sources(tf.constant(1)) == frozenset()
