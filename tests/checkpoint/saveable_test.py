"""A table in TensorFlow's Saver, in every way that a Saver is built."""

import os

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_tables import Table
from tensorflow.python.training.saver import BaseSaverBuilder

from tf_booster.checkpoint.saveable import TableSaveable

v1 = tf.compat.v1

SAVERS = {
    "plain": {},
    "sharded": {"sharded": True},
    "sequential": {"restore_sequentially": True},
    "reshape": {"reshape": True},
    "one read a tensor": {"builder": BaseSaverBuilder},
    "deferred": {"defer_build": True},
}


def make_saver(options):
    options = dict(options)
    if "builder" in options:
        options["builder"] = options["builder"]()
    saver = v1.train.Saver(**options)
    saver.build()
    return saver


class Model:
    """A graph with a Variable and tables, all in the collections that Savers look into."""

    def __init__(self, saver=None, variable=True, tables=({},)):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.variable = v1.get_variable("weight", initializer=[1.0, 2.0], use_resource=True) if variable else None
            self.tables = [Table(**options) for options in tables]
            for table in self.tables:
                v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, TableSaveable(table))
            self.saver = make_saver(saver or {})
            self.init = v1.global_variables_initializer()
        self.session = v1.Session(graph=self.graph)
        self.session.run(self.init)

    def save(self, path, step=None, saver=None):
        with self.graph.as_default():
            return (saver or self.saver).save(self.session, path, step)

    def restore(self, path, saver=None):
        with self.graph.as_default():
            (saver or self.saver).restore(self.session, path)

    def set_variable(self, values):
        with self.graph.as_default():
            self.session.run(self.variable.assign(values))

    @property
    def table(self):
        return self.tables[0]


@pytest.fixture
def model():
    made = []

    def make(**options):
        made.append(Model(**options))
        return made[-1]

    yield make
    for each in made:
        each.session.close()


@pytest.mark.parametrize("variable", [True, False], ids=["", "tables only"])
@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("saver", SAVERS)
def test_save_and_restore(model, tmp_path, saver, tables, variable):
    options = dict(
        saver=SAVERS[saver],
        variable=variable,
        tables=[
            dict(name=f"scope/t{i}", dim=1 + i, optimizer=o) for i, o in zip(range(tables), ("adam", "sgd", "adagrad"))
        ],
    )
    first = model(**options)
    for i, table in enumerate(first.tables):
        table.train(first.session, [5, -7, 5, 2**62])
        table.train(first.session, [5, 11 + i])
    if variable:
        first.set_variable([8.0, 9.0])
    path = first.save(str(tmp_path / "model.ckpt"), step=3)

    second = model(**options)
    for table in second.tables:
        table.train(second.session, [99])  # Must be gone after the restore.
    second.restore(path)
    for before, after in zip(first.tables, second.tables):
        assert len(before.contents(first.session).rows) == 4
        assert after.contents(second.session) == before.contents(first.session)
    if variable:
        assert second.session.run(second.variable).tolist() == [8.0, 9.0]


def test_tensors_are_listed_and_read_by_tensorflow(model, tmp_path):
    m = model(tables=[dict(name="user_emb", dim=3, optimizer="adam", seed=-5, min_frequency=2)])
    m.table.train(m.session, [1, 1, 2, 3, 3, 3])
    path = m.save(str(tmp_path / "m"))
    reader = tf.train.load_checkpoint(path)
    assert reader.get_variable_to_shape_map() == {
        "weight": [2],
        "user_emb/keys": [2],
        "user_emb/values": [2, 3],
        "user_emb/slots/m": [2, 3],
        "user_emb/slots/v": [2, 3],
        "user_emb/frequencies": [2],
        "user_emb/last_use_steps": [2],
        "user_emb/pending_keys": [1],
        "user_emb/pending_counts": [1],
        "user_emb/step": [],
        "user_emb/seed": [],
        "user_emb/optimizer": [],
    }
    read = lambda name: reader.get_tensor(f"user_emb/{name}")  # noqa: E731
    order = np.argsort(read("keys"))
    assert read("keys")[order].tolist() == [1, 3]
    np.testing.assert_array_equal(read("values")[order], m.table.find(m.session, [1, 3]))
    assert read("frequencies")[order].tolist() == [2, 3]
    assert (read("pending_keys").tolist(), read("pending_counts").tolist()) == ([2], [1])
    assert (read("seed"), read("optimizer"), read("keys").dtype) == (-5, b"adam", np.int64)
    assert dict(tf.train.list_variables(path))["user_emb/values"] == [2, 3]


@pytest.mark.parametrize("builder", [None, BaseSaverBuilder])
def test_restore_reads_nothing_of_the_table_but_a_scalar(model, builder):
    m = model(saver={"builder": builder} if builder else {})
    restores = [op for op in m.graph.get_operations() if op.type == "RestoreV2"]
    names = [name for op in restores for name in tf.get_static_value(op.inputs[1])]
    assert set(names) == {b"weight", b"user_emb/seed"}
    (table,) = [op for op in m.graph.get_operations() if op.type == "TfBoosterTableRestore"]
    # The table comes first, so that its errors are told, and come before a Variable is assigned.
    assert all(table in op.control_inputs for op in restores if b"user_emb/seed" in tf.get_static_value(op.inputs[1]))


def test_graph_grows_with_the_number_of_tables_and_not_with_its_square(model):
    def bytes_of_constants(tables):
        graph = model(tables=[dict(name=f"a_table_with_the_name_{i:03}") for i in range(tables)]).graph
        return sum(op.node_def.ByteSize() for op in graph.get_operations() if op.type == "Const")

    assert bytes_of_constants(40) < 2.2 * bytes_of_constants(20)


def test_variables_named_as_tensors_of_a_table_that_the_saver_has_not(model, tmp_path):
    """The int64 Variable `item_emb/keys` goes with table user_emb to the checkpoint, and table item_emb does not."""
    saved = []
    for value in (41, 0):
        m = model(tables=[dict(name="user_emb"), dict(name="item_emb")])
        with m.graph.as_default():
            variable = v1.get_variable("keys", initializer=tf.constant([value], tf.int64), use_resource=True)
            (saveable,) = [
                s for s in v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS) if s.checkpoint_name == "user_emb"
            ]
            saver = v1.train.Saver({"item_emb/keys": variable, "user_emb": saveable})
        m.session.run(variable.initializer)
        saved.append((m, variable, saver))
    (first, _, saver), (second, variable, other_saver) = saved
    first.table.train(first.session, [1, 2])
    second.restore(first.save(str(tmp_path / "m"), saver=saver), saver=other_saver)
    assert second.session.run(variable).tolist() == [41]
    assert second.table.contents(second.session) == first.table.contents(first.session)


def test_empty_table(model, tmp_path):
    first, second = model(), model()
    path = first.save(str(tmp_path / "m"))
    second.table.train(second.session, [1])
    second.restore(path)
    assert second.table.contents(second.session).rows == {}


def test_new_keys_keep_their_first_values(model, tmp_path):
    first = model(tables=[dict(seed=1)])
    path = first.save(str(tmp_path / "m"))
    second = model(tables=[dict(seed=2)])
    want = first.table.find(first.session, [1, 2, 3])
    assert (second.table.find(second.session, [1, 2, 3]) != want).all()
    second.restore(path)
    np.testing.assert_array_equal(second.table.find(second.session, [1, 2, 3]), want)


def test_another_optimizer_keeps_rows_and_starts_its_slots_anew(model, tmp_path, capfd):
    first = model(tables=[dict(optimizer="adagrad")])
    first.table.train(first.session, [1, 2, 2])
    path = first.save(str(tmp_path / "m"))
    second = model(tables=[dict(optimizer="adam")])
    second.restore(path)
    before, after = first.table.contents(first.session), second.table.contents(second.session)
    zeros = np.zeros(3, np.float32).tobytes()
    assert after.rows == {
        key: (row, (zeros, zeros), frequency, step) for key, (row, _, frequency, step) in before.rows.items()
    }
    assert "TableRestore 'user_emb'" in capfd.readouterr().err
    second.table.train(second.session, [1])


def test_missing_table_is_named_and_nothing_is_assigned(model, tmp_path):
    first = model(tables=[dict(name="item_emb")])
    path = first.save(str(tmp_path / "m"))
    second = model(tables=[dict(name="user_emb")])
    second.set_variable([5.0, 6.0])
    with pytest.raises(tf.errors.NotFoundError, match=r"TableRestore 'user_emb'.*'user_emb/keys'.*'item_emb'"):
        second.restore(path)
    assert second.session.run(second.variable).tolist() == [5.0, 6.0]


def test_wrong_dim_names_both(model, tmp_path):
    first = model(tables=[dict(dim=3)])
    first.table.train(first.session, [1])
    path = first.save(str(tmp_path / "m"))
    second = model(tables=[dict(dim=4)])
    second.table.train(second.session, [8])
    kept = second.table.contents(second.session)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"user_emb.*dim is 4.*has 3 columns"):
        second.restore(path)
    assert second.table.contents(second.session) == kept


def test_meta_graph_is_read_back_with_a_working_saver(model, tmp_path):
    first = model()
    first.table.train(first.session, [4, 5])
    path = first.save(str(tmp_path / "m"))
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        exported = session.graph.get_operation_by_name(first.table.exported.keys.op.name)
        assert sorted(session.run(exported.outputs[0])) == [4, 5]


def test_max_to_keep(model, tmp_path):
    m = model(saver={"max_to_keep": 2, "sharded": True})
    for step in range(4):
        m.save(str(tmp_path / "m"), step=step)
    steps = {name.split(".")[0] for name in os.listdir(tmp_path) if name.startswith("m-")}
    assert steps == {"m-2", "m-3"}


def test_a_reader_that_is_not_restore_v2_is_refused(model):
    m = model()
    saveable = m.graph.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)[0]
    with m.graph.as_default(), pytest.raises(ValueError, match="'user_emb'.*Placeholder.*RestoreV2"):
        saveable.restore([v1.placeholder(tf.int64)], None)


def test_the_v1_format_is_refused(model):
    with pytest.raises(ValueError, match="'user_emb'.*V1 format.*write_version"):
        model(saver={"write_version": v1.train.SaverDef.V1})
