"""What programs do with a session beside plain steps is with pipeline="exact" what it is without: the numbers, the batches, the errors."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, threads, v1
from tensorflow.core.protobuf import config_pb2

import tf_booster
from tf_booster.pipeline.split import split_of

STEPS, ROWS = 9, 4


class Program:
    """A graph and a session. The input: ids, words, one word for all, labels; its assertion is waited for, by the loss alone."""

    def __init__(self, steps=STEPS, initialize=True):
        rng = np.random.RandomState(1)
        data = {
            "ids": rng.randint(0, 20, [steps, ROWS]),
            "words": np.array([[f"w{i % 7}" for i in row] for row in rng.randint(0, 9, [steps, ROWS])]),
            "word": np.array([f"w{step}\0" for step in range(steps)], object),
            "label": rng.rand(steps, ROWS).astype(np.float32),
            "step": np.arange(steps),
        }
        v1.set_random_seed(3)
        self.iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(data))
        self.input = self.iterator.get_next()
        words = tf.lookup.StaticVocabularyTable(
            tf.lookup.KeyValueTensorInitializer([f"w{i}" for i in range(6)], tf.range(6, dtype=tf.int64)), 3
        )
        self.numbers = words.lookup(self.input["words"])
        self.shifted = self.input["ids"] * 2 + self.numbers
        table = tf_booster.get_hash_table("ids", 3, seed=2)
        rows = tf_booster.embedding_lookup(table, self.shifted)
        rows += tf_booster.embedding_lookup(tf_booster.get_hash_table("words", 3, seed=4), self.numbers)
        checked = tf.debugging.assert_less(self.input["ids"], np.int64(100), message="an id is too large")
        with tf.control_dependencies([checked]):
            self.out = tf.reduce_sum(rows * v1.get_variable("w", [3]), 1)
        self.length = tf.cast(tf.strings.length(self.input["word"]), tf.float32)
        self.loss = tf.reduce_mean(tf.square(self.out - self.input["label"])) + 0 * self.length
        self.count = v1.train.get_or_create_global_step()
        self.train = v1.train.AdagradOptimizer(0.2).minimize(self.loss, self.count)
        tf_booster.rewrite_graph()
        self.initializers = [
            v1.global_variables_initializer(),
            v1.local_variables_initializer(),
            v1.tables_initializer(),
        ]
        self.session = v1.Session()
        self.session.run(self.iterator.initializer)
        if initialize:
            self.session.run(self.initializers)

    def step(self, feeds=None):
        """Which step's input a training step took, and its loss."""
        number, loss, _ = self.session.run([self.input["step"], self.loss, self.train], feeds)
        return int(number), loss

    def rest(self):
        """All steps that are left."""
        found = []
        while True:
            try:
                found.append(self.step())
            except tf.errors.OutOfRangeError:
                return found


def validation(program):
    """Another batch, for all of the input."""
    values = {
        "ids": np.arange(ROWS) * 3,
        "words": np.array(["w1", "w2", "none", "w3"], object),
        "word": "all of them",
        "label": np.ones(ROWS, np.float32),
        "step": 77,
    }
    return {program.input[name]: value for name, value in values.items()}


def fed_input(program):
    """A part of the input is fed: of training steps, of others, before the first step too."""
    fed = {program.input["ids"]: np.arange(ROWS), program.input["word"]: b"ab\0"}
    yield program.step(fed)
    yield program.step()
    yield program.session.run([program.input["ids"], program.shifted, program.loss, program.input["step"]], fed)
    yield program.step()
    yield program.step(fed)
    yield program.rest()


def fed_whole_input(program):
    """A batch of the program's own needs none of the input, and takes none."""
    for _ in range(3):
        yield program.session.run([program.loss, program.numbers, program.input["word"]], validation(program))
        yield program.step()
    yield program.session.run([program.loss, program.train], validation(program))
    yield program.rest()


def fed_inside(program):
    """What is computed from the input is fed: it crosses, or only lookups read it."""
    yield program.step()
    yield program.step({program.shifted: np.arange(ROWS) + 5})
    yield program.step({program.numbers: np.arange(ROWS)})
    yield program.session.run([program.loss, program.shifted], {program.numbers: np.arange(ROWS) + 2})
    yield program.rest()


def fed_value_that_an_assertion_refuses(program):
    yield program.step()
    wrong = {**validation(program), program.input["ids"]: np.array([1, 2, 3, 100])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="an id is too large"):
        program.session.run(program.loss, wrong)
    yield program.step()
    yield program.rest()


def partial_runs(program):
    yield program.step()
    for _ in range(2):
        numbers, poison = program.input["step"], program.length
        handle = program.session.partial_run_setup([numbers, program.shifted, program.loss], [poison])
        yield program.session.partial_run(handle, [numbers, program.shifted])
        yield program.session.partial_run(handle, program.loss, {poison: 2.0})
    handle = program.session.partial_run_setup(program.count, [])
    yield program.session.partial_run(handle, program.count)
    yield program.rest()


def callables(program):
    session, number, words = program.session, program.input["step"], program.input["words"]
    call = session.make_callable({"of": [number, program.loss], "train": program.train}, [program.length, words])
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE), v1.RunMetadata()
    plain = session.make_callable([number, program.train], accept_options=True)
    said = config_pb2.CallableOptions(fetch=[number.name, program.loss.name], target=[program.train.name])
    said.feed.append(program.length.name)
    said.tensor_connection.add(from_tensor=tf.ones([ROWS]).name, to_tensor=program.input["label"].name)
    of_options = session._make_callable_from_options(said)
    for _ in range(2):
        yield call(1.0, [b"w1", b"w2", b"w9", b"x"])
        yield plain(options=options, run_metadata=metadata)
        yield of_options(np.float32(2.0))
    assert metadata.step_stats.dev_stats
    yield program.rest()


def train_and_validation_in_turns(program):
    """One iterator, begun anew for each; validation runs the loss alone, to the end of its data or not."""
    for part in (None, 3, None):
        yield program.step()
        yield program.step()
        program.session.run(program.iterator.initializer)
        for _ in range(part or STEPS):
            yield program.session.run([program.loss, program.input["step"]])
        if part is None:
            with pytest.raises(tf.errors.OutOfRangeError):
                program.session.run(program.loss)
        program.session.run(program.iterator.initializer)
    yield program.rest()


def ops_found_in_the_graph(program):
    """Whoever looks through the graph finds the embedding graph's copies too: what is fetched of them, or fed, is that of the step."""
    ops = program.session.graph.get_operations()
    source, doubled = ([op for op in ops if op.type == kind][-1] for kind in ("IteratorGetNext", "LookupTableFindV2"))
    yield program.step()
    for _ in range(2):
        number, found, loss, _ = program.session.run(
            [program.input["step"], source.outputs, program.loss, program.train]
        )
        yield number, found[0], found[-1], loss
        yield program.session.run([source.outputs[0], doubled.outputs[0]])
        yield program.session.run([program.loss, program.train], {source.outputs[1]: np.ones(ROWS)})[0]
        program.session.run(source)
    yield program.rest()


PROGRAMS = [
    ops_found_in_the_graph,
    train_and_validation_in_turns,
    fed_input,
    fed_whole_input,
    fed_inside,
    fed_value_that_an_assertion_refuses,
    partial_runs,
    callables,
]


def seen(mode, program, **kwargs):
    with booster(mode), tf.Graph().as_default() as graph:
        made = Program(**kwargs)
        assert (split_of(graph) is not None) == (mode != "off")
        found = list(program(made))
        made.session.close()
    assert threads() == []
    return found


def assert_equal(one, other):
    flat, wanted = tf.nest.flatten(one), tf.nest.flatten(other)
    assert len(flat) == len(wanted) > 5
    for index, (a, b) in enumerate(zip(flat, wanted)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=str(index))


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_as_without(program):
    assert_equal(seen("exact", program), seen("off", program))


def test_a_look_at_the_input_before_anything_is_initialized():
    def look(program):
        session, given = program.session, program.input
        yield session.run([given["step"], given["words"]])
        yield session.run(given)
        yield session.run(program.length)
        session.run(program.initializers)
        yield session.run([program.numbers, given["step"]])
        yield session.run(program.loss)
        yield program.rest()

    assert_equal(seen("exact", look, initialize=False), seen("off", look, initialize=False))


def test_a_run_that_waits_too_long_for_its_input():
    """Its batch is the next run's."""
    free, asked = threading.Event(), []

    def batches():
        for step in range(4):
            asked.append(step)
            if step == 1:
                free.wait(60)
            yield step

    with booster("exact"), tf.Graph().as_default():
        number = v1.data.make_one_shot_iterator(tf.data.Dataset.from_generator(batches, tf.int64, [])).get_next()
        loss = v1.get_variable("v", []) * tf.cast(number, tf.float32)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        with v1.train.MonitoredTrainingSession() as session:
            assert session.run([number, train])[0] == 0
            for _ in range(2):
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run([number, train], options=v1.RunOptions(timeout_in_ms=50))
            free.set()
            assert [session.run([number, train])[0] for _ in range(3)] == [1, 2, 3]


def test_an_input_with_sparse_tensors():
    """tf.data keeps them as variants: one that the lookups read, one that nothing but a run reads, one that is fed."""

    def run(mode):
        with booster(mode), tf.Graph().as_default():
            v1.set_random_seed(1)
            rng = np.random.RandomState(2)
            dense = rng.randint(0, 20, [STEPS, ROWS, 3]) * (rng.rand(STEPS, ROWS, 3) < 0.6)

            def parse(row):
                return {"tags": tf.sparse.from_dense(row), "other": tf.sparse.from_dense(row + 1), "row": row}

            features = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(dense).map(parse)).get_next()
            table = tf_booster.get_hash_table("tags", 3, seed=2)
            rows = tf_booster.embedding_lookup_sparse(table, features["tags"], combiner="sum")
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - 1.0))
            step = v1.train.AdagradOptimizer(0.2).minimize(loss, v1.train.get_or_create_global_step())
            tf_booster.rewrite_graph()
            assert (split_of(v1.get_default_graph()) is not None) == (mode == "exact")
            seen = []
            with v1.Session() as session:
                session.run([v1.global_variables_initializer(), v1.tables_initializer()])
                fed = {features["tags"].indices: [[0, 1], [2, 0]], features["tags"].values: [7, 3]}
                for feeds in [None, None, fed, None, fed]:
                    seen.append(
                        session.run([loss, features["other"], features["row"], features["tags"].values, step], feeds)
                    )
                seen.append(session.run([features["other"].values]))
                seen.append(session.run([loss, features["row"], step]))
        return seen

    for step, (mine, plain) in enumerate(zip(run("exact"), run("off"))):
        for x, y in zip(tf.nest.flatten(mine), tf.nest.flatten(plain)):
            np.testing.assert_array_equal(x, y, err_msg=f"step {step}")
