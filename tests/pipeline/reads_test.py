"""What a run reads of Variables and tables beside its writes is what was there before the step, as it is in TensorFlow's whole graph."""

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, v1

import tf_booster
from tf_booster.passes.fetches import note_spec
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.split import split_of

STEPS, ROWS = 8, 16


def numbers():
    rng = np.random.RandomState(5)
    data = {
        "x": rng.randn(STEPS * ROWS, 3).astype(np.float32),
        "id": rng.randint(0, 9, STEPS * ROWS),
        "y": rng.rand(STEPS * ROWS, 1).astype(np.float32),
    }
    return tf.data.Dataset.from_tensor_slices(data).batch(ROWS)


class Program:
    """A dense layer, an ordinary embedding and a table; a learning rate that falls with the steps.

    late: reads that begin when milliseconds of products have ended and were looked at, which a step does not wait for.
    """

    def __init__(self, wrap=lambda loss: loss):
        v1.set_random_seed(3)
        self.count = v1.train.get_or_create_global_step()
        features = v1.data.make_one_shot_iterator(numbers()).get_next()
        self.words = v1.get_variable("words", [9, 2])
        self.table = tf_booster.get_hash_table("ids", 2, seed=1)
        rows = [
            tf.nn.embedding_lookup(self.words, features["id"]),
            tf_booster.embedding_lookup(self.table, features["id"]),
        ]
        self.kernel = v1.get_variable("kernel", [7, 1])
        out = tf.concat([features["x"], *rows], 1) @ self.kernel
        self.loss = wrap(tf.reduce_mean(tf.square(out - features["y"])))
        self.rate = v1.train.exponential_decay(0.5, self.count, 2, 0.9)
        self.train = v1.train.AdagradOptimizer(self.rate).minimize(self.loss, self.count)
        square = v1.get_variable("square", [800, 800], initializer=tf.ones_initializer(), trainable=False)
        product = square.read_value()
        for _ in range(3):
            product = tf.matmul(product, square.read_value()) / 800
        known = tf.raw_ops.Assert(condition=tf.reduce_sum(product) > 0, data=["none"])
        with tf.control_dependencies([known]):
            self.late = self.kernel.read_value()
            self.late_size = self.table.size()
            self.late_count = self.count.read_value()
        self.summary = v1.summary.merge(
            [
                v1.summary.histogram("kernel", self.late),
                v1.summary.scalar("loss", self.loss),
                v1.summary.scalar("beside", tf.norm(self.late) * self.loss),
            ]
        )


def runs(program, fetches):
    """What each step fetches, after what the same fetches give in a run before it: [before, of the step]."""
    with v1.train.MonitoredTrainingSession() as session:
        split = split_of(session.graph) is not None
        plain = session._tf_sess()
        found = []
        while True:
            before = plain.run(fetches)
            try:
                found.append((before, session.run([fetches, program.train])[0]))
            except tf.errors.OutOfRangeError:
                break
    assert len(found) == STEPS
    return split, found


def test_late_reads_see_what_was_there_before_the_step():
    """Without an order they begin long after the update."""
    with booster("exact"), tf.Graph().as_default():
        program = Program()
        split, found = runs(program, [program.late, program.late_size, program.late_count])
        assert split
    for step, (before, seen) in enumerate(found):
        np.testing.assert_array_equal(seen[0], before[0], err_msg=f"kernel, step {step}")
        assert seen[1:] == before[1:] and seen[2] == step
    assert len({seen[0].tobytes() for _, seen in found}) == STEPS and found[-1][1][1] == 9


def test_what_is_fetched_again_and_again_is_kept_from_the_updates():
    """A fetched value may be the memory of the Variable itself."""
    with booster("exact"), tf.Graph().as_default():
        program = Program()
        with v1.train.MonitoredTrainingSession() as session:
            seen = []
            while not session.should_stop():
                kernel, words, _ = session.run([program.kernel, program.words, program.train])
                seen.append((kernel, kernel.copy(), words, words.copy()))
    for kernel, kernel_then, words, words_then in seen:
        np.testing.assert_array_equal(kernel, kernel_then)
        np.testing.assert_array_equal(words, words_then)
    assert len({words.tobytes() for _, _, words, _ in seen}) == len(seen) == STEPS


def test_summaries_with_the_batch_and_late_reads():
    """One text of reads and of the batch: histograms of Variables, the loss, and both in one number."""
    texts = {}
    for mode in ("apart", "exact"):
        with booster("exact"), tf.Graph().as_default():
            program = Program()
            texts[mode] = []
            with v1.train.MonitoredTrainingSession() as session:
                plain = session._tf_sess()
                while not session.should_stop():
                    feeds = {program.late: plain.run(program.late)} if mode == "apart" else {}
                    texts[mode].append(session.run([program.summary, program.train], feeds)[0])
    assert texts["exact"] == texts["apart"] and len(set(texts["exact"])) == STEPS


def test_hooks_and_summaries_of_an_estimator(tmp_path):
    """LoggingTensorHook, histograms, a learning rate and the counter, at each step."""

    def model_fn(features, labels, mode):
        del labels
        hidden = v1.layers.dense(features["x"], 4, tf.tanh, name="hidden")
        words = v1.get_variable("words", [9, 2])
        hidden = tf.concat([hidden, tf.nn.embedding_lookup(words, features["id"])], 1)
        loss = tf.reduce_mean(tf.square(v1.layers.dense(hidden, 1) - features["y"]))
        rate = v1.train.exponential_decay(0.5, v1.train.get_global_step(), 2, 0.9)
        v1.summary.scalar("rate", rate)
        optimizer = v1.train.AdagradOptimizer(rate)
        pairs = optimizer.compute_gradients(loss)
        for gradient, variable in pairs:
            v1.summary.histogram("gradient/" + variable.op.name, gradient)
            v1.summary.histogram(variable.op.name, variable)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizer.apply_gradients(pairs, v1.train.get_global_step())
        )

    class Before(v1.train.SessionRunHook):
        """What there is before each step, read in a run that writes nothing."""

        def begin(self):
            self.seen = []
            self._wanted = {v.op.name: v.value() for v in v1.trainable_variables()}
            self._wanted["step"] = v1.train.get_global_step().value()

        def before_run(self, run_context):
            self.seen.append(run_context.session.run(self._wanted))

    logged, before = [], Before()

    def formatter(values):
        logged.append({name: np.copy(value) for name, value in values.items()})
        return ""

    tensors = {"words": "words/Read/ReadVariableOp:0", "step": "global_step/Read/ReadVariableOp:0"}
    hook = v1.train.LoggingTensorHook(tensors, every_n_iter=1, formatter=formatter)
    with booster("exact"):
        config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=7, save_summary_steps=1)
        tf.estimator.Estimator(model_fn, config=config).train(numbers, hooks=[before, hook])
    assert len(logged) == STEPS
    for step, (values, wanted) in enumerate(zip(logged, before.seen)):
        np.testing.assert_array_equal(values["words"], wanted["words"], err_msg=f"step {step}")
        assert values["step"] == wanted["step"] == step
    checked = set()
    for path in sorted(tmp_path.glob("events*")):
        for event in v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                name = value.tag[:-2] if value.tag.endswith("_1") else value.tag
                if value.tag == "rate":
                    assert value.simple_value == pytest.approx(0.5 * 0.9 ** ((event.step - 1) / 2))
                elif name in before.seen[0]:
                    assert value.histo.sum == pytest.approx(before.seen[event.step - 1][name].sum(dtype=np.float64))
                    checked.add((event.step, name))
    assert len(checked) == STEPS * (len(before.seen[0]) - 1)


def test_a_loss_whose_gradient_does_not_wait_for_its_reads():
    """d(x + bias)/d bias is 1: the update waits for no read of the bias, so the loss could see it updated."""
    with booster("exact"), tf.Graph().as_default():
        features = v1.data.make_one_shot_iterator(numbers()).get_next()
        bias = v1.get_variable("bias", [3])
        loss = tf.reduce_mean(features["x"] + bias)
        train = v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_or_create_global_step())
        note_spec(v1.get_default_graph(), tf.estimator.EstimatorSpec("train", loss=loss, train_op=train))
        tf_booster.rewrite_graph()
        split = split_of(v1.get_default_graph())
        (read,) = [op for op in split.dequeue.control_inputs if op.type == "ReadVariableOp"]
        assert read.inputs[0] is bias.handle


def test_a_step_that_fetches_no_read_does_none():
    """Runs of the session for one step: one, and two with a read of a Variable."""
    with booster("exact"), tf.Graph().as_default():
        program = Program()
        with v1.train.MonitoredTrainingSession() as session:
            session.run(program.train)
            driver = driver_of(session._tf_sess())
            asked = []
            original = driver._run_again

            def counted(known, name, targets, fetches, *rest):
                if split_of(session.graph).enqueue not in targets:
                    asked.append([tensor.name for tensor in fetches])
                return original(known, name, targets, fetches, *rest)

            driver._run_again = counted
            session.run([program.loss, program.count, program.rate, program.train])
            assert len(asked) == 1
            session.run([program.loss, program.kernel, program.train])
            assert asked[1:] == [["kernel/Read/ReadVariableOp:0"], ["Mean:0"]]


def test_a_second_session_on_the_graph_of_an_evaluation_restores(tmp_path):
    """What a Saver writes waits for no read of the counter of steps, which is not there yet."""
    config = v1.ConfigProto(inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True

    def rows(times):
        ids = v1.data.make_one_shot_iterator(tf.data.Dataset.range(8).repeat(times).batch(4)).get_next()
        return tf.reduce_sum(tf.nn.embedding_lookup(v1.get_variable("w", [8, 2]), ids) * v1.get_variable("k", [2]), 1)

    with booster("exact"):
        with tf.Graph().as_default():
            loss, count = tf.reduce_mean(tf.square(rows(None) - 1)), v1.train.get_or_create_global_step()
            train = v1.train.AdagradOptimizer(0.1).minimize(loss, count)
            hooks = [v1.train.StopAtStepHook(4)]
            with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks, config=config) as session:
                while not session.should_stop():
                    session.run(train)
        with tf.Graph().as_default():
            values, _ = rows(1), v1.train.get_or_create_global_step()
            found = []
            for _ in range(2):
                creator = v1.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path), config=config)
                with v1.train.MonitoredSession(creator) as session:
                    found.append([])
                    while not session.should_stop():
                        found[-1] += session.run(values).tolist()
    assert found[0] == found[1] and len(found[0]) == 8
