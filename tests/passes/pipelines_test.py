"""The passes together: order, switches, one that fails."""

import logging
import os
import re
import subprocess
import sys

import pytest
import tensorflow as tf

import tf_booster
from tf_booster import log, options
from tf_booster.passes import pipelines, servers
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def said(caplog, monkeypatch):
    monkeypatch.setattr(log, "_said", set())
    with caplog.at_level(logging.INFO, logger="tensorflow"):
        yield lambda: [record.getMessage() for record in caplog.records if "tf_booster" in record.getMessage()]


class NegToAbs(Pass):
    """Makes what reads a Neg read an Abs of its input."""

    name = "neg_to_abs"

    def __init__(self, fail=None, ensure=True):
        self.fail, self.ensure = fail, ensure

    def requires(self, view):
        return any(op.outputs[0].consumers() for op in view.ops("Neg"))

    def run(self, view):
        result = PassResult(self.name, modified=True, changes=["abs"], variables=[{"name": "v"}])
        for op in view.ops("Neg"):
            with view.inserting(None):
                new = tf.abs(op.inputs[0])
            view.redirect(op.outputs[0], new)
            view.add_to_collection("changed", op.name)
        if self.fail:
            raise self.fail
        return result

    def ensures(self, view):
        if not self.ensure:
            raise RewriteError("not what it was meant to be")


def test_a_pass_that_finds_nothing_says_what_it_looked_for():
    with tf.Graph().as_default() as graph:
        tf.linalg.matmul(v1.placeholder(tf.float32, [None, 4]), tf.ones([4, 4]), name="product")
        report = pipelines.rewrite(graph, options.Options())
    assert not report.modified
    notes = {p.name: p.note for p in report.passes}
    assert all(note.startswith("found no ") or p.skipped for p, note in zip(report.passes, notes.values())), notes
    assert "TFRecordDataset" in notes["input_pipeline"] and "pass input_pipeline: found no records" in str(report)
    # A pass that looked through the graph, and neither changed nor left anything, says the same.
    assert notes["columns"] == "found no concat or split of many narrow parts"


class Later(NegToAbs):
    name = "later"


def build():
    return tf.exp(tf.negative(tf.constant(-1.0))).op


def test_every_pass_can_be_left_out_by_name_but_the_one_that_tables_need():
    known = [p.name for p in pipelines.passes(options.Options(fuse_variables=True, xla="padded"))]
    known.remove("hash_tables")
    assert set(known) <= set(options.PASSES) and known == [name for name in options.PASSES if name in known]
    off = pipelines.passes(options.Options(disable_passes=options.PASSES, xla="padded"))
    assert [p.name for p in off] == ["hash_tables"]


def test_only_chosen_passes_run(graph):
    end = build()
    report = pipelines.rewrite(graph, options.Options(), only=[NegToAbs()])
    assert end.inputs[0].op.type == "Abs" and [p.name for p in report.passes] == ["neg_to_abs"]
    assert report.to_dict()["variables"] == [{"name": "v"}]


@pytest.mark.parametrize("error", [ValueError("odd shape"), RewriteError("no"), KeyError("x")], ids=str)
def test_a_pass_that_fails_midway_is_undone_and_the_next_one_runs(graph, said, error):
    end = build()
    seen = []

    class Look(Later):
        def run(self, view):
            seen.append(end.inputs[0].op.type)
            assert graph.get_collection("changed") == []
            return super().run(view)

    report = pipelines.rewrite(graph, options.Options(), only=[NegToAbs(fail=error), Look()])
    assert seen == ["Neg"] and end.inputs[0].op.type == "Abs"
    failed, later = report.passes
    assert (failed.modified, later.modified) == (False, True)
    ((node, reason),) = failed.skipped
    assert node == "neg_to_abs" and type(error).__name__ in reason and "disable_passes=['neg_to_abs']" in reason
    assert any("failed and is undone" in message for message in said())


def test_what_a_pass_does_not_ensure_is_undone(graph):
    end = build()
    report = pipelines.rewrite(graph, options.Options(), only=[NegToAbs(ensure=False)])
    assert end.inputs[0].op.type == "Neg" and "not what it was meant" in report.passes[0].skipped[0][1]


def test_a_pass_that_makes_a_cycle_is_undone(graph):
    """TensorFlow would refuse to run such a graph."""
    end = build()

    class Turn(Later):
        def run(self, view):
            old = end.inputs[0].op
            with view.inserting(old.device):
                new = tf.abs(old.outputs[0])
            view.redirect(old.inputs[0], new)
            return PassResult(self.name, modified=True)

    was = end.inputs[0].op.inputs[0]
    report = pipelines.rewrite(graph, options.Options(), only=[Turn()])
    assert end.inputs[0].op.inputs[0] is was
    assert re.search("Op 'Abs.*would wait for itself", report.passes[0].skipped[0][1])


def test_sizes_are_integers_also_behind_disable_v2_behavior(graph):
    """A Dimension cannot be multiplied as passes do, and an unknown one is not None."""
    v1.disable_v2_tensorshape()
    try:
        seen = []

        class Look(NegToAbs):
            def run(self, view):
                seen.extend(view.ops("Neg")[0].inputs[0].shape)
                return super().run(view)

        tf.exp(tf.negative(v1.placeholder(tf.float32, [None, 3])))
        assert pipelines.rewrite(graph, options.Options(), only=[Look()]).modified
        assert seen[0] is None and seen[1] ** 2 == 9
        assert isinstance(tf.TensorShape([3])[0], v1.Dimension)  # The program's own are what they were.
    finally:
        v1.enable_v2_tensorshape()


def test_an_interrupt_is_raised_and_undone(graph):
    end = build()
    with pytest.raises(KeyboardInterrupt):
        pipelines.rewrite(graph, options.Options(), only=[NegToAbs(fail=KeyboardInterrupt())])
    assert end.inputs[0].op.type == "Neg"


def test_what_tables_need_is_undone_and_raised(graph):
    end = build()
    needed = NegToAbs(fail=RewriteError("no way"))
    needed.essential = True
    with pytest.raises(RewriteError, match="no way"):
        pipelines.rewrite(graph, options.Options(), only=[needed, Later()])
    assert end.inputs[0].op.type == "Neg"


def test_hash_tables_that_fail_midway_leave_the_graph_as_it_was(graph, monkeypatch):
    table = tf_booster.get_hash_table("t", 4)
    values = tf_booster.embedding_lookup(table, v1.placeholder(tf.int64, [None]))
    train_op = v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(values))
    before = state(graph)

    def fail(*args):
        raise RuntimeError("midway")

    from tf_booster.passes import table_edit

    monkeypatch.setattr(table_edit, "_retire_variable", fail)
    with pytest.raises(RuntimeError, match="midway"):
        tf_booster.rewrite_graph(graph)
    assert {name: after for name, after in state(graph).items() if name in before} == before
    monkeypatch.undo()
    tf_booster.rewrite_graph(graph)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op, {values.op.graph.get_operation_by_name("Placeholder").outputs[0]: [3]})
        assert session.run(table.size()) == 1


def state(graph):
    found = {
        op.name: ([t.name for t in op.inputs], {c.name for c in op.control_inputs}) for op in graph.get_operations()
    }
    for key in graph.get_all_collection_keys():
        found[key] = [getattr(item, "name", item) for item in graph.get_collection(key)]
    return found


def test_a_second_run_changes_nothing_and_keeps_the_report(graph):
    build()
    first = pipelines.rewrite(graph, options.Options(), only=[NegToAbs()])
    after = state(graph)
    assert pipelines.rewrite(graph, options.Options(), only=[NegToAbs()]) is first and state(graph) == after


def test_a_graph_with_nothing_to_do_is_as_it_was_and_the_log_is_quiet(graph, said):
    tf.exp(tf.constant(1.0))
    before = graph.as_graph_def()
    report = tf_booster.rewrite_graph(graph)
    assert graph.as_graph_def() == before and said() == []
    assert "as it was" in str(report) and not any(p.modified for p in report.passes)


def test_the_same_summary_is_logged_once(said):
    for _ in range(3):
        with tf.Graph().as_default() as graph:
            build()
            pipelines.rewrite(graph, options.Options(), only=[NegToAbs()])
    assert len(said()) == 1


def test_a_finalized_graph_without_tables_is_left_with_a_reason(graph):
    end = build()
    graph.finalize()
    report = pipelines.rewrite(graph, options.Options(), only=[NegToAbs()])
    assert end.inputs[0].op.type == "Neg" and "finalized" in report.note and "MonitoredSession" in report.note


def test_passes_run_one_after_the_other_on_one_view(graph):
    build()
    views = []

    class Remember(NegToAbs):
        def run(self, view):
            views.append(view)
            return PassResult(self.name)

    pipelines.rewrite(graph, options.Options(), only=[Remember(), Remember()])
    assert isinstance(views[0], GraphView) and views[0] is views[1]


def build_model():
    """A model in which the passes but xla and input_pipeline have something to do, hash tables included."""
    ids = v1.placeholder(tf.int64, [None], "ids")
    bags = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [3, 1, 3], [2, 2])
    rows = []
    for i in range(3):
        rows.append(tf.nn.embedding_lookup(v1.get_variable(f"single_{i}", [9, 4], use_resource=True), ids))
        bag = v1.get_variable(f"bag_{i}", [9, 4], use_resource=True)
        rows.append(v1.nn.safe_embedding_lookup_sparse(bag, bags, combiner="mean"))
        rows.append(tf_booster.embedding_lookup(tf_booster.get_hash_table(f"table_{i}", 4, seed=1), ids))
        distinct, places = tf.unique(ids)
        by_hand = v1.get_variable(f"by_hand_{i}", [9, 4], use_resource=True)
        rows.append(tf.gather(tf.nn.embedding_lookup(by_hand, distinct), places))
    parts = [v1.get_variable(f"part_{i}", [5, 4], use_resource=True) for i in range(2)]
    rows.append(v1.nn.embedding_lookup(parts, ids, max_norm=1.0))
    for i, row in enumerate([rows[0], rows[4], rows[8], rows[0]]):  # All by one op.
        kernel, bias = (
            v1.get_variable(f"{n}_{i}", shape, use_resource=True) for n, shape in (("tower", [4, 4]), ("bias", [4]))
        )
        rows.append(tf.nn.relu(tf.nn.bias_add(row @ kernel, bias)))
    vectors, others = tf.stack(rows[:3], 1), tf.stack(rows[2:5], 1)
    pairs, more_pairs = (
        tf.gather(tf.reshape(tf.matmul(x, x, transpose_b=True), [-1, 9]), [3, 6, 7], axis=1) for x in (vectors, others)
    )
    interaction = tf.concat([rows[4], more_pairs], 1)
    dense = [v1.placeholder_with_default(tf.constant([[1, -1], [2, 3]], tf.int64), [2, 2]) for _ in range(2)]
    here = [tf.reduce_sum(tf.gather_nd(ids, tf.where(tf.not_equal(ids, tf.constant(-1, tf.int64))))) for ids in dense]
    indicator = tf.reduce_sum(tf.one_hot(dense[0], 4), -2)
    buckets = tf.raw_ops.Bucketize(input=tf.cast(dense[0], tf.float32), boundaries=[0.0, 2.0])
    column = tf.reshape(tf.cast(dense[0], tf.float32), [-1, 1])
    thresholds = tf.tile(tf.expand_dims(tf.constant([0.0, 1.0]), [1]), [1, 4])
    above = tf.greater(tf.tile(tf.transpose(column), [2, 1]), thresholds)
    positive = tf.tile(tf.reshape(dense[1] > 1, [1, -1]), [2, 1])
    matrix = tf.reduce_sum(tf.cast(tf.logical_and(positive, above), tf.float32), 1)
    vocabulary = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([2, 3], [0, 1], tf.int64, tf.int64), -1)
    crossed = tf.sparse.cross_hashed([buckets, vocabulary.lookup(dense[1])], 10).values
    sums = tf.square(tf.reduce_sum(others, 1)) - tf.reduce_sum(tf.square(others), 1)  # Of a factorization machine.
    x = tf.concat([*rows, pairs], 1) @ v1.get_variable("w", [4 * len(rows) + 3, 1], use_resource=True)
    normalized = v1.layers.batch_normalization(x, training=True)
    deep = [v1.get_variable(f"deep_{i}", [9, 4], use_resource=True) for i in range(4)]
    joined = tf.concat([v1.nn.safe_embedding_lookup_sparse(bag, bags, combiner="mean") for bag in deep], 1)
    places = tf.constant([[[0, 1]], [[1, 0]]])
    documents = [v1.placeholder_with_default(tf.ones([2, 2, 1]), [2, 2, 1]) for _ in range(4)]
    ordered = tf.concat([tf.reshape(tf.gather_nd(column, places), [-1, 1]) for column in documents], 1)
    queued = tf.queue.FIFOQueue(9, [tf.int64, tf.float32], [[], []]).dequeue_many(2)[1]
    ends = (x, joined, interaction, sums, indicator, normalized, ordered, queued)
    loss = tf.add_n([tf.reduce_sum(tf.square(end)) for end in ends])
    loss *= tf.cast(tf.reduce_all([tf.reduce_all(tf.math.is_finite(row)) for row in rows[:3]]), tf.float32)
    loss *= tf.cast(tf.add_n([*here, tf.reduce_sum(crossed)]), tf.float32) + tf.reduce_sum(matrix)
    loss = tf.cond(tf.constant(True), lambda: loss * 0.5, lambda: loss)
    at_times = v1.get_variable("at_times", [4], use_resource=True)
    descent = v1.train.GradientDescentOptimizer(0.1)
    gradients = descent.compute_gradients(tf.reduce_sum(tf.square(at_times)), [at_times])
    flag = v1.placeholder_with_default(True, [])
    conditional = tf.cond(flag, lambda: descent.apply_gradients(gradients), tf.no_op)
    return tf.group(v1.train.AdagradOptimizer(0.1).minimize(loss), conditional)


def on_a_server(op):
    return "/job:ps/task:0" if op.type == "VarHandleOp" and op.name.startswith(("bag_", "deep_")) else ""


NAMES = [p.name for p in pipelines.passes(options.Options(fast_parser=False))]  # The model's input is fed.
OPTIONAL = [name for name in NAMES if name != "hash_tables"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_every_pass_is_undone_when_its_last_edit_fails(graph, said, name, monkeypatch):
    """What the passes before it left is what there is after it."""
    with v1.device(on_a_server if name == "server_lookups" else None):
        build_model()
    monkeypatch.setattr(servers, "why_not", lambda op: "")
    chosen = {p.name: p for p in pipelines.passes(options.Options(fast_parser=False))}
    pipelines.rewrite(graph, options.Options(), only=[chosen[n] for n in NAMES[: NAMES.index(name)]])
    before = state(graph)
    one = chosen[name]
    assert one.requires(GraphView(graph)), "the model has something for it"

    class Broken(type(one)):
        def ensures(self, view):
            raise RuntimeError("after the last edit")

    one.__class__ = Broken
    pipelines.rewrite(graph, options.Options(), only=[one])
    assert any("after the last edit" in message for message in said())
    after = state(graph)
    assert {key: (before[key], after[key]) for key in before if after[key] != before[key]} == {}


def test_the_passes_change_the_model_and_a_second_run_nothing(graph):
    build_model()
    report = tf_booster.rewrite_graph(graph)
    # The Uniques that are left stand before updates that were replaced, but may be fetched. There is no tf.data, and one process.
    unmodified = {p.name for p in report.passes if not p.modified}
    # And all its lookups are trained.
    expected = {"server_lookups", "unique", "direct_lookups", "input_pipeline", "embedding_pipeline"}
    assert unmodified == expected, str(report)
    after = state(graph)
    assert tf_booster.rewrite_graph(graph) is report and state(graph) == after


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_pass_that_is_left_out_leaves_nothing_of_it(graph, name):
    build_model()
    report = pipelines.rewrite(graph, options.Options(disable_passes=(name,)), None)
    assert name not in [p.name for p in report.passes]


def test_python_collects_garbage_again_after_the_passes(graph):
    import gc

    build()
    pipelines.rewrite(graph, options.Options(), only=[NegToAbs()])
    assert gc.isenabled()


NODES = """
import hashlib, tensorflow as tf, tf_booster
from pipelines_test import build_model
with tf.Graph().as_default() as graph:
    build_model()
    tf_booster.rewrite_graph()
    nodes = [" ".join([node.name, node.op, *node.input]) for node in graph.as_graph_def().node]
print(hashlib.sha1("\\\\n".join(nodes).encode()).hexdigest())
"""


def test_a_graph_is_rewritten_the_same_in_every_process():
    """Names and order of nodes: which op TensorFlow runs first of those that may run depends on it."""
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    processes = [
        subprocess.Popen([sys.executable, "-c", NODES], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths})
        for _ in range(3)
    ]
    told = [process.communicate(timeout=300)[0].split()[-1] for process in processes]
    assert len(set(told)) == 1, told
