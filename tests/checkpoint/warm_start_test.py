"""init_from_checkpoint and WarmStartSettings with tables: rows come from the checkpoint at the start of training alone."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
WarmStartSettings = tf.estimator.WarmStartSettings
IDS = [3, 5, 5, -8]


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def input_fn(ids=IDS):
    ids = np.asarray(ids, np.int64)[:, None]
    labels = np.linspace(0.0, 1.0, len(ids), dtype=np.float32)[:, None]
    return tf.data.Dataset.from_tensors(({"user": ids}, labels))


def endless():
    return input_fn().repeat()


def make_model_fn(
    scope="", name="user_emb", dim=3, init=None, optimizer=None, column=False, scaffold=None, names=(), seed=None
):
    """A model of one table under `scope`, and a dense layer; `init(table)` runs where users call init_from_checkpoint."""

    def model_fn(features, labels, mode):
        with v1.variable_scope(scope or v1.get_variable_scope()):
            if column:
                user = tf_booster.feature_column.categorical_column_with_hash_table("user")
                rows = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(user, dim)])
                table = None
            else:
                table = tf_booster.get_hash_table(name, dim, seed=seed if seed is not None else len(scope))
                rows = tf_booster.embedding_lookup(table, features["user"][:, 0])
            for other in names:
                rows += tf_booster.embedding_lookup(tf_booster.get_hash_table(other, dim), features["user"][:, 0])
            out = v1.layers.dense(rows, 1, name="dense")
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"rows": rows, "out": out})
        loss = tf.reduce_mean(tf.square(out - labels))
        if init:
            init(table)
        train_op = (optimizer or v1.train.AdagradOptimizer)(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold() if scaffold else None)

    return model_fn


def estimator(model_dir, *args, warm_start_from=None, **kwargs):
    return tf.estimator.Estimator(make_model_fn(*args, **kwargs), str(model_dir), warm_start_from=warm_start_from)


@pytest.fixture
def trained(tmp_path):
    """A model trained for three steps: rows of -8, 3 and 5."""
    made = estimator(tmp_path / "trained", scope="old")
    made.train(endless, steps=3)
    return made


def rows(made, name="user_emb"):
    keys = made.get_variable_value(f"{name}/keys")
    values = made.get_variable_value(f"{name}/values")
    frequencies = made.get_variable_value(f"{name}/frequencies")
    return {int(k): (v.tobytes(), int(f)) for k, v, f in zip(keys, values, frequencies)}


def after_zero_steps(made):
    """The rows that training starts with: at a learning rate of 0 a step counts, and changes no row."""
    made.train(lambda: input_fn([77]), steps=1)
    return made


def zero_rate(_):
    return v1.train.GradientDescentOptimizer(0.0)


MAPS = {
    "scope to scope": lambda t: {"old/": "new/"},
    "name to name": lambda t: {"old/user_emb": "new/user_emb"},
    "name with keys": lambda t: {"old/user_emb/keys": "new/user_emb"},
    "names with values": lambda t: {"old/user_emb/values": "new/user_emb/values"},
    "name to table": lambda t: {"old/user_emb": t},
    "name to Variable": lambda t: {"old/user_emb": t.variable},
    "name to list of Variables": lambda t: {"old/user_emb": [t.variable]},
    "pairs": lambda t: [("old/user_emb", "new/user_emb"), ("old/dense/", "new/dense/")],
    "table and scope": lambda t: {"old/user_emb": t, "old/dense/": "new/dense/"},
}


@pytest.mark.parametrize("how", MAPS)
def test_init_from_checkpoint(trained, tmp_path, how):
    def init(table):
        v1.train.init_from_checkpoint(trained.model_dir, MAPS[how](table))

    made = after_zero_steps(estimator(tmp_path / "new", scope="new", init=init, optimizer=zero_rate))
    want = rows(trained, "old/user_emb")
    found = rows(made, "new/user_emb")
    assert found.pop(77)[1] == 1
    assert found == want and sorted(want) == [-8, 3, 5]
    assert want[5][1] == 6
    same = (made.get_variable_value("new/dense/kernel") == trained.get_variable_value("old/dense/kernel")).all()
    assert same == (how in ("scope to scope", "pairs", "table and scope"))
    # The seed comes along, so a key that neither has seen starts at the same value in a table of the same name.
    assert made.get_variable_value("new/user_emb/seed") == len("old")


def test_init_from_root(tmp_path):
    trained = estimator(tmp_path / "trained")
    trained.train(endless, steps=2)

    def init(_):
        v1.train.init_from_checkpoint(trained.model_dir, {"/": "new/"})

    made = after_zero_steps(estimator(tmp_path / "new", scope="new", init=init, optimizer=zero_rate))
    assert rows(made, "new/user_emb").items() > rows(trained).items()
    assert (made.get_variable_value("new/dense/kernel") == trained.get_variable_value("dense/kernel")).all()


def test_a_checkpoint_file_instead_of_a_folder(trained, tmp_path):
    def init(table):
        v1.train.init_from_checkpoint(trained.latest_checkpoint(), {"old/user_emb": table})

    made = after_zero_steps(estimator(tmp_path / "new", init=init, optimizer=zero_rate))
    assert rows(made).items() > rows(trained, "old/user_emb").items()


def test_two_tables_from_one(trained, tmp_path):
    def init(_):
        v1.train.init_from_checkpoint(trained.model_dir, [("old/user_emb", "user_emb"), ("old/user_emb", "other")])

    made = after_zero_steps(estimator(tmp_path / "new", init=init, optimizer=zero_rate, names=["other"]))
    assert rows(made).items() > rows(trained, "old/user_emb").items()
    assert rows(made, "other").items() > rows(trained, "old/user_emb").items()


def test_resuming_does_not_start_again(trained, tmp_path):
    def init(table):
        v1.train.init_from_checkpoint(trained.model_dir, {"old/user_emb": table})

    made = estimator(tmp_path / "new", init=init)
    made.train(endless, steps=2)
    before = rows(made)
    again = estimator(tmp_path / "new", init=init, optimizer=zero_rate)
    again.train(lambda: input_fn([77]), steps=1)
    after = rows(again)
    assert after.pop(77)
    assert after == before


def test_a_users_own_init_op(trained, tmp_path):
    def init(table):
        v1.train.init_from_checkpoint(trained.model_dir, {"old/user_emb": table})

    made = estimator(
        tmp_path / "new",
        init=init,
        optimizer=zero_rate,
        scaffold=lambda: v1.train.Scaffold(init_op=v1.global_variables_initializer()),
    )
    assert rows(after_zero_steps(made)).items() > rows(trained, "old/user_emb").items()


def test_a_model_that_asks_in_every_mode(trained, tmp_path):
    def model_fn(features, labels, mode):
        table = tf_booster.get_hash_table("user_emb", 3)
        v1.train.init_from_checkpoint(trained.model_dir, {"old/user_emb": table})
        out = tf.reduce_sum(tf_booster.embedding_lookup(table, features["user"]), [1, 2])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"out": out})
        loss = tf.reduce_mean(tf.square(out - labels))
        train_op = v1.train.AdagradOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def receiver():
        features = {"user": v1.placeholder(tf.int64, [None, 1])}
        return tf.estimator.export.ServingInputReceiver(features, features)

    made = tf.estimator.Estimator(model_fn, str(tmp_path / "new"))
    made.train(endless, steps=3)
    made.evaluate(input_fn)
    trained_rows = rows(made)
    assert trained_rows[3] != rows(trained, "old/user_emb")[3]
    want = [p["out"] for p in made.predict(input_fn)]
    loaded = tf.saved_model.load(tf.compat.as_str(made.export_saved_model(str(tmp_path / "export"), receiver)))
    got = loaded.signatures["serving_default"](user=tf.constant(IDS, tf.int64)[:, None])["out"]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(want, [np.frombuffer(trained_rows[i][0], np.float32).sum() for i in IDS], rtol=1e-5)


def test_a_feature_columns_table(tmp_path):
    name = "input_layer/user_embedding/embedding_weights"
    trained = estimator(tmp_path / "trained", column=True)
    trained.train(endless, steps=2)

    def init(_):
        v1.train.init_from_checkpoint(trained.model_dir, {"/": "new/"})

    made = after_zero_steps(estimator(tmp_path / "new", scope="new", column=True, init=init, optimizer=zero_rate))
    assert sorted(rows(trained, name)) == [-8, 3, 5]
    assert rows(made, f"new/{name}").items() > rows(trained, name).items()


WARM_STARTS = {
    "path": lambda path: path,
    "all": lambda path: WarmStartSettings(path),
    "regex": lambda path: WarmStartSettings(path, vars_to_warm_start=".*user.*"),
    "list of regexes": lambda path: WarmStartSettings(path, vars_to_warm_start=[".*user.*", "dense"]),
}


@pytest.mark.parametrize("how", WARM_STARTS)
@pytest.mark.parametrize("column", [False, True], ids=["", "column"])
def test_warm_start_settings(tmp_path, how, column):
    name = "input_layer/user_embedding/embedding_weights" if column else "user_emb"
    trained = estimator(tmp_path / "trained", column=column)
    trained.train(endless, steps=2)
    made = estimator(
        tmp_path / "new",
        column=column,
        warm_start_from=WARM_STARTS[how](trained.model_dir),
        optimizer=zero_rate if how != "list of regexes" else None,
    )
    after_zero_steps(made)
    assert rows(made, name).items() > rows(trained, name).items()
    same = (made.get_variable_value("dense/kernel") == trained.get_variable_value("dense/kernel")).all()
    assert same == (how in ("path", "all"))


def test_warm_start_under_another_name(trained, tmp_path):
    settings = WarmStartSettings(
        trained.model_dir, vars_to_warm_start="user_emb", var_name_to_prev_var_name={"user_emb": "old/user_emb"}
    )
    made = after_zero_steps(estimator(tmp_path / "new", warm_start_from=settings, optimizer=zero_rate))
    assert rows(made).items() > rows(trained, "old/user_emb").items()


def test_keys_that_neither_has_seen_start_at_the_same_values(tmp_path):
    trained = estimator(tmp_path / "trained", seed=1)
    trained.train(endless, steps=1)
    made = estimator(tmp_path / "new", seed=2, warm_start_from=trained.model_dir, optimizer=zero_rate)
    after_zero_steps(made)
    cold = after_zero_steps(estimator(tmp_path / "cold", seed=2))
    unseen = [next(e.predict(lambda: input_fn([123])))["rows"] for e in (trained, made, cold)]
    np.testing.assert_array_equal(unseen[0], unseen[1])
    assert (unseen[0] != unseen[2]).all()


def test_warm_start_from_an_export(tmp_path):
    trained = estimator(tmp_path / "trained")
    trained.train(endless, steps=2)

    def receiver():
        features = {"user": v1.placeholder(tf.int64, [None, 1])}
        return tf.estimator.export.ServingInputReceiver(features, features)

    exported = tf.compat.as_str(trained.export_saved_model(str(tmp_path / "export"), receiver))
    made = after_zero_steps(estimator(tmp_path / "new", warm_start_from=exported, optimizer=zero_rate))
    assert rows(made).items() > rows(trained).items()


def test_checkpoints_after_a_warm_start_are_written_without_a_warning(trained, tmp_path, caplog):
    def init(table):
        v1.train.init_from_checkpoint(trained.model_dir, {"old/user_emb": table})

    estimator(tmp_path / "new", init=init).train(endless, steps=2)
    assert "serializing resources" not in caplog.text


def test_warm_start_leaves_out_what_does_not_match(tmp_path):
    trained = estimator(tmp_path / "trained")
    trained.train(endless, steps=1)
    settings = WarmStartSettings(trained.model_dir, vars_to_warm_start=".*dense.*")
    made = after_zero_steps(estimator(tmp_path / "new", warm_start_from=settings, optimizer=zero_rate))
    assert sorted(rows(made)) == [77]
    assert (made.get_variable_value("dense/kernel") == trained.get_variable_value("dense/kernel")).all()


def test_predict_from_a_warm_start_without_training(tmp_path):
    trained = estimator(tmp_path / "trained")
    trained.train(endless, steps=2)
    made = estimator(tmp_path / "new", warm_start_from=trained.model_dir)
    got, want = (np.array([p["out"] for p in e.predict(input_fn)]) for e in (made, trained))
    np.testing.assert_array_equal(got, want)


def test_vocabulary_is_refused(trained, tmp_path):
    vocabulary = str(tmp_path / "vocabulary")
    info = tf.estimator.VocabInfo(vocabulary, 2, 1, vocabulary)
    settings = WarmStartSettings(trained.model_dir, var_name_to_vocab_info={"user_emb": info})
    made = estimator(tmp_path / "new", warm_start_from=settings)
    with pytest.raises(ValueError, match="hash table 'user_emb', which has no vocabulary"):
        made.train(endless, steps=1)


@pytest.mark.parametrize(
    "dim, target, error",
    [
        (3, {"gone/user_emb": "user_emb"}, r"'user_emb'.*has no table 'gone/user_emb'; its tables: 'old/user_emb'"),
        (4, {"old/user_emb": "user_emb"}, r"'user_emb': dim is 4 but 'old/user_emb/values'.*has 3 columns"),
        (
            3,
            {"old/dense/kernel": "user_emb"},
            r"'old/dense/kernel'.*is a Variable of shape \[3, 1\], wanted a hash table",
        ),
        (3, {"old/user_emb": "dense/kernel"}, r"old/user_emb is not found"),
        (3, {"old/user_emb": "nothing"}, r"nothing|scope"),
    ],
)
def test_errors_while_the_graph_is_built(trained, tmp_path, dim, target, error):
    def init(_):
        with pytest.raises(ValueError, match=error):
            v1.train.init_from_checkpoint(trained.model_dir, target)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimator(tmp_path / "new", dim=dim, init=init).train(endless, steps=1)


def test_tensorflows_own_comes_back():
    before = v1.train.init_from_checkpoint
    tf_booster.disable_gpu_booster()
    from tensorflow.python.training import checkpoint_utils, warm_starting_util

    assert checkpoint_utils._init_from_checkpoint.__module__ == checkpoint_utils.__name__
    assert warm_starting_util._warm_start_var_with_vocab.__module__ == warm_starting_util.__name__
    assert not hasattr(checkpoint_utils._init_from_checkpoint, "__wrapped__")
    assert v1.train.init_from_checkpoint is before


@pytest.mark.parametrize("early", [True, False], ids=["initializer before the rewrite", "initializer after it"])
def test_a_plain_session_starts_with_the_checkpoints_rows(early, tmp_path):
    def model():
        ids = v1.placeholder(tf.int64, [None])
        table = tf_booster.get_hash_table("user_emb", 3)
        v1.train.AdagradOptimizer(0.1).minimize(
            tf.reduce_sum(v1.layers.dense(tf_booster.embedding_lookup(table, ids), 1))
        )
        return table, ids, v1.train.Saver()

    with tf.Graph().as_default():
        table, ids, saver = model()
        tf_booster.rewrite_graph()
        assigned = table.insert_or_assign([7, -3], np.ones([2, 3], np.float32))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(assigned)
            path = saver.save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        table, ids, saver = model()
        v1.train.init_from_checkpoint(path, {"user_emb": "user_emb"})
        init = v1.global_variables_initializer() if early else None
        tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(init or v1.global_variables_initializer())
            assert sorted(session.run(table.export().keys)) == [-3, 7]


@pytest.mark.parametrize("early", [True, False], ids=["initializer before the rewrite", "initializer after it"])
def test_variables_that_are_initialized_again_have_empty_tables_beside_them(early):
    """As for the next fold. Who initializes some Variables keeps the tables."""
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None])
        table = tf_booster.get_hash_table("user_emb", 3)
        loss = tf.reduce_sum(v1.layers.dense(tf_booster.embedding_lookup(table, ids), 1))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        init = v1.global_variables_initializer() if early else None
        tf_booster.rewrite_graph()
        init = init or v1.global_variables_initializer()
        with v1.Session() as session:
            for fold in range(2):
                session.run(init)
                assert not session.run(table.export().keys).size
                session.run(train, {ids: [fold]})
                session.run(train, {ids: [7, -3]})
                assert sorted(session.run(table.export().keys)) == [-3, fold, 7]
            session.run(v1.variables_initializer(v1.trainable_variables()[:1]))
            assert session.run(table.export().keys).size == 3
