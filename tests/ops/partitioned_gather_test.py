"""TfBoosterPartitionedGather against tf.nn.embedding_lookup, bit for bit, and updates of parts against those of the whole."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from multi_sparse_apply_test import check_equal, snake
from optimizer_cases import OPTIMIZERS, SPARSE, cases_of

from tf_booster import _native

v1 = tf.compat.v1
CASES, IDS = cases_of(SPARSE)


def sizes_of(rows, parts):
    return [rows // parts + (part < rows % parts) for part in range(parts)]


def split(whole, parts, mod):
    """The parts of `whole` as TensorFlow divides rows among them."""
    if mod:
        return [whole[part::parts] for part in range(parts)]
    return np.split(whole, np.cumsum(sizes_of(len(whole), parts))[:-1])


def joined(parts, mod):
    if not mod:
        return np.concatenate(parts)
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for place, part in enumerate(parts):
        whole[place :: len(parts)] = part
    return whole


def variable(value, name):
    return v1.get_variable(name, initializer=tf.constant(value), use_resource=True)


def gather(tables, ids, mod):
    return _native.ops().tf_booster_partitioned_gather(
        resources=[part.handle for table in tables for part in table],
        indices=ids,
        parts=[len(table) for table in tables],
        mod=mod,
        dtype=tables[0][0].dtype,
    )


def check_gather(shapes, parts, mods, ids, dtype=tf.float32, index=tf.int64, threads=1):
    rng = np.random.RandomState(0)
    with tf.Graph().as_default():
        tables, wanted, fed = [], [], []
        for place, (shape, count, mod, values) in enumerate(zip(shapes, parts, mods, ids)):
            whole = rng.randint(-99, 99, shape).astype(dtype.as_numpy_dtype)
            tables.append([variable(part, f"t{place}/{p}") for p, part in enumerate(split(whole, count, mod))])
            fed.append(tf.constant(values, index))
            lookup = v1.nn.embedding_lookup(tables[-1], fed[-1], "mod" if mod else "div")
            wanted.append((whole, lookup))
        ours = gather(tables, fed, mods)
        config = v1.ConfigProto(intra_op_parallelism_threads=threads)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            for rows, (whole, lookup), values, out in zip(session.run(ours), wanted, ids, ours):
                np.testing.assert_array_equal(rows, whole[np.asarray(values, np.int64)])
                np.testing.assert_array_equal(rows, session.run(lookup))
                assert out.shape.as_list() == list(rows.shape)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64])
@pytest.mark.parametrize("index", [tf.int32, tf.int64])
def test_lookups_of_all_kinds_in_one_op(dtype, index):
    rng = np.random.RandomState(1)
    shapes = [(10, 4), (11, 1), (12, 3), (40,), (9, 2, 5), (13, 16), (8, 33)]
    parts = [3, 2, 4, 7, 9, 1, 5]
    ids = [rng.randint(0, shape[0], size) for shape, size in zip(shapes, [50, (4, 3), 0, (2, 3, 4), 60, 70, (0, 2)])]
    check_gather(shapes, parts, [place % 2 == 0 for place in range(7)], ids, dtype, index)


def test_large_batches_on_threads():
    ids = [np.random.RandomState(i).randint(0, 50000, 100000) for i in range(2)]
    check_gather([(50000, 16), (50000, 7)], [8, 3], [True, False], ids, threads=2)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_number_of_rows_and_parts(data):
    rows = data.draw(st.integers(1, 40))
    parts, mod = data.draw(st.integers(1, rows)), data.draw(st.booleans())
    ids = data.draw(st.lists(st.integers(0, rows - 1), max_size=20))
    check_gather([(rows, 3)], [parts], [mod], [ids])


@pytest.mark.parametrize("bad", [-1, 11, 2**40, -(2**63)])
@pytest.mark.parametrize("mod", [False, True])
def test_an_id_of_no_row_is_an_error(bad, mod):
    with tf.Graph().as_default(), v1.Session() as session:
        whole = np.zeros((11, 2), np.float32)
        table = [variable(part, f"t{p}") for p, part in enumerate(split(whole, 3, mod))]
        (rows,) = gather([table], [tf.constant([3, bad, 4], tf.int64)], [mod])
        session.run(v1.global_variables_initializer())
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"element 1 of indices\[0\] .* is {bad}, .*\[0, 11\)"
        ):
            session.run(rows)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ([(3, 2), (4, 2)], "part 0 of lookup 0 has 3 rows; of 7 rows in 2 parts it should have 4"),
        ([(4, 2), (4, 3)], r"have rows of shapes \[2\] and \[3\]"),
    ],
)
def test_variables_that_are_no_parts_of_a_table(sizes, message):
    with tf.Graph().as_default(), v1.Session() as session:
        table = [variable(np.zeros(size, np.float32), f"t{p}") for p, size in enumerate(sizes)]
        (rows,) = gather([table], [tf.constant([0])], [False])
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(rows)


def test_lists_of_wrong_lengths():
    with tf.Graph().as_default(), v1.Session() as session:
        table = [variable(np.zeros((2, 2), np.float32), f"t{p}") for p in range(3)]
        rows = _native.ops().tf_booster_partitioned_gather(
            resources=[part.handle for part in table],
            indices=[tf.constant([0])],
            parts=[3],
            mod=[False, True],
            dtype=tf.float32,
        )
        session.run(v1.global_variables_initializer())
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="there are 3 resources; parts has 1 entries of together 3, mod 2"
        ):
            session.run(rows)


class Halves:
    """A table whole, and the same in parts; updates of both."""

    def __init__(self, optimizer, flags, rows, dim, parts, mod, distinct=False, apart=False):
        op_name, slots, scalars = optimizer
        keys = ["var", *slots]
        rng = np.random.RandomState(2)
        first = {key: np.full((rows, dim), slots.get(key, 0.0), np.float32) for key in keys}
        first["var"] = rng.standard_normal((rows, dim)).astype(np.float32)
        self.mod = mod
        self.whole = {key: variable(value, f"whole/{key}") for key, value in first.items()}
        self.parts = {
            key: [variable(part, f"part/{key}_{p}") for p, part in enumerate(split(value, parts, mod))]
            for key, value in first.items()
        }
        self.ids, self.grad = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, dim])
        op = getattr(_native.ops(), "tf_booster_multi_sparse_apply_" + op_name)
        rest = {**{k: tf.constant(v, tf.float32) for k, v in scalars.items()}, **flags, "sum_duplicates": bool(slots)}
        as_one = op(
            **{key: [v.handle] for key, v in self.whole.items()},
            indices=[self.ids],
            grad=[self.grad],
            distinct=[distinct],
            **rest,
        )
        groups = [[p] for p in range(parts)] if apart else [list(range(parts))]
        divided = [
            op(
                **{key: [v[p].handle for p in group] for key, v in self.parts.items()},
                indices=[self.ids] * len(group),
                grad=[self.grad] * len(group),
                distinct=[distinct] * len(group),
                part=group,
                parts=[parts] * len(group),
                part_rows=[rows] * len(group),
                mod=[mod] * len(group),
                **rest,
            )
            for group in groups
        ]
        self.steps = [as_one, *divided]

    def check(self, ids, threads=1, steps=3):
        config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            for step in range(steps):
                rng = np.random.RandomState(step)
                grad = rng.standard_normal((len(ids), self.grad.shape[1])).astype(np.float32)
                session.run(self.steps, {self.ids: ids, self.grad: grad})
                whole, parts = session.run([self.whole, self.parts])
                check_equal([whole], [{key: joined(value, self.mod) for key, value in parts.items()}])


@pytest.mark.parametrize("name, flags", [("GradientDescent", {}), *CASES], ids=["GradientDescent", *IDS])
@pytest.mark.parametrize("mod", [False, True], ids=["div", "mod"])
def test_updates_of_parts_are_those_of_the_whole(name, flags, mod):
    for apart in (False, True):
        with tf.Graph().as_default():
            ids = np.random.RandomState(5).randint(0, 41, 300)
            Halves(optimizer(name), flags, 41, 5, 4, mod, apart=apart).check(ids)


def optimizer(name):
    """The fused op's name, slots with their first values, hyperparameters."""
    return (snake(name), *OPTIMIZERS[name][:2])


ADAM = ("adam", {"m": 0.0, "v": 0.0}, {"alpha": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3})
KERAS = ("keras_rms_prop", {"ms": 1.0}, {"lr": 0.1, "rho": 0.9, "epsilon": 1e-3})


@pytest.mark.parametrize("mod", [False, True], ids=["div", "mod"])
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize(
    "kind, flags",
    [(ADAM, {"lazy": False}), (ADAM, {"lazy": True}), (KERAS, {})],
    ids=["adam", "lazy_adam", "rmsprop"],
)
def test_rows_that_move_without_a_gradient(kind, flags, apart, mod):
    with tf.Graph().as_default():
        halves = Halves(kind, flags, 3001, 8, 7, mod, apart=apart)
        halves.check(np.random.RandomState(5).randint(0, 3001, 5000), threads=2)
        halves.check(np.zeros(0, np.int64))


@pytest.mark.parametrize("mod", [False, True], ids=["div", "mod"])
def test_distinct_rows_and_large_batches_on_threads(mod):
    for distinct in (False, True):
        with tf.Graph().as_default():
            rng = np.random.RandomState(1)
            ids = rng.permutation(30000)[:20000] if distinct else rng.randint(0, 30000, 20000)
            Halves(optimizer("Adagrad"), {}, 30000, 16, 8, mod, distinct).check(ids, threads=2, steps=2)


def test_an_index_of_no_row_changes_nothing():
    with tf.Graph().as_default(), v1.Session() as session:
        halves = Halves(optimizer("Adagrad"), {}, 10, 2, 3, True)
        session.run(v1.global_variables_initializer())
        before = session.run(halves.parts)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"index 10 at offset 1 is out of range; wanted \[0, 10\)"
        ):
            session.run(halves.steps[1], {halves.ids: [1, 10], halves.grad: np.ones((2, 2))})
        after = session.run(halves.parts)
        assert all(np.array_equal(a, b) for key in before for a, b in zip(before[key], after[key]))


@pytest.mark.parametrize(
    "given, message",
    [
        (
            dict(part=[0], parts=[2], part_rows=[10], mod=[]),
            "part, parts, part_rows and mod have 1, 1, 1 and 0 entries",
        ),
        (dict(part=[2], parts=[2], part_rows=[10], mod=[True]), "is part 2 of 2 with 10 rows; wanted a part in"),
        (dict(part=[0], parts=[2], part_rows=[9], mod=[True]), "has 4 rows, but is part 0 of 2 of 9 rows; wanted 5"),
    ],
)
def test_parts_that_cannot_be(given, message):
    with tf.Graph().as_default(), v1.Session() as session:
        var = variable(np.zeros((4, 2), np.float32), "v")
        update = _native.ops().tf_booster_multi_sparse_apply_gradient_descent(
            var=[var.handle],
            lr=tf.constant(1.0),
            indices=[tf.constant([0])],
            grad=[tf.ones([1, 2])],
            sum_duplicates=False,
            **given,
        )
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(update)
