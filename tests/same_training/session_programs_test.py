"""Programs that make their own graphs and sessions: MonitoredTrainingSession, and graphs that are odd to rewrite."""

import numpy as np
import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, input_fn, records
from training_pair import CLOSE, EXACT, Outcome, assert_no_pass_failed, assert_same, boosted, session_config

import tf_booster
from tf_booster.pipeline.split import split_of
from tf_booster.report import report_of

v1 = tf.compat.v1


def log_loss(labels, logits):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def model(features, widths=(8, 5)):
    """Logits from two lookups, a bag of tags and numbers."""
    ids, tags = v1.get_variable("ids", [NUM_IDS, 4]), v1.get_variable("tags", [NUM_TAGS, 3])
    there = tf.where(features["tags"] >= 0)
    bag = tf.SparseTensor(there, tf.gather_nd(features["tags"], there), tf.shape(features["tags"], tf.int64))
    rows = tf.nn.embedding_lookup(ids, features["id"][:, 0]), tf.nn.embedding_lookup(ids, features["other_id"][:, 0])
    bags = v1.nn.embedding_lookup_sparse(tags, bag, None, combiner="sqrtn")
    # A batch may end with rows without tags, for which embedding_lookup_sparse makes no row.
    bags = tf.pad(bags, [[0, tf.shape(rows[0])[0] - tf.shape(bags)[0]], [0, 0]])
    return dense_model(tf.concat([*rows, tf.reshape(bags, [-1, 3]), features["numbers"]], 1), widths)


def dense_model(hidden, widths=(8, 5)):
    for width in widths:
        hidden = v1.layers.dense(hidden, width, tf.tanh)
    return v1.layers.dense(hidden, 1)


def adam(loss, step=None):
    return v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step or v1.train.get_or_create_global_step())


def next_batch():
    return v1.data.make_one_shot_iterator(input_fn()()).get_next()


def train_monitored(build, steps=60, feeds=None, **session):
    """Builds and trains in a MonitoredTrainingSession; build() gives (what to fetch, the loss first, and the train ops in turn)."""
    with tf.Graph().as_default():
        v1.set_random_seed(3)
        tf.keras.utils.set_random_seed(3)
        v1.train.get_or_create_global_step()
        loss, train_ops = build()
        names = [v.name for v in v1.global_variables()]
        losses = []
        with v1.train.MonitoredTrainingSession(config=session_config(), **session) as monitored:
            for i in range(steps):
                fetches = [loss, train_ops[i % len(train_ops)]]
                losses.append(monitored.run(fetches, feeds(i) if feeds else None)[0])
            reads = [v1.get_default_graph().get_tensor_by_name(f"{n[:-2]}/Read/ReadVariableOp:0") for n in names]
            values = dict(zip(names, monitored.run(reads)))
        report = report_of(v1.get_default_graph())
    return Outcome(np.array(losses), values, report.to_dict() if report else None)


def compare(build, bound=CLOSE, **kwargs):
    plain = train_monitored(build, **kwargs)
    with boosted():
        mine = train_monitored(build, **kwargs)
    assert_no_pass_failed(mine.report)
    assert len(set(plain.losses.tolist())) > 1
    assert_same(plain, mine, bound)
    return mine


def test_monitored_training_session():
    def build():
        features, labels = next_batch()
        loss = log_loss(labels, model(features))
        return loss, [adam(loss)]

    compare(build, steps=100)


def test_updates_that_run_in_turn():
    """As in a GAN: two train ops over disjoint Variables, never in one step, each with slots and a counter of its own."""

    def build():
        features, labels = next_batch()
        with v1.variable_scope("generator"):
            made = v1.layers.dense(v1.layers.dense(features["numbers"], 6, tf.tanh), 3)
        with v1.variable_scope("critic", reuse=v1.AUTO_REUSE):
            judge = lambda x: v1.layers.dense(v1.layers.dense(x, 6, tf.tanh, name="a"), 1, name="b")
            real, fake = judge(features["numbers"]), judge(made)
        critic_loss = log_loss(tf.ones_like(real), real) + log_loss(tf.zeros_like(fake), fake)
        generator_loss = log_loss(tf.ones_like(fake), fake)
        ops = [
            v1.train.AdamOptimizer(0.02, name=scope).minimize(loss, var_list=v1.trainable_variables(scope))
            for scope, loss in (("critic", critic_loss), ("generator", generator_loss))
        ]
        return critic_loss, ops

    compare(build, EXACT)


def test_one_update_that_is_run_by_itself():
    """A train op is grouped from others that the program runs too, alone and before the group."""

    def build():
        features, labels = next_batch()
        loss = log_loss(labels, dense_model(features["numbers"]))
        variables = v1.trainable_variables()
        first = v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=variables[:2])
        rest = v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=variables[2:])
        return loss, [first, rest, tf.group(first, rest)]

    compare(build, EXACT)


def test_features_fed_and_fetched_apart():
    """Fetching what depends on one placeholder must not ask for the other's value."""
    features, labels = records(16 * 20)

    def build():
        placeholders = {name: v1.placeholder(tf.int64, [None], name) for name in ("user", "item")}
        wanted = v1.placeholder(tf.float32, [None, 1], "wanted")
        tables = {name: v1.get_variable(name + "_rows", [NUM_IDS, 4]) for name in placeholders}
        rows = {name: tf.nn.embedding_lookup(tables[name], placeholders[name]) for name in placeholders}
        for name, found in rows.items():
            tf.identity(tf.reduce_sum(found), name + "_sum")
        loss = log_loss(wanted, dense_model(tf.concat(list(rows.values()), 1)))
        return loss, [adam(loss)]

    def feeds(i):
        part = slice(16 * i, 16 * i + 16)
        user, item = features["id"][part, 0], features["other_id"][part, 0]
        return {"user:0": user, "item:0": item, "wanted:0": labels[part]}

    compare(build, steps=20, feeds=feeds)
    with boosted(), tf.Graph().as_default() as graph:
        build()
        with v1.train.MonitoredTrainingSession() as session:
            for name in ("user", "item"):
                total = session.run(graph.get_tensor_by_name(name + "_sum:0"), {name + ":0": [1, 2]})
                rows = session.run(graph.get_tensor_by_name(name + "_rows/Read/ReadVariableOp:0"))
                # The rows begin at random, so their sum may lie near 0.
                np.testing.assert_allclose(total, rows[[1, 2]].sum(), rtol=1e-5, atol=1e-6)


def test_two_towers_whose_batches_are_read_apart():
    """Fetching one tower advances its iterator alone."""

    def run():
        with tf.Graph().as_default():
            v1.set_random_seed(3)
            sums = []
            for name in ("left", "right"):
                features, _ = next_batch()
                sums.append(tf.reduce_sum(tf.nn.embedding_lookup(v1.get_variable(name, [NUM_IDS, 4]), features["id"])))
            loss = sums[0] ** 2 + sums[1] ** 2
            train_op = adam(loss)
            with v1.train.MonitoredTrainingSession(config=session_config()) as session:
                seen = [session.run(sums[0]) for _ in range(3)]
                seen += [session.run([loss, train_op])[0] for _ in range(5)]
                return np.array(seen + [session.run(sums[1])])

    plain = run()
    with boosted():
        np.testing.assert_allclose(run(), plain, rtol=1e-5)


@pytest.fixture(params=["v1", "v2"])
def control_flow(request):
    """tf.cond and tf.while_loop as ops of the graph (v1), or as functions (v2)."""
    was_v2 = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if request.param == "v2" else v1.disable_control_flow_v2)()
    yield
    (v1.enable_control_flow_v2 if was_v2 else v1.disable_control_flow_v2)()


@pytest.mark.usefixtures("control_flow")
def test_lookups_in_loops_and_branches():
    def build():
        features, labels = next_batch()
        table = v1.get_variable("table", [NUM_IDS, 4])
        ids = features["id"][:, 0]
        step = v1.train.get_or_create_global_step()
        chosen = tf.cond(
            step % 2 < 1,
            lambda: tf.nn.embedding_lookup(table, ids),
            lambda: tf.nn.embedding_lookup(table, features["other_id"][:, 0]) * 0.5,
        )
        _, walked = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, total: (i + 1, total + tf.nn.embedding_lookup(table, (ids + tf.cast(i, tf.int64)) % NUM_IDS)),
            [tf.constant(0), tf.zeros_like(chosen)],
        )
        outside = tf.nn.embedding_lookup(table, ids)
        chosen.set_shape([None, 4])
        walked.set_shape([None, 4])
        loss = log_loss(labels, dense_model(tf.concat([chosen, walked, outside], 1)))
        return loss, [v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)]

    compare(build)


@pytest.mark.usefixtures("control_flow")
def test_updates_under_a_condition():
    """The updates run in one branch of a tf.cond, and so not in every step."""

    def build():
        features, labels = next_batch()
        loss = log_loss(labels, dense_model(features["numbers"]))
        step = v1.train.get_or_create_global_step()
        variables = v1.trainable_variables()
        gradients = tf.gradients(loss, variables)
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        with tf.control_dependencies(None):
            optimizer._create_slots(variables)
        optimizer._create_slots = lambda _: None
        update = lambda: tf.group(optimizer.apply_gradients(zip(gradients, variables)))
        with tf.control_dependencies([tf.cond(step % 3 < 2, update, tf.no_op)]):
            return loss, [v1.assign_add(step, 1)]

    compare(build, EXACT)


def test_several_graphs_in_turns():
    """Two graphs with other seeds, both open at once, step in turns."""

    def run():
        sessions, losses = [], []
        for seed in (1, 2):
            with tf.Graph().as_default():
                v1.set_random_seed(seed)
                tf.keras.utils.set_random_seed(seed)
                features, labels = next_batch()
                loss = log_loss(labels, model(features))
                fetches = [loss, adam(loss)]
                sessions.append((v1.train.MonitoredTrainingSession(config=session_config()), fetches))
        for _ in range(10):
            losses += [session.run(fetches)[0] for session, fetches in sessions]
        for session, _ in reversed(sessions):
            session.close()
        return np.array(losses)

    plain = run()
    with boosted():
        np.testing.assert_allclose(run(), plain, rtol=1e-5)


def test_graph_from_a_meta_graph(tmp_path):
    """The training graph comes from import_meta_graph, where Variables are known by collections alone."""
    with tf.Graph().as_default():
        v1.set_random_seed(3)
        tf.keras.utils.set_random_seed(3)
        numbers, ids = v1.placeholder(tf.float32, [None, 3], "numbers"), v1.placeholder(tf.int64, [None], "ids")
        labels = v1.placeholder(tf.float32, [None, 1], "labels")
        rows = tf.nn.embedding_lookup(v1.get_variable("rows", [NUM_IDS, 4]), ids)
        loss = tf.identity(log_loss(labels, dense_model(tf.concat([rows, numbers], 1))), "loss")
        v1.add_to_collection("my_train_op", adam(loss))
        v1.train.export_meta_graph(str(tmp_path / "graph.meta"))
    features, wanted = records(16 * 20)

    def feeds(i):
        part = slice(16 * i, 16 * i + 16)
        return {"numbers:0": features["numbers"][part], "ids:0": features["id"][part, 0], "labels:0": wanted[part]}

    def run():
        with tf.Graph().as_default() as graph:
            v1.train.import_meta_graph(str(tmp_path / "graph.meta"))
            loss, (train_op,) = graph.get_tensor_by_name("loss:0"), v1.get_collection("my_train_op")
            names = [v.name for v in v1.global_variables()]
            with v1.train.MonitoredTrainingSession(config=session_config()) as session:
                losses = [session.run([loss, train_op], feeds(i))[0] for i in range(20)]
                reads = [graph.get_tensor_by_name(f"{n[:-2]}/Read/ReadVariableOp:0") for n in names]
                return Outcome(np.array(losses), dict(zip(names, session.run(reads))))

    plain = run()
    with boosted():
        assert_same(plain, run())


def test_session_that_has_run_before_the_rewrite():
    """A session that ran goes on with TensorFlow's own graph; one that is made after gets the fused one; both are right."""

    def run(rewrite):
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(3)
            tf.keras.utils.set_random_seed(3)
            features, labels = next_batch()
            loss = log_loss(labels, model(features))
            train_op = adam(loss)
            init = v1.global_variables_initializer()
            with v1.Session(config=session_config()) as old:
                old.run(init)
                losses = [old.run([loss, train_op])[0] for _ in range(5)]
                if rewrite:
                    tf_booster.rewrite_graph(graph)
                    assert split_of(graph) is None  # Its batches would be read for a session that runs another graph.
                losses += [old.run([loss, train_op])[0] for _ in range(5)]
            with v1.Session(config=session_config()) as new:
                new.run(init)
                losses += [new.run([loss, train_op])[0] for _ in range(10)]
            return np.array(losses)

    np.testing.assert_allclose(run(True), run(False), rtol=1e-5)


def test_finalized_graph_is_refused_or_left_alone():
    with tf.Graph().as_default() as graph:
        features, labels = next_batch()
        train_op = adam(log_loss(labels, model(features)))
        init = v1.global_variables_initializer()
        before = [op.name for op in graph.get_operations()]
        graph.finalize()
        try:
            tf_booster.rewrite_graph(graph)
        except ValueError as error:
            assert "finalized" in str(error)
        assert [op.name for op in graph.get_operations()] == before
        with v1.Session() as session:
            session.run(init)
            session.run(train_op)


def test_savers_of_before_and_after_the_rewrite(tmp_path):
    """Both save what the fused ops have trained, and restore what they go on from."""
    with tf.Graph().as_default() as graph:
        features, labels = next_batch()
        loss = log_loss(labels, model(features))
        train_op = adam(loss)
        before = v1.train.Saver(name="before")
        tf_booster.rewrite_graph(graph)
        after = v1.train.Saver(name="after")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train_op)
            paths = [saver.save(session, str(tmp_path / name)) for name, saver in (("b", before), ("a", after))]
            readers = [tf.train.load_checkpoint(path) for path in paths]
            names = readers[0].get_variable_to_shape_map()
            assert names == readers[1].get_variable_to_shape_map()
            for name in names:
                np.testing.assert_array_equal(readers[0].get_tensor(name), readers[1].get_tensor(name))
            session.run(train_op)
            before.restore(session, paths[1])
            variables = {v.op.name: session.run(v) for v in v1.global_variables()}
    for name in names:
        np.testing.assert_array_equal(variables[name], readers[0].get_tensor(name))


def test_a_second_rewrite_changes_nothing():
    with tf.Graph().as_default() as graph:
        features, labels = next_batch()
        adam(log_loss(labels, model(features)))
        tf_booster.rewrite_graph(graph)
        once = graph.as_graph_def(add_shapes=False)
        tf_booster.rewrite_graph(graph)
        assert graph.as_graph_def(add_shapes=False) == once


def test_disabled_leaves_the_graph_as_tensorflow_made_it():
    def nodes(enabled):
        with tf.Graph().as_default() as graph:
            tf.keras.utils.set_random_seed(3)
            features, labels = next_batch()
            adam(log_loss(labels, model(features)))
            if enabled:
                tf_booster.enable_gpu_booster()
                tf_booster.disable_gpu_booster()
            with v1.train.MonitoredTrainingSession():
                pass
            return [node for node in graph.as_graph_def().node if not node.name.startswith("save")]

    assert nodes(True) == nodes(False)
