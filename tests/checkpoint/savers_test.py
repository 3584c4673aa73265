"""Savers that a user built before the graph is rewritten."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.training.saver import BaseSaverBuilder

import tf_booster
from tf_booster import _compat
from tf_booster.checkpoint import layout

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


class Model:
    """A rewritten training graph with two tables, a dense Variable, and a Saver that was built before the rewrite, or behind it."""

    def __init__(self, is_late, make_saver, optimizer=None):
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(1)
            self.ids = v1.placeholder(tf.int64, [None])
            self.user = tf_booster.get_hash_table("user_emb", 3)
            self.item = tf_booster.get_hash_table("item_emb", 2)
            self.weight = v1.get_variable("weight", [5, 1], use_resource=True)
            rows = [tf_booster.embedding_lookup(table, self.ids) for table in (self.user, self.item)]
            loss = tf.reduce_sum(tf.square(tf.matmul(tf.concat(rows, 1), self.weight) - 1.0))
            optimizer = optimizer or v1.train.AdagradOptimizer(0.1)
            self.step = v1.train.get_or_create_global_step()
            self.train_op = optimizer.minimize(loss, global_step=self.step)
            self.slots = {v.op.name: v for v in optimizer.variables()}
            self.variables = v1.global_variables()
            if is_late:
                tf_booster.rewrite_graph(self.graph)
            self.saver = make_saver(self)
            self.before = self.saver.as_saver_def().SerializeToString()
            if not is_late:
                tf_booster.rewrite_graph(self.graph)
            self.exported = {t.name: t.export() for t in (self.user, self.item)}
            self.init = v1.global_variables_initializer()
        self.session = v1.Session(graph=self.graph)
        self.session.run(self.init)

    def save(self, path, step=None, saver=None):
        with self.graph.as_default():
            return (saver or self.saver).save(self.session, path, step)

    def restore(self, path, saver=None):
        with self.graph.as_default():
            (saver or self.saver).restore(self.session, path)

    def train(self, *ids):
        self.session.run(self.train_op, {self.ids: ids})

    def contents(self, name):
        e = self.session.run(self.exported[name])
        rows = zip(e.keys, e.values.tolist(), *(s.tolist() for s in e.slots.values()), e.frequencies, e.last_use_steps)
        return {int(key): row for key, *row in rows}


@pytest.fixture(params=[False, True], ids=["before the rewrite", "behind it"])
def model(request):
    made = []

    def make(*args, **kwargs):
        made.append(Model(request.param, *args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.session.close()


def names_in(path):
    return {name for name, _ in tf.train.list_variables(path)}


def names_of_table(name, slots=("accumulator",)):
    tensors = "keys values frequencies last_use_steps pending_keys pending_counts step seed optimizer".split()
    return {f"{name}/{t}" for t in tensors} | {f"{name}/slots/{s}" for s in slots}


DENSE = {"weight", "weight/Adagrad", "global_step"}
EVERYTHING = {
    "default": lambda m: v1.train.Saver(),
    "sharded": lambda m: v1.train.Saver(sharded=True),
    "sequential": lambda m: v1.train.Saver(restore_sequentially=True),
    "reshape": lambda m: v1.train.Saver(reshape=True),
    "one read a tensor": lambda m: v1.train.Saver(builder=BaseSaverBuilder()),
    "list of all": lambda m: v1.train.Saver(m.variables),
    "in a scope": lambda m: v1.train.Saver(name="mine/save"),
    "deferred": lambda m: deferred(),
}


def deferred():
    saver = v1.train.Saver(defer_build=True)
    saver.build()
    return saver


@pytest.mark.parametrize("how", EVERYTHING)
def test_saver_of_everything(model, tmp_path, how):
    first, second = model(EVERYTHING[how]), model(EVERYTHING[how])
    assert first.saver.as_saver_def().SerializeToString() == first.before
    first.train(1, 2, 2, -9)
    first.train(2)
    path = first.save(str(tmp_path / "m"), 2)
    assert names_in(path) == DENSE | names_of_table("user_emb") | names_of_table("item_emb")

    second.train(77)
    second.restore(path)
    for name in ("user_emb", "item_emb"):
        assert sorted(second.contents(name)) == [-9, 1, 2]
        assert second.contents(name) == first.contents(name)
    assert (second.session.run(second.weight) == first.session.run(first.weight)).all()
    assert second.session.run(second.step) == 2


@pytest.mark.parametrize("listed", ["variable", "table", "tensor"])
def test_a_list_with_one_table_saves_the_whole_of_it(model, tmp_path, listed):
    def make(m):
        entry = {"variable": m.user.variable, "table": m.user, "tensor": m.user.variable.value()}[listed]
        return v1.train.Saver([entry, m.weight])

    first, second = model(make), model(make)
    first.train(1, 2)
    path = first.save(str(tmp_path / "m"))
    assert names_in(path) == {"weight"} | names_of_table("user_emb")
    second.train(5)
    second.restore(path)
    assert second.contents("user_emb") == first.contents("user_emb")
    assert sorted(second.contents("item_emb")) == [5]


def test_a_dictionary_gives_the_name(model, tmp_path):
    first, second = (model(lambda m: v1.train.Saver({"old/name": m.user.variable, "w": m.weight})) for _ in range(2))
    first.train(3)
    path = first.save(str(tmp_path / "m"))
    assert names_in(path) == {"w"} | names_of_table("old/name")
    second.restore(path)
    assert second.contents("user_emb") == first.contents("user_emb") != {}


def test_only_a_table(model, tmp_path):
    first, second = (model(lambda m: v1.train.Saver([m.item.variable])) for _ in range(2))
    first.train(3, 4)
    path = first.save(str(tmp_path / "m"))
    assert names_in(path) == names_of_table("item_emb")
    second.restore(path)
    assert second.contents("item_emb") == first.contents("item_emb") != {}


def test_a_saver_of_ordinary_variables_stays_as_it_was(model, tmp_path):
    first = model(lambda m: v1.train.Saver([m.weight, m.step]))
    saves = [op for op in first.graph.get_operations() if op.type in ("SaveV2", "RestoreV2")]
    assert len(saves) == 2
    path = first.save(str(tmp_path / "m"))
    assert names_in(path) == {"weight", "global_step"}
    first.train(1)
    first.restore(path)
    assert first.session.run(first.step) == 0


def test_a_slot_without_its_table_is_left_out_and_logged(model, tmp_path, caplog):
    first = model(lambda m: v1.train.Saver([m.slots["user_emb/Adagrad"], m.weight]))
    assert "'user_emb/Adagrad', an optimizer slot of hash table 'user_emb'" in caplog.text
    first.train(1)
    path = first.save(str(tmp_path / "m"))
    assert names_in(path) == {"weight"}
    first.restore(path)
    assert sorted(first.contents("user_emb")) == [1]


def test_nothing_but_slots_is_refused(model):
    with pytest.raises(ValueError, match="only optimizer slots of hash tables .user_emb/Adagrad"):
        model(lambda m: v1.train.Saver([m.slots["user_emb/Adagrad"]]))


def test_the_v1_format_is_refused(model):
    with pytest.raises(ValueError, match="'user_emb', a hash table, in the V1 format"):
        model(lambda m: v1.train.Saver([m.user.variable], write_version=v1.train.SaverDef.V1))


def test_two_savers(model, tmp_path):
    other = {}

    def make(m):
        other[m] = v1.train.Saver([m.item.variable])
        return v1.train.Saver()

    first, second = model(make), model(make)
    first.train(1, 2)
    whole = first.save(str(tmp_path / "whole"))
    part = first.save(str(tmp_path / "part"), saver=other[first])
    assert names_in(part) == names_of_table("item_emb")
    first.train(3)
    second.restore(whole)
    second.restore(part, other[second])
    assert sorted(second.contents("user_emb")) == sorted(second.contents("item_emb")) == [1, 2]


def test_a_variable_named_like_a_tensor_of_a_table_is_refused(model):
    def make(m):
        v1.get_variable("user_emb/keys", [2], use_resource=True)
        return v1.train.Saver()

    with pytest.raises(ValueError, match="Variable 'user_emb/keys'.*hash table 'user_emb'.*rename"):
        model(make)


def test_a_variable_named_like_a_renamed_table_is_refused(model):
    with pytest.raises(ValueError, match="Variable 'w/step'.*hash table 'w'.*rename"):
        model(lambda m: v1.train.Saver({"w": m.user.variable, "w/step": m.step}))


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("a/keys", "a"),
        ("a/b/keys", "a/b"),
        ("a/b/slots/m", "a/b"),
        ("a/slots/b/slots/m", "a"),
        ("c/slots/a/slots/m", None),
        ("a/key", None),
        ("a/keys/b", None),
        ("ab/keys", None),
        ("keys", None),
        ("a/slots", None),
    ],
)
def test_names_that_tables_reserve(name, table):
    assert layout.table_that_reserves(name, {"a", "a/b"}) == table


def test_a_partitioned_variable_of_a_feature_column(tmp_path):
    def make():
        column = tf_booster.feature_column.categorical_column_with_hash_table("user")
        features = {"user": v1.placeholder(tf.int64, [None, 1], "ids")}
        with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(1)):
            rows = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(column, 2)])
        train_op = v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
        saver = v1.train.Saver()
        tf_booster.rewrite_graph()
        return train_op, saver

    name = "net/input_layer/user_embedding/embedding_weights"
    with tf.Graph().as_default(), v1.Session() as session:
        train_op, saver = make()
        session.run(train_op, {"ids:0": [[4], [-4]]})
        path = saver.save(session, str(tmp_path / "m"))
        assert names_in(path) == names_of_table(name)
        want = {key: tf.train.load_checkpoint(path).get_tensor(key) for key in names_in(path)}
    with tf.Graph().as_default(), v1.Session() as session:
        _, saver = make()
        saver.restore(session, path)
        again = tf.train.load_checkpoint(saver.save(session, str(tmp_path / "again")))
    order = np.argsort(want[f"{name}/keys"]), np.argsort(again.get_tensor(f"{name}/keys"))
    assert sorted(want[f"{name}/keys"]) == [-4, 4]
    for part in ("keys", "values", "slots/accumulator"):
        np.testing.assert_array_equal(want[f"{name}/{part}"][order[0]], again.get_tensor(f"{name}/{part}")[order[1]])


def test_a_checkpoint_object_as_the_scaffolds_saver(tmp_path):
    def run(ids):
        with tf.Graph().as_default():
            table = tf_booster.get_hash_table("user_emb", 2)
            weight = v1.get_variable("weight", [2], use_resource=True)
            step = v1.train.get_or_create_global_step()
            loss = tf.reduce_sum(tf_booster.embedding_lookup(table, tf.constant(ids, tf.int64)) * weight)
            train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
            objects = tf.train.Checkpoint(emb=table.variable, step=step, weight=weight)
            with v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=v1.train.Scaffold(saver=objects), save_checkpoint_steps=1
            ) as session:
                session.run(train_op)
        return tf.train.load_checkpoint(str(tmp_path))

    assert sorted(run([3, 4]).get_tensor("emb/keys")) == [3, 4]
    reader = run([4, 5])
    assert dict(zip(reader.get_tensor("emb/keys"), reader.get_tensor("emb/frequencies"))) == {3: 1, 4: 2, 5: 1}
    assert reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == 2
    assert not any(name.startswith("emb/.ATTR") for name in reader.get_variable_to_shape_map())


def test_tables_of_one_name_and_other_settings():
    with tf.Graph().as_default():
        tf_booster.get_hash_table("user_emb", 3)
        with pytest.raises(ValueError, match="'user_emb' with other settings: dim is 3 there and 4 here"):
            tf_booster.get_hash_table("user_emb", 4)
        v1.get_variable("weight", [2])
        with pytest.raises(ValueError, match="Variable 'weight'"):
            tf_booster.get_hash_table("weight", 3)
        with pytest.raises(ValueError, match="user_emb"):
            v1.get_variable("user_emb", [2])


def test_adam_in_keras_form(model, tmp_path):
    class Keras:
        """Keras's optimizer with minimize's signature of v1."""

        def __init__(self):
            self.optimizer = tf.keras.optimizers.legacy.Adam(0.01)

        def minimize(self, loss, global_step):
            self.optimizer.iterations = global_step
            return tf.group(*self.optimizer.get_updates(loss, v1.trainable_variables()))

        def variables(self):
            return self.optimizer.variables()

    first, second = (model(lambda m: v1.train.Saver(), Keras()) for _ in range(2))
    first.train(1, 2)
    path = first.save(str(tmp_path / "m"))
    assert names_of_table("user_emb", ("m", "v")) <= names_in(path)
    assert not any("user_emb" in n for n in names_in(path) - names_of_table("user_emb", ("m", "v")))
    second.restore(path)
    assert second.contents("user_emb") == first.contents("user_emb") != {}


def test_what_waits_for_all_that_is_restored_is_edited_once(monkeypatch):
    """Edited once a table and slot, a Saver of 150 tables takes 0.4 s, and one of 300 takes 2.5."""
    edited, edit = [], _compat.set_control_inputs

    def note(op, control_inputs):
        edited.append(op.name)
        edit(op, control_inputs)

    monkeypatch.setattr(_compat, "set_control_inputs", note)
    with tf.Graph().as_default() as graph:
        ids = v1.placeholder(tf.int64, [None])
        tables = [tf_booster.get_hash_table(f"table_{i}", 2 + i) for i in range(4)]
        rows = tf.concat([tf_booster.embedding_lookup(table, ids) for table in tables], 1)
        v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
        restore = graph.get_operation_by_name(v1.train.Saver().as_saver_def().restore_op_name)
        before = len(restore.control_inputs)
        tf_booster.rewrite_graph(graph)
    assert edited.count(restore.name) == 1
    assert (before, len(restore.control_inputs)) == (8, 4)
