"""Pruning of exported graphs: what goes, and what must stay."""

import tensorflow as tf

from tf_booster import _native
from tf_booster.estimator.saved_model import forget_card, prune
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1


def example():
    """A MetaGraphDef with a cut-off stand-in, a live Variable, and what hangs on either."""
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None], "ids")
        stand_in = v1.get_variable("user_emb", [1, 2], use_resource=True)
        tf.identity(_native.ops().tf_booster_stand_in_ids(ids, table_name="user_emb"), "dead_codes")
        tf.multiply(stand_in, tf.constant(3.0, name="only_for_the_dead"), name="dead")
        weight = v1.get_variable("weight", [2], use_resource=True)
        with tf.control_dependencies([stand_in.initializer]):
            tf.no_op("waits")
        with v1.colocate_with(stand_in.op):
            tf.identity(tf.cast(ids, tf.float32)[0] * weight, "out")
        GraphView(ids.graph).remove_variables([stand_in.handle.op])
        meta_graph = v1.train.export_meta_graph()
    signature = meta_graph.signature_def["serving_default"]
    signature.inputs["ids"].name, signature.outputs["out"].name = "ids:0", "out:0"
    return meta_graph


def nodes(meta_graph):
    return {node.name: node for node in tf.compat.v1.GraphDef.FromString(meta_graph.graph_def.SerializeToString()).node}


def test_the_dead_go_and_the_living_stay():
    meta_graph = example()
    before = nodes(meta_graph)
    removed = prune(meta_graph, ["user_emb"])
    after = nodes(meta_graph)
    assert removed == len(before) - len(after) > 5
    assert not {"user_emb", "user_emb/Assign", "dead", "dead_codes", "only_for_the_dead"} & set(after)
    assert not [name for name, node in after.items() if node.op.startswith("TfBoosterStandIn")]
    assert {"ids", "weight", "weight/Assign", "weight/Read/ReadVariableOp", "out"} <= set(after)
    assert "^user_emb/Assign" in before["waits"].input and "^user_emb/Assign" not in after["waits"].input
    assert "_class" in before["out"].attr and "_class" not in after["out"].attr
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.import_meta_graph(meta_graph)
        session.run(v1.global_variables_initializer())
        assert session.run("out:0", {"ids:0": [0]}).tolist() == [0.0, 0.0]


def test_a_signature_that_needs_a_stand_in_keeps_everything():
    meta_graph = example()
    meta_graph.signature_def["serving_default"].outputs["dead"].name = "dead:0"
    before = nodes(meta_graph)
    assert prune(meta_graph, ["user_emb"]) == 0
    assert nodes(meta_graph) == before


def test_tables_of_an_export_are_on_no_card():
    with tf.Graph().as_default():
        with tf.device("/device:GPU:0"):
            _native.ops().tf_booster_stand_in_table(table_name="t")
            tf.constant(1.0, name="the_programs_own")
        with tf.device("/device:CPU:0"):
            _native.ops().tf_booster_stand_in_table(table_name="t", name="host")
        meta_graph = v1.train.export_meta_graph()
    assert forget_card(meta_graph) == 1
    devices = {name: node.device for name, node in nodes(meta_graph).items()}
    assert devices == {
        "TfBoosterStandInTable": "",
        "the_programs_own": "/device:GPU:0",
        "host": "/device:CPU:0",
    }


def test_a_graph_without_stand_ins_stays_as_it_is():
    with tf.Graph().as_default():
        v1.get_variable("weight", [2], use_resource=True)
        meta_graph = v1.train.export_meta_graph()
    before = meta_graph.SerializeToString(deterministic=True)
    assert prune(meta_graph, []) == 0
    assert meta_graph.SerializeToString(deterministic=True) == before
