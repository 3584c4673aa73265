"""What counts as fetched where no Estimator and no optimizer says it: the program's own ends, before the passes and after."""

import tensorflow as tf
from lookup_pair import ragged_ids, sparse_input, variable

import tf_booster
from tf_booster.passes.fetches import fetches_of
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
ENDS = "the ops that nothing reads"


def embed(i):
    return v1.nn.safe_embedding_lookup_sparse(variable(f"table_{i}", 30, 8), sparse_input(ragged_ids(i, 9, 30)))


def ends(graph):
    found = fetches_of(GraphView(graph))
    return found.said_by, [name for name in found.names if not name.startswith("table_")]


def test_what_passes_leave_over_is_no_end():
    with tf.Graph().as_default() as graph:
        tf.concat([embed(0), embed(1), embed(2)], 1, name="wide")
        before = ends(graph)
        report = tf_booster.rewrite_graph(graph)
        assert sum(p.modified for p in report.passes) > 2
        assert before == ends(graph) == (ENDS, ["wide"])


def test_a_fused_op_that_nothing_reads_is_fetched_by_what_it_stands_for():
    with tf.Graph().as_default() as graph:
        names = [embed(i).op.name for i in range(2)]
        tf_booster.rewrite_graph(graph)
        assert ends(graph) == (ENDS, names)


def test_what_gives_a_table_its_values_is_no_update():
    with tf.Graph().as_default() as graph:
        table = tf_booster.get_hash_table("hashed", 8)
        tf.reduce_sum(tf_booster.embedding_lookup(table, tf.constant([1, 2], tf.int64)), name="score")
        tf_booster.rewrite_graph(graph)
        said_by, names = ends(graph)
        assert said_by == ENDS and "score" in names
