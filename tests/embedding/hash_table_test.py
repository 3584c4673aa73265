"""Making tables: names, scopes, settings, what is refused, and what can be asked of a table."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.embedding import registry
from tf_booster.embedding.table_spec import EvictionSpec, InitializerSpec

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run_rewritten(graph, *fetches):
    """Runs each of the fetches, one after the other, in a session on the rewritten graph."""
    tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        return [session.run(fetch) for fetch in fetches]


def test_settings_arrive(graph):
    table = tf_booster.get_hash_table(
        "user",
        8,
        initializer=v1.random_uniform_initializer(-1, 1, seed=3),
        key_dtype=tf.string,
        min_frequency=2,
        eviction={"max_idle_steps": 5},
        max_rows=100,
        trainable=False,
    )
    spec = table.spec
    assert (spec.name, spec.dim, spec.initializer) == ("user", 8, InitializerSpec("uniform", -1, 1))
    assert (spec.seed, spec.min_frequency, spec.eviction, spec.max_rows) == (3, 2, EvictionSpec("idle", 5), 100)
    assert (table.name, table.embedding_dim, table.dtype, table.key_dtype) == ("user", 8, tf.float32, tf.string)
    assert not table.trainable and not v1.trainable_variables()
    assert registry.tables(graph) == {"user": table}


def test_default_initializer_and_seed_of_its_own(graph):
    assert tf_booster.get_hash_table("a", 4).spec.initializer == InitializerSpec("truncated_normal", 0.0, 0.5)
    table = tf_booster.get_hash_table("b", 4, initializer=tf.random_normal_initializer(seed=3), seed=0)
    assert table.spec.seed == 0


def test_same_name_and_settings_is_the_same_table(graph):
    table = tf_booster.get_hash_table("user", 8)
    assert tf_booster.get_hash_table("user", 8) is table
    assert len(v1.global_variables()) == 1


def test_scopes_give_the_name(graph):
    with v1.variable_scope("deep") as scope:
        table = tf_booster.get_hash_table("user", 8)
        assert tf_booster.get_hash_table("user", 8) is table
    with tf.name_scope("anything"), v1.variable_scope(scope, reuse=True):
        assert tf_booster.get_hash_table("user", 8) is table
    assert table.name == "deep/user"
    assert tf_booster.get_hash_table("deep/user", 8) is table
    with v1.variable_scope("deep", reuse=v1.AUTO_REUSE):
        assert tf_booster.get_hash_table("user", 8) is table
        assert tf_booster.get_hash_table("item", 8).name == "deep/item"


def test_partitioner_and_caching_device_of_the_scope_do_not_reach_the_stand_in(graph):
    partitioner = v1.fixed_size_partitioner(3)
    with v1.variable_scope("deep", partitioner=partitioner, caching_device="/cpu:0") as scope:
        table = tf_booster.get_hash_table("user", 8)
        assert scope.partitioner is partitioner
    assert table.variable.op.name == "deep/user" and table.variable.shape == [1, 8]
    assert not [op for op in graph.get_operations() if op.type == "ReadVariableOp" and op.outputs[0].consumers()]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"embedding_dim": 9}, "dim is 8 there and 9 here"),
        ({"initializer": "zeros"}, r"initializer is truncated_normal\(mean=0, stddev=0.353553\) there and constant"),
        ({"min_frequency": 2}, "min_frequency is 0 there and 2 here"),
        ({"eviction": {"max_idle_steps": 3}}, "eviction is None there and {'max_idle_steps': 3} here"),
        ({"max_rows": 5}, "max_rows is None there and 5 here"),
        ({"seed": 5}, "seed is None there and 5 here"),
        ({"trainable": False}, "trainable is True there and False here"),
        ({"key_dtype": tf.string}, "key_dtype is int64 there and string here"),
    ],
)
def test_other_settings_under_the_same_name(graph, changes, message):
    tf_booster.get_hash_table("user", 8)
    with pytest.raises(ValueError, match="get_hash_table 'user': the graph has a table 'user' .*" + message):
        tf_booster.get_hash_table(**{"name": "user", "embedding_dim": 8, **changes})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"dtype": tf.float64}, "dtype is float64, wanted float32"),
        ({"key_dtype": tf.int16}, "key_dtype is int16, wanted int64, int32 or string"),
        ({"initializer": "he_normal"}, "initializer is 'he_normal', wanted one of zeros"),
        ({"initializer": "he_norm"}, "initializer is 'he_norm', wanted one of zeros"),
        ({"initializer": float("nan")}, "initializer nan: constant: value is nan, wanted a finite number"),
        (
            {"initializer": v1.random_uniform_initializer(3, 1)},
            "initializer .*: uniform: minval is 3 and maxval 1; swap",
        ),
        ({"embedding_dim": 0}, "embedding_dim is 0, wanted an integer from 1"),
    ],
)
def test_wrong_arguments(graph, changes, message):
    with pytest.raises(ValueError, match="get_hash_table 'user': " + message):
        tf_booster.get_hash_table(**{"name": "user", "embedding_dim": 8, **changes})
    assert not v1.global_variables() and not registry.tables(graph)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"dtype": None}, "dtype is None, wanted float32"),
        ({"dtype": "flt"}, "dtype is 'flt', wanted float32"),
        ({"key_dtype": "text"}, "key_dtype is 'text', wanted int64, int32 or string"),
        ({"trainable": "yes"}, "trainable is 'yes', wanted True or False"),
    ],
)
def test_arguments_of_a_wrong_type(graph, changes, message):
    with pytest.raises(TypeError, match="get_hash_table 'user': " + message):
        tf_booster.get_hash_table(**{"name": "user", "embedding_dim": 8, **changes})


def test_settings_of_numpy(graph):
    table = tf_booster.get_hash_table(
        "user", np.int64(8), initializer=np.float32(0.5), dtype="float32", seed=np.int32(3), trainable=np.False_
    )
    assert table is tf_booster.get_hash_table("user", 8, initializer=0.5, seed=3, trainable=False)


def test_a_name_that_is_taken(graph):
    v1.get_variable("user", [1, 8])
    with pytest.raises(ValueError, match="the graph has a Variable 'user' that is no hash table; use another name"):
        tf_booster.get_hash_table("user", 8)
    v1.placeholder(tf.int64, name="ids")
    with pytest.raises(ValueError, match="wanted a Variable 'ids' to stand for the table"):
        tf_booster.get_hash_table("ids", 8)


def test_scopes_that_a_table_cannot_honour(graph):
    with v1.variable_scope("deep", regularizer=lambda value: tf.nn.l2_loss(value)):
        with pytest.raises(ValueError, match="the variable scope 'deep' has a regularizer"):
            tf_booster.get_hash_table("user", 8)
    with (
        v1.variable_scope("other", reuse=True),
        pytest.raises(ValueError, match="'other' has reuse=True, but the graph"),
    ):
        tf_booster.get_hash_table("user", 8)

    def identity(getter, *args, **kwargs):
        return tf.identity(getter(*args, **kwargs))

    with (
        v1.variable_scope("third", custom_getter=identity),
        pytest.raises(ValueError, match="scope with a custom_getter"),
    ):
        tf_booster.get_hash_table("user", 8)


def test_eager_execution_is_refused_with_the_remedy():
    with pytest.raises(RuntimeError, match="hash tables live in a graph, .* Estimator's model_fn"):
        tf_booster.get_hash_table("user", 8)


def test_function_bodies_are_refused(graph):
    @tf.function
    def function():
        tf_booster.get_hash_table("user", 8)
        return 1

    with pytest.raises(RuntimeError, match="this is the body of a tf.function"):
        function()
    with pytest.raises(RuntimeError, match="this is the body of a tf.function, a dataset's function, a tf.cond"):
        tf.cond(v1.placeholder(tf.bool, []), lambda: tf_booster.get_hash_table("user", 8).size(), lambda: 0)


def test_a_strategy_is_refused(graph):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope(), pytest.raises(RuntimeError, match="tf.distribute strategy"):
        tf_booster.get_hash_table("user", 8)


def test_a_table_of_another_graph(graph):
    table = tf_booster.get_hash_table("user", 8)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="size 'user': the table belongs to another graph"):
        table.size()


def test_a_table_is_no_tensor(graph):
    table = tf_booster.get_hash_table("user", 8)
    with pytest.raises(TypeError, match="'user', embedding_dim=8> is no tensor; look ids up in it with"):
        tf.nn.embedding_lookup(table, [1])


@pytest.mark.parametrize("name, var_list", [("user", lambda table: [table]), ("other", lambda table: {"other": table})])
def test_a_saver_takes_a_table(graph, tmp_path, name, var_list):
    table = tf_booster.get_hash_table("user", 2, initializer=0.5)
    assign, clear, rows = (
        table.insert_or_assign([7, 9], [[1.0, 2.0], [3.0, 4.0]]),
        table.clear(),
        table.find([9]).values,
    )
    saver = v1.train.Saver(var_list(table))
    tf_booster.rewrite_graph(graph)
    with v1.Session() as session:
        session.run(assign)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(clear)
        np.testing.assert_array_equal(session.run(rows), [[0.5, 0.5]])
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(rows), [[3.0, 4.0]])
    assert dict(tf.train.list_variables(path))[f"{name}/keys"] == [2]


def test_unrewritten_it_fails_and_names_table_and_remedy(graph):
    size = tf_booster.get_hash_table("user", 8).size()
    with v1.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="'user'.*rewrite_graph"):
        session.run(size)


def test_edits_finds_and_export(graph):
    table = tf_booster.get_hash_table("user", 3, initializer=0.5)
    keys = np.array([0, -1, 2**63 - 1, -(2**63)])
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    assign = table.insert_or_assign(keys, values)
    found = table.find([[-1, 7], [2**63 - 1, 0]])
    erased = table.erase([7, -1])
    size, export, clear = table.size(), table.export(), table.clear()
    _, before, rows, picture, gone, after, _, empty = run_rewritten(
        graph, assign, size, found, export, erased, size, clear, size
    )
    assert (before, gone, after, empty) == (4, 1, 3, 0)
    np.testing.assert_array_equal(rows.found, [[True, False], [True, True]])
    np.testing.assert_array_equal(rows.values, [[values[1], [0.5] * 3], [values[2], values[0]]])
    order = np.argsort(picture.keys)
    np.testing.assert_array_equal(picture.keys[order], np.sort(keys))
    np.testing.assert_array_equal(picture.values[order], values[np.argsort(keys)])
    np.testing.assert_array_equal(picture.frequencies, [1] * 4)
    assert picture.pending_keys.size == 0 and picture.slots == {}


def test_string_keys_are_hashed_as_lookups_hash_them(graph):
    table = tf_booster.get_hash_table("user", 1, initializer=0.5, key_dtype=tf.string)
    assign = table.insert_or_assign(["a", "b"], [[1.0], [2.0]])
    _, found, looked_up, keys = run_rewritten(
        graph, assign, table.find(["b", "c"]), tf_booster.embedding_lookup(table, ["b", "c"]), table.export().keys
    )
    np.testing.assert_array_equal(found.values, [[2.0], [0.5]])
    np.testing.assert_array_equal(looked_up, [[2.0], [0.5]])
    with tf.compat.v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        hashes = session.run(tf.strings.to_hash_bucket_fast(["a", "b"], 2**63 - 1))
    assert sorted(keys) == sorted(hashes)


def test_the_real_table_answers_after_the_rewrite(graph):
    table = tf_booster.get_hash_table("user", 1, initializer=0.5)
    loss = tf.reduce_sum(tf_booster.embedding_lookup(table, [3, 5]))
    train = v1.train.AdagradOptimizer(0.1).minimize(loss)
    tf_booster.rewrite_graph(graph)
    picture, size = table.export(), table.size()
    assert not [op for op in graph.get_operations() if op.type == "TfBoosterStandInTable"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train)
        picture, size = session.run([picture, size])
    assert size == 2 and sorted(picture.keys) == [3, 5] and picture.step == 1
    np.testing.assert_allclose(picture.slots["accumulator"], [[1.1], [1.1]], rtol=1e-6)
