"""The table as a resource: one for a name in a session, made at its first use; and the stand-ins, which fail."""

import numpy as np
import pytest
import tensorflow as tf
from table_session import TableSession, int64, table_attrs

from tf_booster import _native


def test_two_handle_ops_of_one_name_are_one_table(table):
    t = table()
    t.assign([1], [[3, 4]])
    other = TableSession(session=t.session)
    np.testing.assert_array_equal(other.find([1]).values, [[3, 4]])


def test_names_and_shared_names_tell_tables_apart(table):
    t = table()
    others = [
        TableSession(session=t.session, name="item_emb"),
        TableSession(session=t.session, shared_name="user_emb_2"),
        TableSession(session=t.session, container="another"),
    ]
    t.assign([1], [[3, 4]])
    assert [o.size() for o in others] == [0, 0, 0]
    shared = TableSession(session=t.session, shared_name="user_emb")
    assert shared.size() == 1


def test_sessions_do_not_share_tables(table):
    a, b = table(), table()
    a.assign([1], [[3, 4]])
    assert (a.size(), b.size()) == (1, 0)


OTHERS = {
    "dim": (dict(dim=3), r"dim \(it has 2, this op 3\)"),
    "optimizer": (dict(optimizer="adagrad"), r"optimizer \(it has 'adam', this op 'adagrad'\).*slot_names"),
    "seed": (dict(seed=8), r"seeds \(it has 7, this op 8\)"),
    "initializer": (
        dict(initializer="uniform", args=(0.5, 1.0)),
        r"initializers \(it has 'constant', this op 'uniform'\), initializer_args",
    ),
    "values": (dict(args=(0.25, 0.0)), r"initializer_args \(it has 0.5, 0, this op 0.25, 0\)"),
    "min_frequency": (dict(min_frequencies=[2]), r"min_frequencies \(it has 0, this op 2\)"),
    "max_rows": (dict(max_rows=[9]), r"max_rows \(it has 0, this op 9\)"),
    "eviction": (dict(evictions=["lru"], eviction_args=[4]), r"evictions \(it has '', this op 'lru'\), eviction_args"),
}


@pytest.mark.parametrize("options, message", OTHERS.values(), ids=OTHERS.keys())
def test_a_name_with_other_options_is_refused_with_what_differs(table, options, message):
    t = table(optimizer="adam")
    t.assign([1], [[3, 4]])
    other = TableSession(session=t.session, **{"optimizer": "adam", **options})
    with pytest.raises(tf.errors.InvalidArgumentError, match="HashTable 'user_emb': a table of this name.*" + message):
        other.size()
    assert t.size() == 1


BAD = {
    "initializer": (dict(initializer="glorot"), "initializer is 'glorot'; use 'constant', 'uniform', 'normal'"),
    "eviction": (dict(evictions=["fifo"]), "eviction is 'fifo'; use '', 'idle', 'lru' or 'lfu'"),
    "eviction arg": (dict(evictions=["idle"]), "eviction 'idle' has the argument 0, but needs at least 1 step"),
    "negative": (dict(min_frequencies=[-1]), "min_frequency is -1 and max_rows is 0, but neither may be negative"),
    "seeds": (dict(seeds=[1, 2]), "seeds has 2 entries, but field_names ask for 1"),
    "slots": (dict(slot_names=["m"]), "slot_initial_values has 0 entries, but slot_names ask for 1"),
    "fields": (dict(field_names=["a", "b"]), "seeds has 1 entries, but field_names ask for 2"),
}


@pytest.mark.parametrize("options, message", BAD.values(), ids=BAD.keys())
def test_bad_options_are_refused(table, options, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match="HashTable 'user_emb': " + message):
        table(**options).size()


def test_a_cleared_container_gives_a_new_table():
    ops = _native.ops()
    make = lambda: ops.tf_booster_hash_table(**table_attrs(name="destroyed"))  # noqa: E731
    ops.tf_booster_table_insert_or_assign(make(), [1], [[1.0, 2.0]])
    assert int(ops.tf_booster_table_size(make())) == 1
    tf.raw_ops.DestroyResourceOp(resource=make())
    assert int(ops.tf_booster_table_size(make())) == 0


def test_another_resource_is_no_table(table):
    t = table()

    def build():
        queue = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
        return t.ops.tf_booster_table_size(queue)

    with pytest.raises(tf.errors.InvalidArgumentError, match="TableResource"):
        t.run(build)


STAND_INS = {
    "table": lambda ops: ops.tf_booster_table_size(ops.tf_booster_stand_in_table(table_name="user_emb")),
    "ids": lambda ops: ops.tf_booster_stand_in_ids(int64([1, 2]), table_name="user_emb"),
}
REMEDY = (
    r"'user_emb'.*tf.enable_gpu_booster\(\) before the graph is built.*Estimator.*MonitoredTrainingSession.*"
    r"tf.compat.v1.Session call tf_booster.rewrite_graph\(graph\)"
)


@pytest.mark.parametrize("build", STAND_INS.values(), ids=STAND_INS.keys())
def test_stand_ins_fail_with_the_remedy(build):
    ops = _native.ops()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match=REMEDY):
            session.run(build(ops))
    with pytest.raises(tf.errors.FailedPreconditionError, match=REMEDY):
        build(ops)


def test_stand_in_ids_keep_the_shape():
    ops = _native.ops()
    with tf.Graph().as_default():
        ids = tf.compat.v1.placeholder(tf.int64, [None, 3])
        assert ops.tf_booster_stand_in_ids(ids, table_name="t").shape.as_list() == [None, 3]
