"""Tables over two ranks: uneven and ended inputs, sums, limits, what is asked of a table, lookups without training."""

import equal_training as equal
import launch
import numpy as np
import pytest
import table_training
import tensorflow as tf

import tf_booster
from tf_booster.parallel import row_weights

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def found():
    """What each rank returned, by case."""
    first, second = launch.values(all_cases, 2, seconds=300)
    return {name: (first[name], second[name]) for name in first}


def all_cases(rank, size):
    cases = (
        uneven_rows,
        summed_loss,
        rows_above_a_limit,
        questions,
        evaluation,
        evicted,
        users_optimizer,
        distinct_ids,
    )
    return {case.__name__: case(rank, size) for case in cases}


ROWS = [(8, 8), (8, 3), (2, 5), (8, 0), (4, 0), (8, 0)]  # Of each rank's batches; 0: its input has ended.


def weighted_program(features):
    loss = table_training.mean_loss(features)
    gradients, variables = zip(*v1.train.AdagradOptimizer(0.2).compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 0.05)
    return loss, v1.train.AdagradOptimizer(0.2).apply_gradients(zip(clipped, variables))


def uneven_rows(rank, size):
    """Batches of other sizes, and one that repeats when its rank's input has ended, which then must not count."""
    data = table_training.records(size, len(ROWS))
    batch = equal.BATCH
    own = {
        name: [v[i, rank * batch :][: max(rows[rank], 1)] for i, rows in enumerate(ROWS)] for name, v in data.items()
    }
    joined = {
        name: [np.concatenate([v[i, r * batch :][: rows[r]] for r in range(size)]) for i, rows in enumerate(ROWS)]
        for name, v in data.items()
    }
    tf.enable_gpu_booster(seed=3)
    rows = np.array([float(step[rank]) for step in ROWS], np.float32)

    def build(features):
        weights = row_weights.RowWeights(features["rows"], tf.constant(1.0))
        row_weights.register(tf.compat.v1.get_default_graph(), weights)
        return weighted_program(features)

    result = table_training.train(build, {**own, "rows": rows})
    # The same graph: random operations have seeds that depend on their place in it.
    return result, table_training.alone(build, {**joined, "rows": rows}, seed=3) if rank == 0 else None


def summed_loss(rank, size):
    def build(features):
        logits = table_training.logits_of(features)
        loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits))
        return loss, equal.minimize(v1.train.AdagradOptimizer(0.05), "global norm", loss)

    data = table_training.records(size, 6)
    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster(seed=3, gradient_reduction="sum")
    result = table_training.train(build, equal.part(data, rank, size))
    return result, table_training.alone(build, data, seed=3) if rank == 0 else None


def one_table(ids, **settings):
    rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4, **settings), ids)
    return rows, v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(rows))


def rows_above_a_limit(rank, size):
    """Each rank brings two ids of its own a step; the whole table may have ten."""
    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster()
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None])
        _, train_op = one_table(ids, max_rows=10)
        size_op = tf_booster.get_hash_table("t", 4, max_rows=10).size()
        tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(2):
                session.run(train_op, {ids: [100 * rank + 2 * step, 100 * rank + 2 * step + 1]})
            session.run(train_op, {ids: [7777, 8888]})  # The same ones on both: 10 in all.
            before = session.run(size_op)
            try:
                session.run(train_op, {ids: [9999] if rank == 0 else [100]})
                said = ""
            except tf.errors.ResourceExhaustedError as error:
                said = error.message
            return before, said, session.run(size_op)


def questions(rank, size):
    """size() and export() tell of the whole table, whether they were asked before the rewrite or after."""
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None])
        _, train_op = one_table(ids)
        table = tf_booster.get_hash_table("t", 4)
        before = table.size(), table.export().keys, table.export().values
        tf_booster.rewrite_graph()
        after = table.size(), table.export().keys, table.export().slots["accumulator"]
        refused = ""
        try:
            table.find(tf.constant([1], tf.int64))
        except ValueError as error:
            refused = str(error)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(train_op, {ids: [1, 2, 3] if rank == 0 else []})
            none = session.run(train_op, {ids: []})
            session.run(train_op, {ids: [3, 4, -5]})
            return session.run(before), session.run(after), refused, none


def evaluation(rank, size):
    """Lookups without an update take two collectives, and give an unknown id's initial value on any number of ranks."""
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None])
        rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4, seed=5), ids)
        report = tf_booster.rewrite_graph()
        with v1.Session() as session:
            values = session.run(rows, {ids: [1, 2, 3] if rank else [3, 4]})
        return values, report.to_dict()["collectives_per_step"]["tables"]


def evicted(rank, size):
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None])
        eviction = {"max_rows": 5, "order": "lru"}
        _, train_op = one_table(ids, eviction=eviction)
        total = tf_booster.get_hash_table("t", 4, eviction=eviction).size()
        report = tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(10):
                session.run(train_op, {ids: np.arange(6 * step, 6 * step + 6)})
            return session.run(total), str(report)


def users_optimizer(rank, size):
    """The same training with hvd.DistributedOptimizer around the optimizer, and without."""
    import horovod.tensorflow as hvd

    found = []
    for wrap in (hvd.DistributedOptimizer, lambda optimizer: optimizer):
        with tf.Graph().as_default():
            ids = v1.placeholder(tf.int64, [None])
            rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4, seed=2), ids)
            train_op = wrap(v1.train.AdagradOptimizer(0.1)).minimize(tf.reduce_mean((rows - 1) ** 2))
            tf_booster.rewrite_graph()
            whole = tf_booster.get_hash_table("t", 4, seed=2).export()
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                for step in range(5):
                    session.run(train_op, {ids: [step + rank, step + 1, 5]})
                keys, values = session.run([whole.keys, whole.values])
            found.append(values[np.argsort(keys)])
    return found


def distinct_ids(rank, size):
    """The program makes ids distinct in front of the lookup; clipping is not linear."""

    def build(features):
        distinct, places = tf.unique(features["id"])
        rows = tf.gather(tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), distinct), places)
        loss = tf.reduce_mean((rows - features["label"][:, None]) ** 2)
        return loss, equal.minimize(v1.train.AdagradOptimizer(0.1), "value", loss)

    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster(seed=3)
    data = {name: values for name, values in table_training.records(size, 6).items() if name in ("id", "label")}
    result = table_training.train(build, equal.part(data, rank, size))
    return result, table_training.alone(build, data, seed=3) if rank == 0 else None


def test_gradients_are_weighted_by_rows_and_an_ended_input_does_not_count(found):
    (first, joined), (second, _) = found["uneven_rows"]
    wrong = table_training.differences(joined, [first, second])
    assert wrong.pop("losses")  # A mean over its own rows is what each rank reports.
    assert wrong == {}


def test_a_loss_that_is_a_sum_is_summed_over_ranks(found):
    (first, joined), (second, _) = found["summed_loss"]
    assert table_training.differences(joined, [first, second], total="sum") == {}


def test_max_rows_holds_over_all_ranks_and_all_fail_together(found):
    for before, said, after in found["rows_above_a_limit"]:
        assert before == after == 10
        assert "'t': the table has 10 rows on 2 ranks and needs 1 more, above its limit max_rows=10" in said


def test_size_and_export_are_of_the_whole_table(found):
    for before, after, refused, _ in found["questions"]:
        assert before[0] == after[0] == 5
        assert sorted(before[1].tolist()) == sorted(after[1].tolist()) == [-5, 1, 2, 3, 4]
        assert before[2].shape == after[2].shape == (5, 4)
        assert "Table 't': find() is about keys that live on other ranks too" in refused
    (first, *_), (second, *_) = found["questions"]
    np.testing.assert_array_equal(first[2], second[2])


def test_evaluation_looks_up_by_two_collectives(found):
    (first, collectives), (second, _) = found["evaluation"]
    assert collectives == 2
    np.testing.assert_array_equal(first[0], second[2])
    assert len({tuple(row) for row in np.concatenate([first, second])}) == 4


def test_eviction_to_a_number_of_rows_is_shared_out_and_named_as_not_exact(found):
    for (total, report), own in zip(found["evicted"], (3, 2)):
        assert total == 5
        assert f"eviction to 5 rows is not exact: each of 2 ranks keeps its share of {own}" in report


def test_the_programs_own_distributed_optimizer_is_left_out_of_a_tables_gradient(found):
    for by_user, by_us in found["users_optimizer"]:
        assert by_user.shape == (6, 4)
        np.testing.assert_array_equal(by_user, by_us)


def test_ids_that_the_program_makes_distinct_are_those_of_the_joined_batch(found):
    (first, joined), (second, _) = found["distinct_ids"]
    wrong = table_training.differences(joined, [first, second])
    assert wrong.pop("t frequencies")
    assert wrong == {}
    assert "the program makes ids distinct itself" in str(first["report"])
