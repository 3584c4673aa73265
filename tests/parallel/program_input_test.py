"""Training loops of a program's own over iterators in its graph: each rank reads its part, all end together, nothing is lost or read twice."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.parallel import collectives, graph_iterators, graph_sources, ranks
from tf_booster.parallel.program_input import _of_all
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
RECORDS, BATCH, RATE = 23, 3, 0.1
X = np.random.RandomState(1).randn(RECORDS, 3)
Y = np.random.RandomState(2).randn(RECORDS)
RECORD_BATCHES = [range(i, min(i + 2 * BATCH, RECORDS)) for i in range(0, RECORDS, 2 * BATCH)]


def descended(batches: Any) -> np.ndarray:
    w = np.full(3, 0.5)
    for rows in batches:
        x, y = X[list(rows)], Y[list(rows)]
        w = w - RATE * np.mean(2 * (x @ w - y)[:, None] * x, axis=0)
    return w


def records() -> Any:
    return tf.data.Dataset.from_tensor_slices((np.arange(RECORDS), X, Y))


def train_op(x: Any, y: Any) -> Any:
    w = v1.get_variable("w", [3], tf.float64, v1.constant_initializer(0.5), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - y))
    return v1.train.GradientDescentOptimizer(RATE).minimize(loss, v1.train.get_or_create_global_step()), w


def loop(op: Any, w: Any, read: Any, **session: Any) -> Dict[str, Any]:
    """As most programs have it: `read` are numbers of records."""
    seen: List[Any] = []
    with v1.train.MonitoredTrainingSession(**session) as open_session:
        while not open_session.should_stop():
            step = open_session.run(v1.train.get_global_step())  # Reads nothing, so that it takes no batch.
            numbers, _ = open_session.run([read, op])
            last = open_session.run(w)
            seen.append((int(step), np.ravel(numbers).tolist()))
    return {"seen": seen, "w": last, "notes": v1.get_collection(("tf_booster", "rank_input"))}


def one_shot(folder: str) -> Dict[str, Any]:
    numbers, x, y = v1.data.make_one_shot_iterator(records().batch(BATCH)).get_next()
    return loop(*train_op(x, y), numbers)


def initializable(folder: str) -> Dict[str, Any]:
    iterator = v1.data.make_initializable_iterator(records().batch(BATCH), shared_name="shared")
    numbers, x, y = iterator.get_next()
    op, w = train_op(x, y)
    return loop(op, w, numbers, scaffold=v1.train.Scaffold(local_init_op=iterator.initializer))


def fed_files(folder: str) -> Dict[str, Any]:
    """Files are fed to the initializer, by a hook, and there are fewer than ranks."""
    files = v1.placeholder(tf.string, [None])
    columns = tf.data.experimental.CsvDataset(files, [tf.int64] + [tf.float64] * 4)
    iterator = v1.data.make_initializable_iterator(columns.batch(BATCH))
    numbers, *x, y = iterator.get_next()
    op, w = train_op(tf.stack(x, axis=1), y)

    class Initialize(v1.train.SessionRunHook):
        """Makes an op of the old tensors, when the input is divided already."""

        found: List[int] = []

        def begin(self) -> None:
            self.most = tf.reduce_max(numbers)

        def after_create_session(self, session: Any, coord: Any) -> None:
            session.run(iterator.initializer, {files: [os.path.join(folder, "records.csv")]})

        def before_run(self, run_context: Any) -> Any:
            is_step = isinstance(run_context.original_args.fetches, list)
            return v1.train.SessionRunArgs([self.most] if is_step else [])

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.found.extend(run_values.results)

    result = loop(op, w, numbers, hooks=[Initialize()])
    assert Initialize.found == [max(read) for _, read in result["seen"]]
    return result


def two_iterators(folder: str) -> Dict[str, Any]:
    """Features and labels of two datasets, which a division by different places would take apart."""
    numbers, x = v1.data.make_one_shot_iterator(
        records().map(lambda i, x, y: (i, x)).shuffle(9, seed=3).batch(BATCH)
    ).get_next()
    ys = records().map(lambda i, x, y: y).take(RECORDS).shuffle(9, seed=3).batch(BATCH)
    y = v1.data.make_one_shot_iterator(ys).get_next()
    result = loop(*train_op(x, y), [numbers])
    assert len(result["notes"]) == 2
    return result


def sparse(folder: str) -> Dict[str, Any]:
    """Weighed by rows, though no component of an element is dense."""
    pairs = (
        records()
        .batch(BATCH)
        .map(lambda i, x, y: tf.sparse.from_dense(tf.concat([x, y[:, None], tf.cast(i + 1, tf.float64)[:, None]], 1)))
    )
    element = tf.sparse.to_dense(v1.data.make_one_shot_iterator(pairs).get_next())
    return loop(*train_op(element[:, :3], element[:, 3]), element[:, 4] - 1)


def until_out_of_range(folder: str) -> Dict[str, Any]:
    numbers, x, y = v1.data.make_one_shot_iterator(records().batch(BATCH)).get_next()
    op, w = train_op(x, y)
    steps = 0
    with v1.train.MonitoredTrainingSession() as session:
        try:
            while True:
                session.run(op)
                steps += 1
        except tf.errors.OutOfRangeError:
            pass
        last = session.run(w)
        try:
            session.run(numbers.name)
        except ValueError as error:  # By its name it is the old tensor, which must not run.
            assert "not fetchable" in str(error)
    return {"seen": [(step, []) for step in range(steps)], "w": last}


def without_gradients(folder: str) -> Dict[str, Any]:
    numbers, _, _ = v1.data.make_one_shot_iterator(records().batch(RECORDS)).get_next()
    with v1.train.MonitoredSession() as session:
        read = session.run(numbers)
    return {"seen": [(0, read.tolist())], "notes": v1.get_collection(("tf_booster", "rank_input"))}


def by_seconds(folder: str) -> Dict[str, Any]:
    """Hooks that fetch, now and then, what waits for all ranks; ranks reach the same second at different steps."""
    numbers, x, y = v1.data.make_one_shot_iterator(records().repeat(40).batch(BATCH)).get_next()
    op, w = train_op(x, y)
    (total,) = collectives.all_reduce_packed([tf.reduce_sum(tf.cast(numbers, tf.float32))], "other", "fetched_by_hooks")

    class Own(v1.train.SessionRunHook):
        def __init__(self) -> None:
            self.timer, self.step, self.at = v1.train.SecondOrStepTimer(every_secs=0.3), 0, []

        def before_run(self, run_context: Any) -> Any:
            self.step += 1
            time.sleep(0.012 if (self.step // 50 + ranks.current().rank) % 2 else 0.002)
            self.due = self.timer.should_trigger_for_step(self.step)
            return v1.train.SessionRunArgs([total] if self.due else [])

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if self.due:
                self.timer.update_last_triggered_step(self.step)
                self.at.append(self.step)

    own = Own()
    logging = v1.train.LoggingTensorHook({"total": total}, every_n_secs=0.2)
    steps = 0
    with v1.train.MonitoredTrainingSession(hooks=[own, logging]) as session:
        while not session.should_stop():
            session.run(op)
            steps += 1
    return {"seen": own.at, "steps": steps}


PROGRAMS = [
    by_seconds,
    one_shot,
    initializable,
    fed_files,
    two_iterators,
    sparse,
    until_out_of_range,
    without_gradients,
]


def run_programs(rank: int, size: int, folder: str) -> Dict[str, Any]:
    tf_booster.enable_gpu_booster()
    found = {}
    for program in PROGRAMS:
        with tf.Graph().as_default():
            found[program.__name__] = program(folder)
    tf_booster.disable_gpu_booster()
    tf_booster.enable_gpu_booster(shard_input=False)
    with tf.Graph().as_default():
        mine = records().skip(20 * rank).batch(BATCH)
        numbers, x, y = v1.data.make_one_shot_iterator(mine).get_next()
        found["apart"] = loop(*train_op(x, y), numbers)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    lines = [",".join(map(repr, [i, *X[i].tolist(), Y[i].tolist()])) for i in range(RECORDS)]
    (folder / "records.csv").write_text("\n".join(lines) + "\n")
    return launch.values(run_programs, 2, folder=str(folder))


@pytest.mark.parametrize("name", ["one_shot", "initializable", "fed_files", "sparse", "until_out_of_range"])
def test_a_loop_trains_as_one_process_with_joined_batches(run, name):
    for values in run:
        np.testing.assert_allclose(values[name]["w"], descended(RECORD_BATCHES), rtol=1e-5)
        # A run between the steps has taken no batch.
        assert [step for step, _ in values[name]["seen"]] == list(range(len(RECORD_BATCHES)))
    if name != "until_out_of_range":
        read = sorted(i for values in run for _, numbers in values[name]["seen"] for i in numbers)
        assert read == list(range(RECORDS))


def test_iterators_that_are_read_together_stay_together(run):
    steps = [[n for values in run for n in values["two_iterators"]["seen"][step][1]] for step in range(4)]
    assert sorted(sum(steps, [])) == list(range(RECORDS)) and sorted(sum(steps, [])) != sum(steps, [])
    for values in run:
        np.testing.assert_allclose(values["two_iterators"]["w"], descended(steps), rtol=1e-5)
        assert all("batches" in note for note in values["two_iterators"]["notes"])


def test_hooks_that_act_by_seconds_do_so_after_the_same_step(run):
    first, second = (values["by_seconds"] for values in run)
    assert first == second and first["seen"][0] == 1 and len(first["seen"]) > 2


def test_a_loop_that_trains_nothing_reads_all_and_is_told(run):
    for values in run:
        ((_, read),) = values["without_gradients"]["seen"]
        assert read == list(range(RECORDS))
        assert "nothing is trained" in values["without_gradients"]["notes"][0]


def test_shares_that_the_program_gives_are_trained_to_the_end_of_the_longest(run):
    first, second = (values["apart"] for values in run)
    assert len(first["seen"]) == len(second["seen"]) == 8
    joined = [[*range(i, min(i + BATCH, RECORDS)), *([20, 21, 22] if i == 0 else [])] for i in range(0, RECORDS, BATCH)]
    for values in (first, second):
        np.testing.assert_allclose(values["w"], descended(joined), rtol=1e-5)
        assert "shard_input=False" in values["notes"][0]


def refusal(make: Any) -> str:
    with tf.Graph().as_default() as graph:
        with pytest.raises(graph_iterators.NotDivisible) as refused:
            graph_sources.sources_of(GraphView(graph), make())
    return str(refused.value)


def batches() -> Any:
    return records().batch(BATCH)


def by_handle() -> Any:
    handle = v1.placeholder(tf.string, [])
    one = v1.data.make_one_shot_iterator(batches())
    return v1.data.Iterator.from_string_handle(handle, one.output_types, one.output_shapes).get_next()


def in_turn() -> Any:
    iterator = v1.data.Iterator.from_structure(tf.int64, tf.TensorShape([]))
    iterator.make_initializer(tf.data.Dataset.range(3))
    iterator.make_initializer(tf.data.Dataset.range(4))
    return [iterator.get_next()]


def inside() -> Any:
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    return [tf.cond(v1.placeholder(tf.bool, []), iterator.get_next, lambda: tf.constant(0, tf.int64))]


def queue() -> Any:
    return [v1.train.batch([v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()], 2)]


CANNOT = [
    (by_handle, "IteratorFromStringHandle", "dataset.shard"),
    (in_turn, "reads 2 datasets in turn", "dataset.shard"),
    (inside, "read inside of a function", "outside"),
    (queue, "the queue 'batch/fifo_queue'", "by rank"),
    (lambda: [v1.placeholder(tf.float32, [None, 3], "features")], "feeds 'features'", "x[rank::N]"),
    (lambda: [tf.numpy_function(lambda: np.zeros(3), [], tf.float64)], "Python code makes it", "by rank"),
    (lambda: [tf.random.normal([3])], "from no iterator", "by rank"),
    (lambda: [v1.data.make_one_shot_iterator(batches()).get_next_as_optional().get_value()[0]], "AsOptional", "get_next()"),
]  # fmt: skip


@pytest.mark.parametrize("make, name, remedy", CANNOT)
def test_what_cannot_be_divided_is_told_by_name_with_the_remedy(make, name, remedy):
    told = refusal(make)
    assert name in told and remedy in told


def test_what_trains_must_read_the_same_iterators():
    with tf.Graph().as_default() as graph:
        first, second = (v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next() for _ in range(2))
        w = v1.get_variable("w", [3], use_resource=True)
        view = GraphView(graph)
        assert len(_of_all(view, [(first + second,), (second - first,), (w,)])) == 2
        with pytest.raises(graph_iterators.NotDivisible, match="different iterators"):
            _of_all(view, [(first,), (second,)])
