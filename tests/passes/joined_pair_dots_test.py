"""Dots of pairs that are written where they are joined, and their gradient read where it would be cut out: the same bits, and what is left."""

import gpu_kernels
import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_second_run, run, running

from tf_booster import _native
from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_pair_dots import JoinedPairDots
from tf_booster.passes.pair_dots import PairDots

v1 = tf.compat.v1
FIELDS, DIM, ROWS = 10, 6, 9
BELOW = [i * FIELDS + j for i in range(FIELDS) for j in range(i)]
BOTH = ["1 joins, to which dots of pairs write", "1 gradients of dots, which are read where they lie"]
TYPES = ("TfBoosterPairDots", "TfBoosterJoinedPairDots", "TfBoosterPairDotsGrad", "ConcatV2", "Slice")


def variable(name, rows, columns, seed):
    values = np.random.RandomState(seed).standard_normal((rows, columns)).astype(np.float32)
    return v1.get_variable(name, initializer=values, use_resource=True)


def vectors(batch, wait=lambda: []):
    """A vector for each field, trained."""
    given = np.random.RandomState(3).standard_normal((ROWS, DIM)).astype(np.float32)
    x = v1.placeholder_with_default(given, [batch, DIM])
    parts = [tf.tanh(tf.matmul(x, variable(f"w{i}", DIM, DIM, i))) for i in range(FIELDS)]
    with tf.control_dependencies(wait()):
        stacked = tf.stack(parts, 1)
    return parts, stacked


def dots_of(x):
    return tf.gather(tf.reshape(tf.matmul(x, x, transpose_b=True), [-1, FIELDS**2]), BELOW, axis=1)


def program(batch=None, join=lambda first, dots: tf.concat([first, dots], 1), more=None, train=True, wait=lambda: []):
    """join: of a vector and the dots. more: what else is made of the dots, the vectors and what is joined, for the loss."""

    def build():
        parts, stacked = vectors(batch, wait)
        dots = dots_of(stacked)
        wide = join(parts[0], dots)
        # As in a tower, the gradient of what is joined is a product, and no value depends on the order of another sum.
        loss = tf.reduce_sum(tf.square(tf.matmul(wide, variable("tower", wide.shape[1], 3, 77))))
        loss = loss if more is None else loss + more(parts, dots, wide)
        fetches = [loss, tf.identity(wide)]
        if train:
            fetches.append(v1.train.AdagradOptimizer(0.1).minimize(loss))
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, fetches[-1])
        else:
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, loss.op)
        return fetches

    return build


def check(built, want, before=(), after=()):
    """Bits are those without the pass; `want`: how often each of TYPES runs in a step."""
    plain = run(built, [*before, PairDots(), *after])
    outcome = run(built, [*before, PairDots(), JoinedPairDots(), *after])
    assert len(plain.values) == len(outcome.values)
    for mine, theirs in zip(outcome.values, plain.values):
        assert mine.tobytes() == theirs.tobytes()
    counts = running(outcome.graph, outcome.graph.get_collection(v1.GraphKeys.TRAIN_OP)[0])
    assert tuple(counts[op_type] for op_type in TYPES) == want
    result = next(result for result in outcome.report.passes if result.name == "joined_pair_dots")
    assert not result.skipped  # It has not failed.
    return result


@pytest.mark.parametrize("batch", [ROWS, None])
def test_both_ways(batch):
    assert check(program(batch), (0, 1, 1, 0, 1)).changes == BOTH


@pytest.mark.parametrize(
    "join, slices",
    [
        (lambda first, dots: tf.concat([dots, first], 1), 1),
        (lambda first, dots: tf.concat([first, dots, first * 2.0], -1), 2),
        (lambda first, dots: tf.concat([dots, tf.ones_like(first)], axis=1), 0),
        (lambda first, dots: tf.concat([tf.stop_gradient(first)] * 2 + [dots], axis=1), 0),
    ],
    ids=["dots first", "in the middle", "beside a constant", "one part twice"],
)
@pytest.mark.parametrize("batch", [ROWS, None])
def test_other_joins(join, slices, batch):
    assert check(program(batch, join), (0, 1, 1, 0, slices)).changes == BOTH


def test_many_parts_that_columns_would_split():
    join = lambda first, dots: tf.concat([first, first * 2.0, dots, tf.sin(first), tf.cos(first)], 1)
    assert check(program(None, join), (0, 1, 1, 0, 4), after=[Columns()]).changes == BOTH


def test_more_parts_than_are_sliced_are_split():
    """From 17 on TensorFlow's gradient is a SplitV, which makes all parts: the join alone is gained."""

    def join(first, dots):
        return tf.concat([*(first * (1.0 + i) for i in range(17)), dots], 1)

    # Its sizes are a Slice of the shapes of all parts, dots among them, unless these are known.
    assert check(program(ROWS, join), (0, 1, 1, 0, 1)).changes == BOTH[:1]
    assert not check(
        program(None, join), (1, 0, 0, 4, 1)
    ).modified  # pair_dots does not know the gradient's shape then.


def test_without_a_gradient():
    assert check(program(train=False), (0, 1, 0, 0, 0)).changes == BOTH[:1]


def test_two_interactions():
    def more(parts, *_):
        wide = tf.concat([dots_of(tf.stack([part * 2.0 for part in parts], 1)), parts[1]], 1)
        return tf.reduce_sum(tf.square(tf.matmul(wide, variable("other", wide.shape[1], 2, 78))))

    changes = check(program(more=more), (0, 2, 2, 0, 2)).changes
    assert changes == [changed.replace("1", "2", 1) for changed in BOTH]


def test_dots_that_are_read_elsewhere_keep_their_tensor():
    def more(_, dots, __):
        scale = v1.get_variable("scale", [], initializer=v1.ones_initializer(), use_resource=True)
        return tf.reduce_sum(tf.stop_gradient(dots) * scale)

    assert check(program(more=more), (1, 0, 1, 1, 1)).changes == BOTH[1:]


def test_a_gradient_that_is_added_to_is_cut_out():
    def more(_, dots, __):
        return tf.reduce_sum(tf.sin(dots))

    result = check(program(more=more), (1, 0, 1, 1, 2))
    assert not result.modified and not result.changes


@pytest.mark.parametrize("read, changes", [(tf.sin, []), (tf.identity, BOTH[1:])], ids=["read", "fetched"])
def test_a_gradient_that_is_read_elsewhere_is_cut_out(read, changes):
    def build():
        parts, stacked = vectors(None)
        dots = dots_of(stacked)
        wide = tf.concat([parts[0], dots], 1)
        loss = tf.reduce_sum(tf.square(tf.matmul(wide, variable("tower", wide.shape[1], 3, 77))))
        of_dots, *others = tf.gradients(loss, [dots, *parts])
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, tf.group(read(of_dots), *others))
        return [loss, wide, of_dots, *others]

    # The other part's Slice reads shapes, dots' among them.
    assert check(build, (1, 0, 1, 1, 2)).changes == changes


@pytest.mark.parametrize(
    "join, slices",
    [
        (lambda first, dots: tf.concat([dots, dots], 1), 2),
        (lambda first, dots: tf.concat([dots, tf.ones_like(dots)], 0), 1),
    ],
    ids=["twice", "below each other"],
)
def test_joins_that_are_left(join, slices):
    # Known sizes, so that the shape of the dots is not read.
    assert not check(program(ROWS, join), (1, 0, 1, 1, slices)).changes


def test_a_join_on_another_device_is_left():
    def join(first, dots):
        with tf.device("/device:CPU:0"):
            return tf.concat([first, dots], 1)

    assert check(program(ROWS, join), (1, 0, 1, 1, 1)).changes == BOTH[1:]


def test_what_leads_back_into_the_join():
    """The other part waits for the dots, so the two cannot be one op."""

    def join(first, dots):
        with tf.control_dependencies([dots.op]):
            return tf.concat([first + 1.0, dots], 1)

    result = check(program(train=False, join=join), (1, 0, 0, 1, 0))
    assert not result.changes and not result.modified


def test_what_xla_compiles_is_left():
    def join(first, dots):
        with tf.xla.experimental.jit_scope():
            return tf.concat([first, dots], 1)

    with tf.Graph().as_default() as graph:
        v1.disable_eager_execution()
        program(train=False, join=join)()
        PairDots().run(GraphView(graph))
        assert not JoinedPairDots().run(GraphView(graph)).modified


def test_where_a_gpu_runs_the_dots_and_not_the_join_both_are_left(monkeypatch):
    """Of TensorFlow's own ops none has a GPU kernel here."""
    gpu_kernels.pretend(monkeypatch)
    with tf.Graph().as_default() as graph:
        program()()
        assert PairDots().run(GraphView(graph)).modified
        assert not JoinedPairDots().run(GraphView(graph)).modified
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            program()()
        PairDots().run(GraphView(graph))
        assert JoinedPairDots().run(GraphView(graph)).changes == BOTH


def test_what_waits_and_is_waited_for():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        fetches = program(None, train=False, wait=lambda: [counter.assign_add(1.0)])()
        wide = next(op for op in v1.get_default_graph().get_operations() if op.type == "ConcatV2")
        with tf.control_dependencies([wide]):
            return [*fetches, tf.identity(counter.read_value())]

    outcome = run(build, [PairDots(), JoinedPairDots()])
    counts = running(outcome.graph, *(op for op in outcome.graph.get_operations() if op.type == "Identity"))
    assert counts["TfBoosterJoinedPairDots"] == 1 and counts["ConcatV2"] == counts["TfBoosterPairDots"] == 0
    assert [outcome.values[i] for i in (2, 5, 8)] == [1.0, 2.0, 3.0]


def test_dots_and_a_part_of_the_gradient_can_be_fetched_still():
    def build():
        fetches = program()()
        ops = v1.get_default_graph().get_operations()
        dots = next(op for op in ops if op.type == "ConcatV2").inputs[1]
        part = next(op for op in ops if op.type == "Slice" and op.outputs[0].shape[-1] == len(BELOW))
        return [*fetches[:2], dots, part.outputs[0], fetches[2]]

    check(build, (0, 1, 1, 0, 1))


def test_a_second_run_changes_nothing():
    nested = lambda first, dots: tf.concat([first, tf.concat([tf.ones_like(first), dots], 1)], 1)
    for join in ({}, {"join": nested}):
        check_second_run(program(**join), [PairDots()], JoinedPairDots())
    with tf.Graph().as_default() as graph:
        program()()
        PairDots().run(GraphView(graph))
        JoinedPairDots().run(GraphView(graph))
        assert not JoinedPairDots().requires(GraphView(graph))


def test_names_lead_back():
    outcome = run(program(), [PairDots(), JoinedPairDots()], steps=1)
    view = GraphView(outcome.graph)
    (made,) = view.ops("TfBoosterJoinedPairDots")
    assert view.originals(made) == [f"MatMul_{FIELDS}", "GatherV2", "concat"]


def test_errors_of_the_ops():
    ops = _native.ops()
    parts, pairs = [np.ones((2, 4), np.float32), np.ones((2, 2, 4), np.float32)], [1, 2]
    given = {"parts": parts, "others": [np.zeros((2, 3), np.float32)], "dim": 4, "pairs": pairs, "order": [1, 0]}
    joined = ops.tf_booster_joined_pair_dots(**given)
    np.testing.assert_array_equal(joined, [[0, 0, 0, 4, 4]] * 2)
    for changed, message in (
        ({"order": [0]}, "order must have each number from 0 to 1 once"),
        ({"order": [0, 0]}, "order must have each number from 0 to 1 once"),
        ({"order": [0, 2]}, "order must have each number from 0 to 1 once"),
        ({"order": [0, -1]}, "order must have each number from 0 to 1 once"),
        ({"others": [np.zeros((3, 3), np.float32)]}, r"others\[0\] has 3 rows, but the vectors have 2"),
        ({"others": [np.zeros(3, np.float32)]}, r"others\[0\] has shape \[3\], wanted rank 2"),
        ({"pairs": [1, 1]}, "pairs has 1, wanted different"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            ops.tf_booster_joined_pair_dots(**{**given, **changed})
    wide = np.arange(10, dtype=np.float32).reshape(2, 5)
    own = ops.tf_booster_pair_dots_grad(gradient=wide[:, 3:], parts=parts, dim=4, pairs=pairs)
    read = ops.tf_booster_pair_dots_grad(gradient=wide, parts=parts, dim=4, pairs=pairs, column=3)
    for mine, theirs in zip(read, own):
        np.testing.assert_array_equal(mine, theirs)
    for shape in ((2, 4), (3, 5), (10,)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"wanted \[2,5\] or more columns"):
            ops.tf_booster_pair_dots_grad(
                gradient=np.ones(shape, np.float32), parts=parts, dim=4, pairs=pairs, column=3
            )


def test_empty_batches():
    ops = _native.ops()
    parts = [np.ones((0, 4), np.float32), np.ones((0, 2, 4), np.float32)]
    given = {"parts": parts, "dim": 4, "pairs": [3, 6, 7]}
    joined = ops.tf_booster_joined_pair_dots(others=[np.zeros((0, 2), np.float32)], order=[1, 0], **given)
    assert joined.shape == (0, 5)
    made = ops.tf_booster_pair_dots_grad(gradient=np.zeros((0, 5), np.float32), column=2, **given)
    assert [part.shape for part in made] == [(0, 4), (0, 2, 4)]
