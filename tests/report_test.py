import dataclasses
import html.parser
import json
import re
import sys

import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat, options
from tf_booster.passes import pipelines
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.fetches import Fetches, executed, fetches_of
from tf_booster.passes.graph_summary import summarize
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.roles import ROLES, roles
from tf_booster.report import Report

v1 = tf.compat.v1


@pytest.fixture
def made():
    with tf.Graph().as_default():
        table = tf_booster.get_hash_table("user", 4, min_frequency=2)
        values = tf_booster.embedding_lookup(table, v1.placeholder(tf.int64, [None]))
        v1.train.AdamOptimizer().minimize(tf.reduce_sum(values))
        v1.summary.scalar("mean_of_all", tf.reduce_mean(table.variable))
        yield tf_booster.rewrite_graph()


def test_to_dict_keeps_the_contract_and_json_can_write_it(made):
    found = json.loads(json.dumps(made.to_dict()))
    assert set(found) >= {"passes", "tables", "variables", "collectives_per_step", "device", "rank", "size"}
    assert set(found["collectives_per_step"]) == {"tables", "dense", "sparse", "other"}
    assert (found["device"], found["rank"], found["size"]) == ("cpu", 0, 1)
    (one,) = (each for each in found["passes"] if each["name"] == "hash_tables")
    assert one["modified"] is True
    assert one["changes"] == [
        "table 'user' [4]: 1 lookup, trained by adam (fused; moves the rows that have a gradient, TensorFlow's moves every row)"
    ]
    assert [set(s) for s in one["skipped"]] == [{"node", "reason"}] and one["skipped"][0]["node"] == "mean_of_all"
    (table,) = found["tables"]
    assert (table["name"], table["dim"], table["optimizer"], table["slots"]) == ("user", 4, "adam", ["m", "v"])
    assert (table["min_frequency"], table["lookups"]) == (2, 1)


def test_a_pass_with_other_last_bits_says_so_and_how_to_keep_them(made):
    assert not made.to_dict()["passes"][0]["other_bits"] and "other last bits" not in str(made)
    reordered = dataclasses.replace(
        made, passes=[PassResult("small_matmuls", modified=True, changes=["20 products by 4 ops"], other_bits=True)]
    )
    assert reordered.to_dict()["passes"][0]["other_bits"]
    assert "disable_passes=['small_matmuls'] keeps TensorFlow's" in str(reordered)


def test_str_tells_people_the_same(made):
    text = str(made)
    for part in (
        "1 table(s) on cpu",
        "table user: dim 4, on the cpu, adam (m, v)",
        "min_frequency 2",
        "skipped mean_of_all",
        "NaN",
    ):
        assert part in text


def test_the_last_rewritten_graph_is_reported(made):
    assert tf_booster.report() is made


def test_before_the_first_rewrite_the_report_is_empty_and_says_so(monkeypatch):
    monkeypatch.setattr(sys.modules[Report.__module__], "_last", None)
    empty = tf_booster.report()
    assert empty.to_dict()["tables"] == [] and "No graph has been rewritten" in str(empty)


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


def test_write_html_writes_one_page_that_needs_nothing_else(made, tmp_path):
    path = tmp_path / "new folder" / "report.html"
    made.write_html(str(path))
    page = _Page()
    page.feed(path.read_text())
    text = " ".join(page.text)
    assert page.links == [] and "script" in page.tags and "table" in page.tags
    for part in ("user", "adam", "m, v", "truncated_normal(mean=0, stddev=0.5)", "mean_of_all"):
        assert part in text


def test_write_html_escapes_names(tmp_path):
    odd = Report(note="<b>&")
    odd.write_html(str(tmp_path / "r.html"))
    assert "&lt;b&gt;&amp;" in (tmp_path / "r.html").read_text()


def build_dense(x, name="w"):
    with v1.variable_scope(name):
        return x @ v1.get_variable("kernel", [4, 4], use_resource=True)


class CutSquares(Pass):
    """Makes readers of a Square read what it reads: a pass whose figures are easily counted."""

    name = "cut_squares"

    def requires(self, view):
        return any(op.outputs[0].consumers() for op in view.ops("Square"))

    def run(self, view):
        for op in view.ops("Square"):
            view.redirect(op.outputs[0], op.inputs[0])
        many = [(f"node_{i}", f"op 'node_{i}' is odd") for i in range(200)]
        variables = [{"name": "w", "shape": [4, 4], "optimizer": "adam", "fused_into": "one", "reason": ""}]
        left = [{"name": "u", "shape": [4], "optimizer": "adam", "fused_into": None, "reason": "constraint"}]
        return PassResult(self.name, True, ["cut"], [*many, ("other", "alone")], [*variables, *left])

    def ensures(self, view):
        pass


@pytest.fixture
def cut():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4])
        loss = v1.losses.compute_weighted_loss(tf.reduce_mean(tf.square(tf.square(build_dense(x)))))
        v1.train.AdamOptimizer().minimize(loss)
        yield pipelines.rewrite(graph, options.Options(), only=[CutSquares()])


def test_ops_of_a_step_are_counted_before_and_after(cut):
    ops = cut.to_dict()["ops"]
    assert ops["counted_from"] == "the collection TRAIN_OP"
    assert ops["before"]["types"]["Square"] == 2 and "Square" not in ops["after"]["types"]
    assert (
        ops["before"]["total"] - ops["after"]["total"]
        == 2
        == sum(ops["before"]["types"].values()) - ops["after"]["total"]
    )
    assert "RestoreV2" not in ops["before"]["types"] and "RandomUniform" not in ops["before"]["types"], (
        "they run in no step"
    )
    assert f"ops in a step: {ops['before']['total']} before, {ops['after']['total']} after" in str(cut)
    assert "Square 2 -> 0" in str(cut)


def test_crossings_are_none_without_a_gpu_and_the_report_says_why(cut):
    crossings = cut.to_dict()["crossings"]
    assert (crossings["before"], crossings["after"]) == (0, 0) and "no GPU" in crossings["note"]


def test_crossings_are_edges_between_devices(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    plain, host = _compat.GpuKernel((), frozenset()), _compat.GpuKernel((), frozenset(["shape", "output"]))
    kernels = {"MatMul": plain, "Reshape": host, "Shape": host, "Placeholder": plain, "Const": host}
    monkeypatch.setattr(_compat, "_gpu_kernels", lambda op_type: (kernels[op_type],) if op_type in kernels else ())
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 4])
        y = tf.reshape(x @ x, tf.shape(x))  # Shape leaves its output in host memory, where Reshape reads it.
        kept = tf.unique(tf.reshape(y, [16])).y  # To the host. The constant [16] is what a crossing costs too.
        z = tf.reshape(kept, [4, 4])  # And back: the value; and again a constant.
        found = summarize(GraphView(graph), Fetches((z.op.name,), (), "the test"))
        assert found.crossings == 2 and "kernels" in found.crossings_note


def test_memory_of_variables_counts_slots(cut):
    memory = cut.to_dict()["memory"]["variables"]
    assert memory["trainable"] == {"count": 1, "bytes": 64} and memory["other"] == {"count": 4, "bytes": 2 * 64 + 2 * 4}
    assert memory["largest"][0]["bytes"] == 64 and memory["unknown"] == []
    assert "1 trainable Variables 64 B" in str(cut)


def test_variables_tell_where_they_went(cut):
    assert [v["fused_into"] for v in cut.to_dict()["variables"]] == ["one", None]
    assert "Variables: 1 of 2 updated by 1 fused op" in str(cut)


def test_hundreds_of_refusals_for_one_reason_are_one_line(cut):
    lines = [line.strip() for line in str(cut).splitlines() if "skipped" in line]
    assert lines == [
        "skipped 200 (node_0, node_1, node_2, ...): op 'node_0' is odd (and the like)",
        "skipped other: alone",
    ]
    assert len(cut.to_dict()["passes"][0]["skipped"]) == 201


def test_the_page_draws_the_graph_before_and_after(cut, tmp_path):
    cut.write_html(str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    (data,) = re.findall(r"const GRAPHS = (.*);", text)
    graphs = json.loads(data)
    for name, summary in (("before", cut.before), ("after", cut.after)):
        scopes, edges = graphs[name]["scopes"], graphs[name]["edges"]
        assert sum(ops for _, _, ops, _, _ in scopes) == summary.num_ops
        assert {role for role, *_ in scopes} <= set(ROLES) and all(a != b for a, b, _ in edges)
    assert ["updates", 1] in [
        [role, ops] for role, _, ops, _, types in graphs["before"]["scopes"] if "ResourceApplyAdam" in types
    ]


def test_a_graph_of_ten_thousand_ops_makes_a_page_under_a_megabyte(tmp_path):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4])
        for i in range(400):
            with v1.name_scope(f"block_{i}"), v1.name_scope("</script>"[2:8]):
                for _ in range(25):
                    x = tf.raw_ops.Neg(x=x)
        tf.square(x)
        found = summarize(GraphView(graph), fetches_of(GraphView(graph)))
    made = Report(before=found, after=found)
    made.write_html(str(tmp_path / "r.html"))
    assert found.num_ops == 10002 and len(found.scopes) <= 1500
    assert (tmp_path / "r.html").stat().st_size < 2**20


def test_parts_of_a_step():
    with tf.Graph().as_default() as graph:
        features = v1.placeholder(tf.string, [None], name="features")
        ids = tf.strings.to_hash_bucket_fast(features, 10, name="ids")
        with v1.variable_scope("e"):
            rows = tf.nn.embedding_lookup(v1.get_variable("w", [10, 4], use_resource=True), ids)
        loss = v1.losses.compute_weighted_loss(tf.reduce_sum(build_dense(rows), name="sum"))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        view = GraphView(graph)
        fetches = fetches_of(view)
        assert fetches.names == (train_op.name,)
        order = executed(view, fetches.names)
        index = view.index()
        found = {
            index.ops[n].name: role for n, role in zip(order, roles(index, order, set(executed(view, [loss.op.name]))))
        }
        by_type = {index.ops[n].type: found[index.ops[n].name] for n in order}
        assert found["features"] == found["ids"] == "input"
        assert by_type["ResourceGather"] == "lookups" and found["sum"] == "dense part"
        assert by_type["ResourceSparseApplyAdagrad"] == found[train_op.name] == "updates"
        assert all(role == "gradients" for name, role in found.items() if "MatMul_grad" in name)


def test_the_report_of_a_rewritten_graph_outlives_one_that_had_nothing_to_do(made):
    with tf.Graph().as_default() as graph:
        other = tf_booster.rewrite_graph(graph)
    assert tf_booster.report() is made and "as it was" in other.note


def test_sizes_are_known_once_a_session_has_ended(tmp_path):
    tf.enable_gpu_booster()
    try:
        with tf.Graph().as_default():
            v1.train.create_global_step()
            table = tf_booster.get_hash_table("t", 4, eviction={"max_rows": 2, "order": "lru"})
            step = v1.train.get_global_step()
            values = tf_booster.embedding_lookup(table, [step, step + 1])
            train_op = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(values), step)
            with v1.train.MonitoredTrainingSession() as session:
                report = tf_booster.report()
                assert report.tables[0]["rows"] is None and "evicted" not in str(report)
                for _ in range(5):
                    session.run(train_op)
    finally:
        tf_booster.disable_gpu_booster()
    assert tf_booster.report() is report
    (table,) = report.to_dict()["tables"]
    assert (table["rows"], table["evicted"], table["step"], table["pending"]) == (2, 4, 5, 0) and table["bytes"] > 0
    assert "at the end 2 rows, 0 keys not admitted yet, 4 evicted" in str(report)
    row_and_key = 4 * table["dim"] * (1 + len(table["slots"])) + 8
    assert table["overhead_bytes_per_row"] == round(table["bytes"] / 2 - row_and_key, 1) > 0
    assert "B a row beyond row and key" in str(report)
