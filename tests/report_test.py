import html.parser
import json
import sys

import pytest
import tensorflow as tf

import tf_booster
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
    (one,) = found["passes"]
    assert one["name"] == "hash_tables" and one["modified"] is True
    assert one["changes"] == [
        "table 'user' [4]: 1 lookup, trained by adam (fused; moves the rows that have a gradient, TensorFlow's moves every row)"
    ]
    assert [set(s) for s in one["skipped"]] == [{"node", "reason"}] and one["skipped"][0]["node"] == "mean_of_all"
    (table,) = found["tables"]
    assert (table["name"], table["dim"], table["optimizer"], table["slots"]) == ("user", 4, "adam", ["m", "v"])
    assert (table["min_frequency"], table["lookups"]) == (2, 1)


def test_str_tells_people_the_same(made):
    text = str(made)
    for part in (
        "1 table(s) on cpu",
        "table user: dim 4, adam (m, v)",
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
    assert page.links == [] and "script" not in page.tags and "table" in page.tags
    for part in ("user", "adam", "m, v", "truncated_normal(mean=0, stddev=0.5)", "mean_of_all"):
        assert part in text


def test_write_html_escapes_names(tmp_path):
    odd = Report(note="<b>&")
    odd.write_html(str(tmp_path / "r.html"))
    assert "&lt;b&gt;&amp;" in (tmp_path / "r.html").read_text()


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
