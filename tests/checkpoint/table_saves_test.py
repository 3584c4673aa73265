"""Saver.save writes tables piece by piece: the tensors that SaveV2 would write of them, and neither a save nor a restore needs memory for a table."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.checkpoint import publishing

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def booster():
    yield
    tf_booster.disable_gpu_booster()


class Model:
    """Four tables: two that are fused, one with keys that wait for admission, and one that no id reaches."""

    def __init__(self, fuse=True, optimizer=None, make_saver=lambda tables: v1.train.Saver()):
        tf_booster.enable_gpu_booster(fuse_tables=fuse)
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(3)
            self.ids = v1.placeholder(tf.int64, [None, 3])
            self.none = v1.placeholder_with_default(np.zeros([0], np.int64), [None])
            self.tables = [
                tf_booster.get_hash_table("user", 5),
                tf_booster.get_hash_table("item", 5),
                tf_booster.get_hash_table("rare", 3, min_frequency=3),
                tf_booster.get_hash_table("deep/empty", 1),
            ]
            ids = [self.ids[:, 0], self.ids[:, 1], self.ids[:, 2], self.none]
            rows = [tf_booster.embedding_lookup(table, i) for table, i in zip(self.tables, ids)]
            weight = v1.get_variable("weight", [13], use_resource=True)
            loss = tf.reduce_sum(tf.square(tf.concat(rows[:3], 1) - weight)) + tf.reduce_sum(rows[3])
            self.train_op = (optimizer or v1.train.AdamOptimizer(0.1)).minimize(
                loss, v1.train.get_or_create_global_step()
            )
            self.saver = make_saver(self.tables)
            tf_booster.rewrite_graph(self.graph)
            self.exports = [table.export() for table in self.tables]
            init = v1.global_variables_initializer()
        self.session = v1.Session(graph=self.graph)
        self.session.run(init)

    def train(self, steps, first=0):
        rng = np.random.RandomState(first)
        for _ in range(steps):
            self.session.run(self.train_op, {self.ids: rng.zipf(1.3, [200, 3]) - 50})

    def save(self, prefix):
        with self.graph.as_default():
            return self.saver.save(self.session, str(prefix))

    def restore(self, prefix):
        with self.graph.as_default():
            self.saver.restore(self.session, str(prefix))

    def save_as_tensors(self, prefix):
        """As TensorFlow's Saver does: all tables are inputs of its SaveV2."""
        saver_def = self.saver.saver_def
        self.session.run(saver_def.save_tensor_name, {saver_def.filename_tensor_name: str(prefix)})

    def contents(self):
        found = []
        for export in self.session.run(self.exports):
            order = np.argsort(export.keys)
            rows = [x[order].tolist() for x in (export.keys, export.values, export.frequencies, export.last_use_steps)]
            slots = {name: slot[order].tolist() for name, slot in export.slots.items()}
            pending = dict(zip(export.pending_keys.tolist(), export.pending_counts.tolist()))
            found.append((rows, slots, pending, int(export.step)))
        return found


def tensors_of(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_equal_checkpoints(found, wanted):
    found, wanted = tensors_of(found), tensors_of(wanted)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.asarray(found[name]).dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    return wanted


def under_other_names(tables):
    """One table twice, once by itself and once by its stand-in, and another; no Variables."""
    return v1.train.Saver({"a": tables[0], "b/c": tables[0].variable, "d": tables[3]})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fuse": False},
        {"optimizer": v1.train.GradientDescentOptimizer(0.1)},
        {"make_saver": lambda _: v1.train.Saver(sharded=True)},
        {"make_saver": under_other_names},
        {"make_saver": lambda tables: v1.train.Saver([tables[1]])},
    ],
)
def test_the_tensors_are_those_that_savev2_would_write(tmp_path, options):
    model = Model(**options)
    for steps, name in ((0, "nothing"), (5, "some")):
        model.train(steps)
        path, plain = model.save(tmp_path / name), tmp_path / (name + "_plain")
        model.save_as_tensors(plain)
        wanted = assert_equal_checkpoints(path, plain)
    keys = [wanted[name] for name in wanted if name.endswith("/keys") and "empty" not in name and name != "d/keys"]
    assert keys and all(len(k) > 10 for k in keys)
    if not options:
        assert len(wanted["rare/pending_keys"]) > 10 and wanted["deep/empty/values"].shape == (0, 1)
        data = [name for name in os.listdir(tmp_path) if name.startswith("some.data")]
        assert sorted(data) == ["some.data-00000-of-00002", "some.data-00001-of-00002"]  # Tables, Variables.


def test_training_goes_on_from_it_as_if_it_had_not_stopped(tmp_path):
    model = Model()
    model.train(4)
    path = model.save(tmp_path / "model.ckpt")
    saved = model.contents()
    model.train(3, first=1)
    wanted = model.contents()
    assert wanted != saved
    other = Model()
    other.restore(path)
    assert other.contents() == saved
    other.train(3, first=1)
    assert other.contents() == wanted
    model.restore(path)
    assert model.contents() == saved


def test_it_is_written_while_nothing_is_exported(tmp_path, monkeypatch):
    """SaveV2 is fed tables without rows, so no TableExport runs."""
    model = Model()
    model.train(2)
    runs = []
    run = v1.Session.run

    def watched(self, fetches, feed_dict=None, options=None, run_metadata=None):
        if self is model.session:
            run_metadata = v1.RunMetadata()
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        result = run(self, fetches, feed_dict, options, run_metadata)
        if self is model.session:
            runs.append([node.node_name for device in run_metadata.step_stats.dev_stats for node in device.node_stats])
        return result

    monkeypatch.setattr(v1.Session, "run", watched)
    model.save(tmp_path / "model.ckpt")
    ran = {
        model.graph.get_operation_by_name(name.split(":")[0]).type
        for names in runs
        for name in names
        if "_tf_" not in name and not name.startswith("_")
    }
    assert {"SaveV2", "TfBoosterTableSave"} <= ran and "TfBoosterTableExport" not in ran


@pytest.mark.parametrize("stage", ["shard written", "merged", "data renamed"])
def test_a_death_leaves_the_checkpoint_before(tmp_path, monkeypatch, stage):
    model = Model()
    model.train(2)
    path = model.save(tmp_path / "model.ckpt")
    before = tensors_of(path)

    class Killed(BaseException):
        pass

    def at(name):
        if name == stage:
            raise Killed

    model.train(2)
    monkeypatch.setattr(publishing, "at", at)
    with pytest.raises(Killed):
        model.save(tmp_path / "model.ckpt")
    monkeypatch.undo()
    now = tensors_of(path)
    assert now.keys() == before.keys() and all(np.array_equal(now[name], before[name]) for name in before)
    model.save(tmp_path / "model.ckpt")
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]
    other = Model()
    other.restore(path)
    assert other.contents() == model.contents()


def test_a_disk_that_is_full_leaves_no_folder(tmp_path, monkeypatch):
    model = Model()
    model.train(2)
    path = model.save(tmp_path / "model.ckpt")
    before = tensors_of(path)
    monkeypatch.setattr(publishing, "shard_prefix", lambda folder, rank: "/dev/full/x")
    with pytest.raises(tf.errors.OpError, match="/dev/full"):
        model.save(tmp_path / "model.ckpt")
    assert tensors_of(path).keys() == before.keys()
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]


PROGRAM = """
    import json, resource, sys
    import numpy as np
    import tensorflow as tf
    import tf_booster
    v1 = tf.compat.v1
    ROWS, DIM, BATCH = 500_000, 64, 50_000
    folder, what, where = sys.argv[1:]
    tf_booster.enable_gpu_booster(pipeline="off", device="cpu", **json.loads(where))

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    with tf.Graph().as_default() as graph, v1.Session() as session:
        ids = v1.placeholder(tf.int64, [None])
        tables = [tf_booster.get_hash_table(name, DIM) for name in ("user", "item")]
        loss = sum(tf.reduce_sum(tf_booster.embedding_lookup(table, ids)) for table in tables)
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        saver = v1.train.Saver()
        tf_booster.rewrite_graph(graph)
        init = v1.global_variables_initializer()
        sizes = [table.size() for table in tables]
        session.run(init)
        if what == "save":
            for first in range(0, ROWS, BATCH):
                session.run(train, {ids: np.arange(first, first + BATCH)})
        before = peak()
        if what == "save":
            saver.save(session, folder + "/model.ckpt")
        else:
            saver.restore(session, folder + "/model.ckpt")
        print(json.dumps({"before": before, "after": peak(), "rows": [int(n) for n in session.run(sizes)]}))
"""


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_memory_does_not_hold_a_table_twice(tmp_path, where):
    """Two fused tables of 500,000 rows of 512 bytes: 512 MB, and 700 MB more where they are saved or restored as tensors."""
    table_bytes = 2 * 500_000 * 64 * 2 * 4
    options = json.dumps({"table_directory": str(tmp_path), "table_memory_fraction": 0.0} if where == "disk" else {})
    found = {}
    for what in ("save", "restore"):
        program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), what, options]
        out = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True).stdout
        found[what] = json.loads(out.splitlines()[-1])
        assert found[what]["rows"] == [500_000, 500_000]
    # Lists of rows, buffers, one piece of a checkpoint as it is entered.
    assert found["save"]["after"] - found["save"]["before"] < 0.25 * table_bytes
    assert found["restore"]["after"] - found["restore"]["before"] < 1.35 * table_bytes


@pytest.mark.parametrize("tensor", ["keys", "values", "slots/accumulator", "last_use_steps"])
@pytest.mark.parametrize("how", ["changed", "truncated"])
def test_damage_behind_some_pieces_leaves_the_table(tmp_path, tensor, how):
    """200,000 rows of dim 64 are read in four pieces; the damage is in the last one."""
    tf_booster.enable_gpu_booster()
    rows, dim = 200_000, 64
    with tf.Graph().as_default() as graph, v1.Session() as session:
        ids = v1.placeholder(tf.int64, [None])
        table = tf_booster.get_hash_table("user", dim)
        v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf_booster.embedding_lookup(table, ids)), name="train")
        saver = v1.train.Saver()
        tf_booster.rewrite_graph(graph)
        size, some = table.size(), table.find([5, 6, 7])
        session.run(v1.global_variables_initializer())
        session.run("train", {ids: np.arange(rows)})
        path = saver.save(session, str(tmp_path / "model.ckpt"))
        (data,) = [name for name in os.listdir(tmp_path) if "data-00000" in name]
        value = tf.train.load_checkpoint(path).get_tensor("user/" + tensor)
        with open(tmp_path / data, "r+b") as file:
            start = file.read().index(value.tobytes())
            if how == "changed":
                file.seek(start + value.nbytes - 3)
                file.write(b"\xa5\x5a")
            else:
                file.truncate(start + value.nbytes - 3)
        session.run("train", {ids: np.arange(5, 8)})
        session.run(table.erase(np.arange(1000, 2000)))
        before = session.run(some)
        with pytest.raises(tf.errors.DataLossError, match="TableRestore 'user'.*restore an earlier checkpoint"):
            saver.restore(session, path)
        after = session.run(some)
        assert session.run(size) == rows - 1000
        np.testing.assert_array_equal(after.values, before.values)
