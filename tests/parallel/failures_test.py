"""Ranks that hang, and ranks that are not alike: who is told of it, and what."""

import os
import time

import launch
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _native
from tf_booster.parallel import agreement, collectives, progress, ranks, shared_graphs, store, watchdog
from tf_booster.parallel.agreed_time import Agreement

v1 = tf.compat.v1


def hang(rank, size, watchdog, watchdog_abort):
    """Rank 1 stays away from the third run; the job ends because of watchdog_abort."""
    tf_booster.enable_gpu_booster()
    tf_booster.enable_gpu_booster(watchdog=watchdog, watchdog_abort=watchdog_abort)
    with tf.Graph().as_default():
        sums = collectives.all_reduce_packed([tf.constant([1.0 + rank])], "dense", "gradients")
        with v1.train.MonitoredSession() as session:
            for step in range(3):
                if rank == 1 and step == 2:
                    time.sleep(60)
                assert session.run(sums)[0].tolist() == [3.0]


@pytest.mark.parametrize("seconds", [(2, 1), (0, 2)], ids=["named before", "named at the end"])
def test_a_rank_that_hangs_is_named_with_its_collective(seconds):
    begin = time.monotonic()
    ended = launch.outcomes(hang, 2, seconds=100, watchdog=seconds[0], watchdog_abort=seconds[1])
    assert time.monotonic() - begin < 60
    assert ended[0].status == watchdog.EXIT_CODE, ended[0].output
    assert "rank 1 of 2" in ended[0].output and "'tf_booster/dense/gradients'" in ended[0].output
    assert "reached 3 times and it 2 times" in ended[0].output
    assert "failures_test.py:" in ended[0].output and ", in hang" in ended[0].output
    assert ended[0].output.count("hangs:") == 1


def fail(rank, size, folder):
    """Rank 1's part of an evaluation fails, which the program catches."""
    tf_booster.enable_gpu_booster(watchdog=2)

    def model_fn(features, labels, mode):
        score = v1.layers.dense(features["x"], 1)[:, 0]
        loss = tf.reduce_mean((score - labels) ** 2)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, score, loss, train_op)

    def read(bad_row):
        def parsed(i):
            x = tf.debugging.check_numerics(1.0 / tf.cast(i - bad_row, tf.float32), "a bad row")
            return {"x": tf.reshape(x, [1])}, x

        return tf.data.Dataset.range(32).map(parsed).batch(2)

    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(lambda: read(-1), steps=2)
    for bad_row in (5, -1):  # Of rank 1.
        try:
            estimator.evaluate(lambda bad_row=bad_row: read(bad_row))
        except tf.errors.InvalidArgumentError as error:
            assert rank == 1 and "a bad row" in str(error)
            print("caught")
    estimator.train(lambda: read(-1), steps=2)


def test_a_run_that_fails_on_one_rank_and_is_caught_ends_the_job(tmp_path):
    ended = launch.outcomes(fail, 2, seconds=100, folder=str(tmp_path))
    output = "".join(each.output for each in ended)
    assert watchdog.EXIT_CODE in [each.status for each in ended] and "caught" in ended[1].output, output
    assert "rank 1 of 2" in output and "It will not come: its run ended with InvalidArgumentError: " in output
    assert "a bad row" in output and "ends the job: that rank will not come" in output


def fail_to_read(rank, size, folder, called):
    """Rank 1 alone has no input for a call of all ranks, which the program catches there; the others wait to compare inputs."""
    tf_booster.enable_gpu_booster(watchdog=2)

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(v1.layers.dense(features, 1) ** 2)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, features[:, 0], loss, train_op)

    def read():
        return tf.data.Dataset.from_tensors(tf.ones([2, 3])).repeat(4)

    def read_nothing():
        if rank == 1:
            raise FileNotFoundError("no part-1 here")
        return read()

    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(read, steps=2)
    calls = {
        "train": estimator.train,
        "evaluate": estimator.evaluate,
        "predict": lambda input_fn: list(estimator.predict(input_fn)),
    }
    try:
        calls[called](read_nothing)
    except FileNotFoundError:
        print("caught")
    estimator.train(read, steps=2)


@pytest.mark.parametrize("called", ["train", "evaluate", "predict"])
def test_a_rank_without_an_input_ends_the_job_where_it_is_caught(tmp_path, called):
    ended = launch.outcomes(fail_to_read, 2, seconds=100, folder=str(tmp_path), called=called)
    output = "".join(each.output for each in ended)
    assert watchdog.EXIT_CODE in [each.status for each in ended] and "caught" in ended[1].output, output
    assert "It will not come: its run ended with FileNotFoundError: no part-1 here, which was caught there" in output


def end_apart(rank, size, folder, steps):
    tf_booster.enable_gpu_booster()

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(v1.layers.dense(features, 1) ** 2)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    read = lambda: tf.data.Dataset.from_tensors(tf.ones([2, 3])).repeat()
    tf.estimator.Estimator(model_fn, folder).train(read, **{name: 3 + rank for name in steps})


@pytest.mark.parametrize("steps, end", [("steps", "after 3 steps"), ("max_steps", "at step 3")])
def test_ranks_with_other_last_steps_are_told(tmp_path, steps, end):
    ended = launch.outcomes(end_apart, 2, seconds=100, folder=str(tmp_path), steps=[steps])
    assert all(each.error for each in ended)
    assert f"Only rank 0 has: end: {end}" in ended[1].error and "RanksDiffer" in ended[1].error, ended[1].error


class FailsToBegin(v1.train.SessionRunHook):
    """Before the graph is finished."""

    def begin(self):
        raise tf.errors.UnknownError(None, None, "has no cluster")


def fail_before_a_step(rank, size, folder):
    """Where ranks meet in the store rank 0 fails, three times, and all catch it and go on."""
    tf_booster.enable_gpu_booster(watchdog=5)
    errors = []

    def model_fn(features, labels, mode):
        table = tf_booster.get_hash_table("t", embedding_dim=2, initializer=tf.constant_initializer(1.0))
        loss = tf.reduce_sum(tf_booster.embedding_lookup(table, features))
        train_op = v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def inputs():
        return tf.data.Dataset.from_tensors(tf.range(4, dtype=tf.int64)).repeat().unbatch().batch(2)

    def train(model_dir, max_steps, hooks=()):
        try:
            tf.estimator.Estimator(model_fn, model_dir).train(inputs, list(hooks), max_steps=max_steps)
        except (tf.errors.OpError, store.RankFailed) as error:
            errors.append(f"{type(error).__name__}: {error}")

    if rank == 0:
        os.makedirs(f"{folder}/graph.pbtxt")  # No file can be made there.
    train(folder, 2)
    if rank == 0:
        os.rmdir(f"{folder}/graph.pbtxt")
        with open(f"{folder}/file", "w", encoding="utf-8"):
            pass
    train(folder, 4)
    train(f"{folder}/file/in" if rank == 0 else f"{folder}/none", 2)
    train(folder, 6, [FailsToBegin()] if rank == 0 else [])
    loss = tf.estimator.Estimator(model_fn, folder).evaluate(inputs, steps=2)["loss"]
    train(folder, 6)
    saved = tf.train.load_checkpoint(folder)
    return errors, saved.get_tensor("global_step"), float(loss)


def test_what_rank_0_meets_before_a_step_ends_the_training_of_all(tmp_path):
    (errors, step, loss), (others, *there) = launch.values(fail_before_a_step, 2, seconds=100, folder=str(tmp_path))
    assert len(errors) == len(others) == 3, (errors, others)
    assert "graph.pbtxt" in errors[0] and "this call of rank 0's has ended with" in others[0]
    assert "rank 1 waited for rank 0 to save" in others[0] and "graph.pbtxt" in others[0]
    assert (
        "rank 1 waited for rank 0 to open its model_dir, in vain" in others[1]
        and "/file is not a directory" in others[1]
    )
    assert "rank 1 waited for rank 0 to finish its graph" in others[2] and "UnknownError: has no cluster" in others[2]
    assert step == 6 and there == [step, loss]


def fail_before_an_evaluation(rank, size, folder):
    """Rank 0 alone fails before it has finished the graph of an evaluation or prediction, for which rank 1 waits; both catch it and go on."""
    tf_booster.enable_gpu_booster(watchdog=20)

    def model_fn(features, mode):
        table = tf_booster.get_hash_table("t", embedding_dim=2, initializer=tf.constant_initializer(1.0))
        rows = tf_booster.embedding_lookup(table, features)
        loss = tf.reduce_sum(rows)
        train_op = v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, predictions=rows)

    def inputs():
        return tf.data.Dataset.from_tensors(tf.range(6, dtype=tf.int64)).unbatch().batch(1)

    class Fails(v1.train.SessionRunHook):
        def begin(self):
            if rank == 0:
                raise ValueError("no file")

    def tried(call):
        try:
            return call()
        except (ValueError, store.RankFailed) as error:
            return f"{type(error).__name__}: {error}"

    estimator = tf.estimator.Estimator(model_fn, folder)
    evaluate = lambda *hooks: float(estimator.evaluate(inputs, hooks=hooks)["loss"])
    predict = lambda *hooks: len(list(estimator.predict(inputs, hooks=hooks)))
    estimator.train(inputs)
    tries = [tried(lambda: evaluate(Fails())), tried(evaluate), tried(lambda: predict(Fails())), tried(predict)]
    predictions = estimator.predict(inputs)
    first = [next(predictions)] if rank == 0 else []  # The program goes on in the middle of it.
    predictions.close() if rank == 0 else list(predictions)
    estimator.train(inputs)
    return tries, len(first), evaluate()


def test_rank_0_alone_fails_before_an_evaluation(tmp_path):
    of_0, of_1 = launch.values(fail_before_an_evaluation, 2, seconds=100, folder=str(tmp_path))
    (evaluation, *_), first, last = of_0
    assert evaluation == "ValueError: no file" == of_0[0][2] and first == 1
    for found in (of_1[0][0], of_1[0][2]):
        assert "RankFailed: rank 1 waited for rank 0 to finish its graph, in vain" in found and "no file" in found
    assert of_0[0][1] == of_1[0][1] and isinstance(of_0[0][1], float)
    assert (of_0[0][3], of_1[0][3]) == (6, 0) and last == of_1[2]


def start_again(rank, size, folder):
    """Rank 1's file system is away for a moment, for which TensorFlow makes a new session without asking the program."""
    tf_booster.enable_gpu_booster(watchdog=2)

    class Away(v1.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context, run_values):
            self.runs += 1
            if rank == 1 and self.runs == 3:
                raise tf.errors.UnavailableError(None, None, "the name node is away")

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(v1.layers.dense(features, 1) ** 2)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.ones([2, 3])).repeat(), steps=6, hooks=[Away()])


def test_a_rank_that_starts_again_from_a_checkpoint_ends_the_job(tmp_path):
    ended = launch.outcomes(start_again, 2, seconds=100, folder=str(tmp_path))
    output = "".join(each.output for each in ended)
    assert watchdog.EXIT_CODE in [each.status for each in ended], output
    assert (
        "It will not come: its run ended with UnavailableError: the name node is away, which was caught there" in output
    )


def alike(rank, size, folders):
    """Several checks of one start: counts, seeds, a difference of Variables, of options, of folders."""
    tf_booster.enable_gpu_booster()
    found = {}
    with tf.Graph().as_default() as graph:
        total = collectives.all_reduce_packed([tf.constant(1.0)], "other", "counted")
        shared_graphs.share(graph)
        handle = _native.ops().tf_booster_hash_table(
            table_name="t", dim=2, optimizer="", slot_names=[], slot_initial_values=[], field_names=["t"], seeds=[rank],
            initializers=["uniform"], initializer_args=[-1.0, 1.0], min_frequencies=[0], max_rows=[0], evictions=[""],
            eviction_args=[0],
        )  # fmt: skip
        agreement.agree(graph)
        agreement_again = progress.mark_collectives(agreement.GraphView(graph))
        with v1.Session() as session:
            session.run(total)
            session.run(total)
        found["seeds"] = handle.op.get_attr("seeds")
        found["marked again"] = agreement_again
        found["counts"] = progress.counts()["tf_booster/other/counted"]
    for what in ("variables", "order", "options"):
        with tf.Graph().as_default() as graph:
            shared_graphs.share(graph)
            for i in range(2 + (what == "variables" and rank)):
                v1.get_variable(f"v{i}", [2, 3])
            names = ["a", "b"] if what != "order" or rank == 0 else ["b", "a"]
            for name in names:
                collectives.all_reduce_packed([tf.constant(1.0)], "other", name)
            agreement.note_options({"fuse_tables": what != "options" or rank == 0})
            found[what] = _error(lambda graph=graph: agreement.agree(graph))
    # Of saving every so many seconds: ranks that count differently do it after the same runs.
    agreed, begin = Agreement(rank, "save"), time.monotonic()
    found["due"] = []
    for _ in range(60):
        time.sleep(0.02 * (1 + rank))
        found["due"].append(agreed.is_due(lambda: time.monotonic() - begin > 0.5))
    for folder in folders:
        found[folder] = _error(lambda folder=folder: agreement.check_folder(folder.format(rank=rank)))
    assert ranks.current().size == size
    return found


def _error(run):
    try:
        run()
    except agreement.RanksDiffer as error:
        return str(error)
    return ""


def test_ranks_that_are_not_alike_are_told_the_difference(tmp_path, monkeypatch):
    same, other = str(tmp_path / "one"), str(tmp_path / "of-{rank}")
    os.mkdir(tmp_path / "of-1")
    first, second = launch.values(alike, 2, folders=[same, other])
    assert first["seeds"] == second["seeds"] == [0]
    assert first["counts"] == second["counts"] == (2, 2)
    assert first["marked again"] == 0
    assert first["due"] == second["due"] and True in first["due"] and first["due"].count(False) > 30
    assert first["variables"] == first["order"] == first["options"] == ""  # Rank 0's graph is the measure.
    assert "Only rank 1 has: Variable v2: float32 (2, 3)." in second["variables"]
    assert "Only rank 0 has: collective 0: tf_booster/other/a" in second["order"]
    assert "Only rank 1 has: option fuse_tables=False." in second["options"]
    assert first[same] == second[same] == ""
    for found in (first, second):
        assert f"'{tmp_path}/of-0' is not that of rank 1 ('{tmp_path}/of-1')" in found[other]
    assert os.listdir(tmp_path / "one") == os.listdir(tmp_path / "of-0") == []
