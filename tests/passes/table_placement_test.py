"""Where tables live, asked with a simulated GPU. What is run is run on the CPU: TensorFlow puts there what it has no GPU for."""

import gpu_kernels
import numpy as np
import pytest
import tensorflow as tf
from reported import of_tables

import tf_booster
from tf_booster import _compat
from tf_booster.checkpoint import warm_start
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes import pipelines, table_placement
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.hash_tables import HashTables

v1 = tf.compat.v1
CARD = "/device:GPU:0"
HOST = "/device:CPU:0"
IDS = np.array([[3, 7], [3, -9], [2**40, 7]], np.int64)


@pytest.fixture(name="gpu")
def simulated_gpu(monkeypatch):
    gpu_kernels.pretend(monkeypatch)
    return monkeypatch


class Model:
    """Two tables that are alike, trained by Adam, and what else a program may ask of one."""

    def __init__(self, device, saver_first=True, disable_passes=(), sharded=False):
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(3)
            self.ids = v1.placeholder(tf.int64, [None, 2])
            self.tables = [tf_booster.get_hash_table(name, 4) for name in ("user", "item")]
            dense = tf_booster.embedding_lookup(self.tables[0], self.ids)
            sparse = tf.sparse.from_dense(self.ids)
            pooled = tf_booster.embedding_lookup_sparse(self.tables[1], sparse, combiner="mean")
            weight = v1.get_variable("weight", [4], initializer=v1.ones_initializer(), use_resource=True)
            self.loss = tf.reduce_sum(tf.square(dense - weight)) + tf.reduce_sum(pooled)
            self.train = v1.train.AdamOptimizer(0.1).minimize(self.loss, v1.train.get_or_create_global_step())
            self.initialize = v1.global_variables_initializer()
            with tf.device("/device:CPU:0"):  # What a program may say that knows of no table on a card.
                self.size, self.exported = self.tables[0].size(), self.tables[0].export()
            if saver_first:
                self.saver = v1.train.Saver(sharded=sharded)
            self.report = pipelines.rewrite(self.graph, Options(device=device, disable_passes=disable_passes))
            if not saver_first:
                self.saver = v1.train.Saver(sharded=sharded)
            with tf.device("/device:CPU:0"):
                self.found = self.tables[1].find(IDS[0]).values

    def session(self):
        return v1.Session(graph=self.graph, config=v1.ConfigProto(allow_soft_placement=True))

    def table_ops(self):
        """The ops that make a table's handle, or take one."""
        return [
            op
            for op in self.graph.get_operations()
            if op.type.startswith("TfBooster")
            and not op.type.startswith("TfBoosterStandIn")
            and any(t.dtype == tf.resource for t in [*op.inputs, *op.outputs])
        ]

    def on_card(self):
        return [op for op in self.graph.get_operations() if op.device == CARD]


def trained(model, steps=3, restore=None, save=None):
    """Numbers of a training run, of a session that may begin from a checkpoint and end with one."""
    with model.session() as session:
        session.run(model.initialize)
        if restore:
            model.saver.restore(session, restore)
        losses = [session.run([model.loss, model.train], {model.ids: IDS})[0] for _ in range(steps)]
        if save:
            model.saver.save(session, save)
        exported = session.run({**model.exported._asdict(), "size": model.size, "found": model.found})
    return losses, exported


def same(left, right):
    assert left[0] == right[0]
    for name, value in left[1].items():
        np.testing.assert_equal(value, right[1][name], name)


def test_without_a_gpu_tables_are_in_host_memory():
    model = Model("auto")
    assert {op.device for op in model.table_ops()} == {HOST} and model.report.device == "cpu"
    with pytest.raises(RewriteError, match="device='gpu', but TensorFlow sees no GPU"):
        Model("gpu")


def test_the_options_say_where(gpu):
    for device, wanted, kind in (("cpu", HOST, "cpu"), ("auto", "", "gpu"), ("gpu", CARD, "gpu")):
        model = Model(device)
        assert {op.device for op in model.table_ops()} == {wanted}, device
        assert [table["device"] for table in model.report.tables] == [kind] * 2
        assert f"on the {kind}" in str(model.report) and model.report.device == kind
        assert not of_tables(model.report).skipped


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("saver_first", [True, False])
def test_what_is_on_the_card_has_kernels_there(gpu, saver_first, sharded):
    """Types too, and strings and handles, which no card can hold, in host memory. Estimator's Saver is sharded: it names devices."""
    model = Model("gpu", saver_first, sharded=sharded)
    types = {op.type[len("TfBooster") :] for op in model.table_ops()}
    assert types >= {
        *("HashTable", "TableField", "TableProbe", "TableGather", "TableApplyAdam", "TableExport", "TableRestore"),
        *("TableSize", "TableStats", "TableFind"),
    }
    for op in model.on_card():
        if not op.type.startswith("TfBooster"):
            dtypes = [tensor.dtype for tensor in op.outputs]
            assert (op.type, dtypes) in [("Const", [tf.float32]), ("Const", [tf.int64]), ("NoOp", [])], op.name
            continue
        assert _compat.gpu_kernel(op) is not None, op.type
        for tensors, in_host_memory in (
            (op.inputs, _compat.input_in_host_memory),
            (op.outputs, _compat.output_in_host_memory),
        ):
            for place, tensor in enumerate(tensors):
                if tensor.dtype in (tf.string, tf.resource):
                    assert in_host_memory(op, place), f"{op.type}: {tensor.name}"


def test_a_step_stays_on_the_card(gpu):
    """From the ids on nothing between probe and update is in host memory."""
    model = Model("gpu", disable_passes=("sparse_lookups",))
    on_card = model.on_card()
    for kind in ("TableProbe", "TableGather", "TableApplyAdam"):
        (op,) = (op for op in on_card if op.type == f"TfBooster{kind}")
        for place, tensor in enumerate(op.inputs):
            if tensor.dtype != tf.resource:
                assert not _compat.input_in_host_memory(op, place)
    assert "TfBoosterUnique" in {op.type for op in on_card}


@pytest.mark.parametrize("device", ["auto", "gpu"])
def test_numbers_do_not_depend_on_where(device, monkeypatch):
    with monkeypatch.context() as patch:
        gpu_kernels.pretend(patch)
        model = Model(device)
    same(trained(model), trained(Model("cpu")))


def test_checkpoints_are_the_same_both_ways(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        gpu_kernels.pretend(patch)
        card = [Model("gpu", saver_first) for saver_first in (True, False)]
    host = Model("cpu")
    trained(host, save=str(tmp_path / "host"))
    trained(card[0], save=str(tmp_path / "card"))
    written = [tf.train.load_checkpoint(str(tmp_path / name)) for name in ("host", "card")]
    names = [reader.get_variable_to_shape_map() for reader in written]
    assert names[0] == names[1] and "user/slots/m" in names[0]
    want = trained(host, restore=str(tmp_path / "host"))
    for model in card:
        same(trained(model, restore=str(tmp_path / "host")), want)
    same(trained(host, restore=str(tmp_path / "card")), want)


def test_a_warm_start_reads_strings_on_the_host(gpu, tmp_path):
    gpu.setattr(tf.config, "get_visible_devices", lambda kind=None: [])
    trained(Model("cpu"), save=str(tmp_path / "model"))
    gpu_kernels.pretend(gpu)
    with tf.Graph().as_default() as graph:
        table = tf_booster.get_hash_table("user", 4)
        tf_booster.embedding_lookup(table, tf.constant([1], tf.int64))
        warm_start.init_from_checkpoint(None, str(tmp_path / "model"), {"user": table})
        pipelines.rewrite(graph, Options(device="gpu"))
        (restore,) = GraphView(graph).ops("TfBoosterTableRestore")
        assert restore.device == CARD and restore.inputs[1].op.device == HOST


def small(graph_device, option, name="t"):
    with tf.Graph().as_default() as graph:
        with tf.device(graph_device):
            table = tf_booster.get_hash_table(name, 4)
        rows = tf_booster.embedding_lookup(table, tf.constant([1, 2], tf.int64))
        v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
        report = pipelines.rewrite(graph, Options(device=option))
        return registry.rewritten(graph)[name], report


def test_a_programs_own_device_holds(gpu):
    table, report = small("/cpu:0", "auto")
    assert table.handle.device == HOST and table.kind == "cpu"
    assert "program's tf.device" in dict(of_tables(report).skipped)["t"]
    table, report = small("/cpu:0", "gpu")
    assert table.handle.device == CARD and not of_tables(report).skipped
    for option in ("auto", "gpu"):
        table, _ = small("/device:GPU:1", option)
        assert table.handle.device == "/device:GPU:1" and table.kind == "gpu"
    assert small("/device:GPU:1", "cpu")[0].handle.device == HOST


def test_tables_of_two_devices_are_not_fused(gpu):
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            large = tf_booster.get_hash_table("large", 4)
        tables = [large, tf_booster.get_hash_table("small", 4)]
        ids = tf.constant([1, 2], tf.int64)
        rows = [tf_booster.embedding_lookup(table, ids) for table in tables]
        v1.train.AdagradOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(r) for r in rows]))
        report = pipelines.rewrite(graph, Options())
        applies = GraphView(graph).ops("TfBoosterTableApplyAdagrad")
    assert sorted(op.device for op in applies) == ["", HOST] and report.device == "cpu and gpu"
    assert any("they live on other devices" in reason for _, reason in of_tables(report).skipped)


def test_a_library_without_cuda_says_so(gpu):
    gpu.setattr(_compat, "_gpu_kernels", lambda op_type: ())
    table, report = small(None, "auto")
    assert table.handle.device == HOST
    assert "built without CUDA" in dict(of_tables(report).skipped)["t"]
    with pytest.raises(RewriteError, match="built without CUDA"):
        small(None, "gpu")
    with pytest.raises(ValueError, match="option 'device' is 'gpu', but .* built without CUDA"):
        tf.enable_gpu_booster(device="gpu")


def test_several_ranks_have_tables_on_cards_where_asked(gpu):
    assert "several ranks" in table_placement.Placer("auto", several_ranks=True).place("t", None).reason
    assert table_placement.Placer("gpu", several_ranks=True).place("t", None).device == CARD


def test_a_second_rewrite_stays_where_the_first_put_it(gpu):
    model = Model("gpu")
    with model.graph.as_default():
        tf_booster.embedding_lookup(model.tables[0], tf.constant([5], tf.int64))
        pipelines.rewrite(model.graph, Options(device="cpu"))
    assert {op.device for op in model.table_ops()} == {CARD}


def test_what_failed_is_undone_with_its_devices(gpu):
    with tf.Graph().as_default() as graph:
        with tf.device("/device:CPU:0"):
            size = tf_booster.get_hash_table("t", 4).size()
        view = GraphView(graph)
        HashTables(device="gpu").run(view)
        assert size.op.device == CARD
        view.rollback()
        assert size.op.device == HOST
