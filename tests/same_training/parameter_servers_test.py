"""Programs with parameter servers in processes of their own: plain TensorFlow's numbers, fewer bytes, and servers without the library."""

import json

import numpy as np
import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, input_fn
from server_cluster import cluster_of, devices_of, moved
from tensorflow.core.protobuf import rewriter_config_pb2
from training_pair import boosted, compare_estimators, session_config

from tf_booster.report import report_of

v1 = tf.compat.v1
fc = tf.feature_column
BATCH, BAG, ROWS = 64, 20, 3000
WITHOUT = "/job:ps/task:2"  # This server never imports tf_booster.


@pytest.fixture(scope="module")
def cluster():
    with cluster_of(True, True, False, workers=1) as made:
        yield made


def variable(name, rows=ROWS, dim=16, **kwargs):
    start = v1.random_normal_initializer(seed=len(name))
    return v1.get_variable(name, [rows, dim], initializer=start, use_resource=True, **kwargs)


def bags(seed, rows=ROWS, least=0, most=BAG, batch=BATCH):
    """Ids and weights of `batch` bags, some of them empty unless `least` is 1."""
    random = np.random.RandomState(seed)
    places = [(row, place) for row in range(batch) for place in range(random.randint(least, most + 1))]
    indices = v1.placeholder_with_default(np.array(places, np.int64).reshape(-1, 2), [None, 2])
    shape = v1.placeholder_with_default(np.array([batch, most], np.int64), [2])
    ids = v1.placeholder_with_default(random.randint(0, rows, len(places)), [None])
    weights = v1.placeholder_with_default(random.rand(len(places)).astype(np.float32) + 0.1, [None])
    return tf.SparseTensor(indices, ids, shape), tf.SparseTensor(indices, weights, shape)


def lookup(params, ids, weights=None, **kwargs):
    return v1.nn.safe_embedding_lookup_sparse(params, ids, weights, **kwargs)


def train(parts, optimizer=None, clip=False):
    """The loss, and the train op, of a layer over `parts`."""
    start = v1.glorot_uniform_initializer(seed=1)
    loss = tf.reduce_sum(tf.sin(v1.layers.dense(tf.concat(parts, 1), 4, tf.tanh, kernel_initializer=start)))
    optimizer = optimizer or v1.train.AdagradOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    if clip:
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
    return loss, optimizer.apply_gradients(zip(gradients, variables), v1.train.get_global_step())


def all_kinds():
    """Bags that are worth summing up there, ids that are not, weights, combiners, a table that two features share."""
    first, first_weights = bags(1)
    second, second_weights = bags(2)
    few, _ = bags(3, rows=10, most=5)
    shared = variable("shared")
    return train(
        [
            lookup([variable("mean")], first, combiner="mean"),
            lookup([variable("sum", dim=24)], first, first_weights, combiner="sum"),
            lookup([variable("root")], second, second_weights, combiner="sqrtn"),
            lookup([variable("few", rows=10)], few, combiner="sum"),
            lookup([shared], first, combiner="mean"),
            lookup([shared], second, combiner="mean"),
            v1.nn.embedding_lookup_sparse([variable("unsafe")], bags(4, least=1, most=1)[0], None, combiner="mean"),
        ]
    )


def partitioned(strategy):
    """A table in three parts, beside one in one."""
    ids, weights = bags(1, least=1)
    parts = variable("parts", partitioner=v1.fixed_size_partitioner(3))
    whole = lookup([variable("whole")], ids, combiner="sum")
    return train([v1.nn.embedding_lookup_sparse(parts, ids, weights, partition_strategy=strategy), whole])


def config_of(job):
    """Of the sessions of one job, as Estimator makes them: they wait for no other job but the servers."""
    config = session_config()
    config.device_filters.extend(["/job:ps", f"/job:{job}/task:0"])
    return config


def run(cluster, program, boost=True, ps_tasks=2, steps=4, placer=None, started=lambda: None):
    """Losses and Variables after training, what a step moves, the graph and its report."""
    config = config_of("chief")
    rewrites = config.graph_options.rewrite_options
    rewrites.arithmetic_optimization = rewrites.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    placer = placer or v1.train.replica_device_setter(ps_tasks, worker_device="/job:chief/task:0")
    with boosted(boost), tf.Graph().as_default() as graph, v1.device(placer):
        v1.set_random_seed(5)
        v1.train.get_or_create_global_step()
        loss, op = program()
        variables = sorted(v1.global_variables(), key=lambda v: v.name)
        with v1.train.MonitoredTrainingSession(cluster.target, config=config, save_checkpoint_secs=None) as session:
            started()
            losses = [session.run([loss, op])[0] for _ in range(steps)]
            plain = session._tf_sess()  # pylint: disable=protected-access
            weights = plain.run(variables)
            crossed = moved(plain, [loss, op])
    return losses, weights, crossed, graph, report_of(graph)


def check_same(cluster, program, **kwargs):
    """Both, bit for bit."""
    plain = run(cluster, program, boost=False, **kwargs)
    mine = run(cluster, program, **kwargs)
    assert len(set(plain[0])) > 1 and plain[0] == mine[0]
    for a, b in zip(plain[1], mine[1]):
        np.testing.assert_array_equal(a, b)
    assert not [s for p in mine[4].passes for s in p.skipped if "undone" in s[1]]
    return plain, mine


def reasons(report, name="server_lookups"):
    return " ".join(reason for p in report.passes if p.name == name for _, reason in p.skipped)


def test_all_kinds_of_lookups_move_less(cluster):
    plain, mine = check_same(cluster, all_kinds)
    assert sum(mine[2].bytes.values()) < 0.4 * sum(plain[2].bytes.values()), (plain[2], mine[2])
    for server in ("ps:0", "ps:1"):
        # One reply, one request, one of gradients; the rest is the dense layer's, and what this trace fetches; of TensorFlow 2.14 and before
        # the learning rate, too, which later ones have on each server.
        assert mine[2].tensors[server, "chief:0"] <= 3 < plain[2].tensors[server, "chief:0"]
        assert mine[2].tensors["chief:0", server] <= 5 < plain[2].tensors["chief:0", server]
    placed = devices_of(mine[3])
    assert sorted(placed["TfBoosterLookupReply"]) == ["/job:ps/task:0", "/job:ps/task:1"]
    assert placed["TfBoosterLookupRequest"] == ["/job:chief/task:0"] * 2


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_parts_of_a_table_are_asked_for_together(cluster, strategy):
    plain, mine = check_same(cluster, lambda: partitioned(strategy))
    assert sum(mine[2].tensors.values()) < sum(plain[2].tensors.values())
    assert sum(mine[2].bytes.values()) < sum(plain[2].bytes.values())


def test_a_batch_without_rows(cluster):
    def program():
        ids, _ = bags(1, batch=0)
        rows = lookup([variable("rows")], ids)
        return train([tf.concat([rows, lookup([variable("others")], bags(2)[0])], 0)], v1.train.AdamOptimizer(0.01))

    check_same(cluster, program)


def test_gradients_that_are_needed_here_leave_rows_to_travel(cluster):
    def program():
        ids, all_weights = bags(1)
        parts = [lookup([variable(name)], ids, all_weights if name == "c" else None) for name in "abcd"]
        return train(parts, clip=True)

    plain, mine = check_same(cluster, program)
    assert "the gradient of its rows is needed here" in reasons(mine[4])
    assert sum(mine[2].tensors.values()) < sum(plain[2].tensors.values())


def test_a_server_without_the_library(cluster):
    """Its part stays TensorFlow's, also beside a server that has it."""

    def only_there(op):
        return WITHOUT if op.type == "VarHandleOp" else "/job:chief/task:0"

    plain, mine = check_same(cluster, lambda: partitioned("div"), placer=only_there)
    assert mine[2].bytes["ps:2", "chief:0"] == plain[2].bytes["ps:2", "chief:0"]  # Rows come back as they did.
    assert all(WITHOUT not in devices for devices in devices_of(mine[3]).values())
    wanted = f"the server {WITHOUT} does not have tf_booster's ops, or older ones: import tf_booster and call tf.enable_gpu_booster() there"
    for name in ("server_lookups", "variable_gathers", "variable_updates"):
        assert wanted in reasons(mine[4], name)
    assert devices_of(mine[3])["TfBoosterPoolLookups"]

    _, mine = check_same(cluster, all_kinds, ps_tasks=3)
    assert sorted(devices_of(mine[3])["TfBoosterLookupReply"]) == ["/job:ps/task:0", "/job:ps/task:1"]


def test_a_session_that_is_not_known_asks_nobody(cluster):
    import tf_booster

    for known, replies in (({}, 0), ({"master": cluster.target, "config": config_of("chief")}, 2)):
        placer = v1.train.replica_device_setter(2, worker_device="/job:chief/task:0")
        with tf.Graph().as_default() as graph, v1.device(placer):
            v1.train.get_or_create_global_step()
            all_kinds()
            report = tf_booster.rewrite_graph(**known)
            ops = len(graph.get_operations())
            assert tf_booster.rewrite_graph(**known) is report and len(graph.get_operations()) == ops
        assert len(devices_of(graph)["TfBoosterLookupReply"]) == replies
        assert ("nothing tells whether /job:ps/task:0 has" in reasons(report)) == (not known)


def classifier(config):
    tags = fc.categorical_column_with_identity("tags", NUM_TAGS)
    ids = fc.categorical_column_with_identity("id", NUM_IDS)
    return tf.compat.v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[tags, ids],
        dnn_feature_columns=[
            fc.embedding_column(tags, 8),
            fc.embedding_column(ids, 4),
            fc.numeric_column("numbers", 3),
        ],
        dnn_hidden_units=[8],
        dnn_optimizer=v1.train.AdagradOptimizer(0.05),
        linear_optimizer=v1.train.FtrlOptimizer(0.05),
        config=config,
    )


def test_a_canned_estimator_and_its_checkpoint(cluster, tmp_path, monkeypatch):
    """The checkpoint has the plain program's entries."""
    spec = {"cluster": {**cluster.spec, "ps": cluster.spec["ps"][:2]}, "task": {"type": "chief", "index": 0}}
    v1.disable_control_flow_v2()  # With it TensorFlow itself cannot place the summary of zeros in a linear model.
    monkeypatch.setenv("TF_CONFIG", json.dumps({**spec, "environment": "cloud"}))
    try:
        mine = compare_estimators(classifier, input_fn(), tmp_path, 10, session_config=config_of("chief"))
    finally:
        v1.enable_control_flow_v2()
    assert any(p["name"] == "server_lookups" and p["modified"] for p in mine.report["passes"])
    assert sorted(mine.entries) == sorted(name for name in mine.entries if "tf_booster" not in name)


def work(cluster):
    """A worker's training, in a process of its own."""
    server = v1.train.Server(cluster, job_name="worker", task_index=0, config=session_config())
    placer = v1.train.replica_device_setter(2, worker_device="/job:worker/task:0")
    with boosted(), tf.Graph().as_default() as graph, v1.device(placer):
        step = v1.train.get_or_create_global_step()
        loss, op = all_kinds()
        config = config_of("worker")
        with v1.train.MonitoredTrainingSession(server.target, is_chief=False, config=config) as session:
            for _ in range(20):
                assert np.isfinite(session.run([loss, op])[0])
            assert session.run(step) >= 20
        assert len(devices_of(graph)["TfBoosterLookupReply"]) == 2


def test_two_workers_at_once(cluster):
    def start():  # A worker that finds no Variables yet looks again in half a minute.
        cluster.start_worker("parameter_servers_test", "work", cluster=cluster.spec)

    losses = run(cluster, all_kinds, steps=200, started=start)[0]
    assert cluster.wait_for_worker() == 0
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
