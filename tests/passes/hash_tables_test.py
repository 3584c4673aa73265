"""The graph after the pass: which ops there are, what they read, what waits on them. Numbers are in tests/estimator."""

import pytest
import tensorflow as tf
from reported import of_tables

import tf_booster
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy
column = tf_booster.feature_column.categorical_column_with_hash_table
embedding_column = tf.feature_column.embedding_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        v1.train.create_global_step()
        yield made


def ids(name=None):
    return v1.placeholder(tf.int64, [None], name=name)


def lookup(table, name=None):
    return tf_booster.embedding_lookup(table, ids(name))


def minimize(loss, optimizer=None, **kwargs):
    optimizer = optimizer or v1.train.AdagradOptimizer(0.1)
    return optimizer.minimize(tf.reduce_sum(tf.square(loss)), global_step=v1.train.get_global_step(), **kwargs)


def ops(graph, kind):
    return [op for op in graph.get_operations() if op.type == f"TfBooster{kind}"]


def ancestors(fetch):
    """All ops that run when `fetch` does."""
    seen, work = set(), [fetch if isinstance(fetch, tf.Operation) else fetch.op]
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work.extend([t.op for t in op.inputs] + list(op.control_inputs))
    return seen


def types(fetch):
    return {op.type for op in ancestors(fetch)}


def test_lookup_and_update_become_table_ops(graph):
    table = tf_booster.get_hash_table("t", 4)
    values = lookup(table, "my_ids")
    train_op = minimize(values)
    tf_booster.rewrite_graph(graph)

    (handle,), (probe,), (gather,) = ops(graph, "HashTable"), ops(graph, "TableProbe"), ops(graph, "TableGather")
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert [t.name for t in probe.inputs] == [handle.outputs[0].name, "my_ids:0"]
    assert (
        gather.inputs[1] is probe.outputs[0]
        and gather.inputs[2] is probe.outputs[1]
        and list(gather.inputs)[3:] == [probe.outputs[2], probe.outputs[4]]
    )
    assert gather in ancestors(values) and probe in ancestors(values)
    assert list(apply_op.inputs)[:5] == [handle.outputs[0], *list(probe.outputs)[1:]]
    assert gather in apply_op.control_inputs, "lookups of a step read the rows as they were before it"
    assert apply_op in ancestors(train_op)
    assert not types(train_op) & {
        "VarHandleOp",
        "ResourceGather",
        "ResourceSparseApplyAdagrad",
        "TfBoosterStandInIds",
    } - {"VarHandleOp"}
    assert {op.name for op in ancestors(train_op) if op.type == "VarHandleOp"} == {"global_step"}


def test_without_a_gpu_all_table_ops_are_on_the_cpu(graph):
    with tf.device("/device:GPU:3"):
        table = tf_booster.get_hash_table("t", 4)
        minimize(lookup(table))
        tf_booster.rewrite_graph(graph)
    for kind in ("HashTable", "TableProbe", "TableGather", "TableApplyAdagrad"):
        assert [op.device for op in ops(graph, kind)] == ["/device:CPU:0"]


def test_duplicates_are_left_to_the_fused_update(graph):
    minimize(lookup(tf_booster.get_hash_table("t", 4)))
    tf_booster.rewrite_graph(graph)
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert "Unique" not in types(apply_op) and "UnsortedSegmentSum" not in types(apply_op)


def test_the_sparse_forms_use_the_order_free_unique(graph):
    table = tf_booster.get_hash_table("t", 4)
    values = tf_booster.embedding_lookup_sparse(table, v1.sparse_placeholder(tf.int64, [None, None]))
    train_op = minimize(values)
    pipelines.rewrite(graph, Options(disable_passes=("sparse_lookups",)))
    assert "TfBoosterUnique" in types(values) and "Unique" not in types(values) | types(train_op)
    gather, unique = (next(o for o in ops(graph, kind) if o in ancestors(values)) for kind in ("TableGather", "Unique"))
    assert gather.inputs[1] is unique.outputs[0] and unique.inputs[0].dtype == tf.int64


def test_gradients_by_hand_on_the_codes_themselves(graph):
    table = tf_booster.get_hash_table("t", 4)
    values = lookup(table)
    (gather,) = [op for op in graph.get_operations() if op.type == "ResourceGather"]
    rows = tf.IndexedSlices(gather.outputs[0], gather.inputs[1], tf.constant([1, 4], tf.int64))
    v1.train.GradientDescentOptimizer(0.1).apply_gradients([(rows, table.variable)])
    tf_booster.rewrite_graph(graph)
    (apply_op,), (probe,) = ops(graph, "TableApplyGradientDescent"), ops(graph, "TableProbe")
    assert apply_op.inputs[5] is probe.outputs[0] and apply_op.inputs[6] in [
        op.outputs[0] for op in ops(graph, "TableGather")
    ]
    assert values.op in GraphView.downstream([probe])


def test_attributes_of_the_table(graph):
    table = tf_booster.get_hash_table(
        "t", 4, initializer=tf.random_uniform_initializer(-0.5, 0.25), min_frequency=3,
        eviction={"max_rows": 100, "order": "lfu"}, max_rows=1000, seed=7,
    )  # fmt: skip
    minimize(lookup(table), v1.train.AdamOptimizer())
    tf_booster.rewrite_graph(graph)
    (handle,) = ops(graph, "HashTable")
    found = {name: handle.get_attr(name) for name in handle.op_def.attr and [a.name for a in handle.op_def.attr]}
    assert (found["table_name"], found["dim"], found["optimizer"]) == (b"t", 4, b"adam")
    assert (found["slot_names"], found["slot_initial_values"]) == ([b"m", b"v"], [0.0, 0.0])
    assert (found["field_names"], found["seeds"], found["min_frequencies"]) == ([b"t"], [7], [3])
    assert (found["initializers"], found["initializer_args"]) == ([b"uniform"], [-0.5, 0.25])
    assert (found["max_rows"], found["evictions"], found["eviction_args"]) == ([1000], [b"lfu"], [100])


def test_adagrads_accumulator_starts_where_the_optimizers_does(graph):
    minimize(lookup(tf_booster.get_hash_table("t", 4)), v1.train.AdagradOptimizer(0.1, initial_accumulator_value=0.5))
    tf_booster.rewrite_graph(graph)
    (handle,) = ops(graph, "HashTable")
    assert (handle.get_attr("slot_names"), handle.get_attr("slot_initial_values")) == ([b"accumulator"], [0.5])


def test_stand_ins_and_slots_leave_the_collections_and_a_saveable_comes(graph):
    other = v1.get_variable("w", [4])
    minimize(lookup(tf_booster.get_hash_table("t", 4)) * other, v1.train.AdamOptimizer())
    tf_booster.rewrite_graph(graph)
    names = {v.op.name for v in v1.global_variables()}
    assert {"w", "w/Adam", "w/Adam_1", "beta1_power"} <= names
    assert not [name for name in names if name == "t" or name.startswith("t/")]
    assert v1.trainable_variables() == [other]
    (saveable,) = graph.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)
    assert "t/keys" in [spec.name for spec in saveable.specs]


OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.1, centered=True),
    "keras sgd": lambda: keras.SGD(0.1),
    "keras momentum": lambda: keras.SGD(0.1, 0.9),
    "keras adagrad": lambda: keras.Adagrad(0.1),
    "keras adam": lambda: keras.Adam(),
    "keras rmsprop": lambda: keras.RMSprop(centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_runs_nothing_of_the_stand_in_or_its_slots(graph, name):
    optimizer = OPTIMIZERS[name]()
    loss = tf.reduce_sum(lookup(tf_booster.get_hash_table("t", 4)) ** 2)
    if isinstance(optimizer, v1.train.Optimizer):
        updates = [optimizer.minimize(loss)]
    else:
        updates = optimizer.get_updates(loss, v1.trainable_variables())
    tf_booster.rewrite_graph(graph)
    run = set().union(*(ancestors(op) for op in updates))
    assert [op for op in run if "TableApply" in op.type]
    kept = {v.handle.op for v in v1.global_variables()}
    assert [op.name for op in run if op.type == "VarHandleOp" and op not in kept] == []
    assert not {op.type for op in run} & {"TfBoosterStandInIds", "ResourceGather", "Unique", "UnsortedSegmentSum"}


def test_keras_slots_leave_the_collections_too(graph):
    optimizer = keras.Ftrl(0.1)
    values = lookup(tf_booster.get_hash_table("t", 4))
    train_op = optimizer.get_updates(tf.reduce_sum(values**2), v1.trainable_variables())
    tf_booster.rewrite_graph(graph)
    assert not [v.op.name for v in v1.global_variables() if "/t/" in v.op.name]
    (apply_op,) = ops(graph, "TableApplyFtrl")
    assert apply_op in set().union(*(ancestors(op) for op in train_op))


def test_two_lookups_of_one_table_have_groups_and_one_update(graph):
    table = tf_booster.get_hash_table("t", 4)
    minimize(tf.reduce_sum(lookup(table)) * tf.reduce_sum(lookup(table)))
    tf_booster.rewrite_graph(graph)
    assert len(ops(graph, "HashTable")) == 1
    probes = ops(graph, "TableProbe")
    assert [p.get_attr("group") for p in probes] == [0, 1]
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert apply_op.get_attr("N") == 2
    assert list(apply_op.inputs)[1:3] == [p.outputs[1] for p in probes]
    assert list(apply_op.inputs)[3:5] == [p.outputs[2] for p in probes]
    assert list(apply_op.inputs)[5:7] == [p.outputs[3] for p in probes]


def test_lookups_outside_of_the_loss_have_the_later_groups(graph):
    table = tf_booster.get_hash_table("t", 4)
    lookup(table, "beside")
    minimize(lookup(table, "in_the_loss"))
    tf_booster.rewrite_graph(graph)
    groups = {probe.inputs[1].op.name: probe.get_attr("group") for probe in ops(graph, "TableProbe")}
    assert groups == {"in_the_loss": 0, "beside": 1}
    assert ops(graph, "TableApplyAdagrad")[0].get_attr("N") == 1


def test_a_variable_scope_entered_again_gives_the_same_table(graph):
    losses = []
    for _ in range(2):
        with v1.variable_scope("tower", reuse=v1.AUTO_REUSE):
            losses.append(tf.reduce_sum(lookup(tf_booster.get_hash_table("t", 4))))
    minimize(tf.add_n(losses))
    tf_booster.rewrite_graph(graph)
    (handle,) = ops(graph, "HashTable")
    assert handle.get_attr("table_name") == b"tower/t" and len(ops(graph, "TableProbe")) == 2


def test_two_optimizers_over_disjoint_variables(graph):
    a, b = tf_booster.get_hash_table("a", 4), tf_booster.get_hash_table("b", 4)
    product = lookup(a) * lookup(b)
    one = minimize(product, var_list=[a.variable])
    two = minimize(product, v1.train.AdamOptimizer(), var_list=[b.variable])
    tf_booster.rewrite_graph(graph)
    assert {op.type for op in ancestors(one) if "TableApply" in op.type} == {"TfBoosterTableApplyAdagrad"}
    assert {op.type for op in ancestors(two) if "TableApply" in op.type} == {"TfBoosterTableApplyAdam"}
    assert [t["optimizer"] for t in tf_booster.report().tables] == ["adagrad", "adam"]


def test_clipping_by_global_norm_stays_between_gradient_and_update(graph):
    optimizer = v1.train.AdagradOptimizer(0.1)
    values = lookup(tf_booster.get_hash_table("t", 4))
    pairs = optimizer.compute_gradients(tf.reduce_sum(values**2))
    clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
    optimizer.apply_gradients(zip(clipped, [v for _, v in pairs]))
    tf_booster.rewrite_graph(graph)
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert norm.op in ancestors(apply_op)


def test_gradients_taken_by_hand(graph):
    table = tf_booster.get_hash_table("t", 4)
    weight = v1.get_variable("w", [4])
    loss = tf.reduce_sum((lookup(table) * weight) ** 2)
    gradients = tf.gradients(loss, [table.variable, weight])
    v1.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, [table.variable, weight]))
    tf_booster.rewrite_graph(graph)
    assert len(ops(graph, "TableApplyAdagrad")) == 1
    assert "TfBoosterTableGather" in types(gradients[0].values)


def test_what_waits_on_lookup_or_update_waits_on_the_table_ops(graph):
    table = tf_booster.get_hash_table("t", 4)
    values = lookup(table)
    with tf.control_dependencies([values.op.inputs[0].op]):
        after_gather = tf.no_op()
    train_op = minimize(values)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, train_op)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        after_update = tf.no_op()
    tf_booster.rewrite_graph(graph)
    assert "TfBoosterTableGather" in types(after_gather) and "ResourceGather" not in types(after_gather)
    assert "TfBoosterTableApplyAdagrad" in types(after_update)
    assert "ResourceSparseApplyAdagrad" not in types(after_update)


def test_what_the_lookup_waited_on_the_probe_waits_on(graph):
    first = tf.no_op("first")
    table = tf_booster.get_hash_table("t", 4)
    with tf.control_dependencies([first]):
        lookup(table)
    tf_booster.rewrite_graph(graph)
    assert first in ancestors(ops(graph, "TableProbe")[0])


def test_what_is_asked_of_a_table_waits_on_what_it_waited_on(graph):
    table = tf_booster.get_hash_table("t", 4)
    keys, train_op = ids(), minimize(lookup(table))
    with tf.control_dependencies([train_op]):
        asked = [
            table.size(),
            table.export().values,
            table.erase(keys),
            table.clear(),
            table.insert_or_assign(keys, tf.zeros([0, 4])),
        ]
    tf_booster.rewrite_graph(graph)
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert all(apply_op in ancestors(answer) for answer in asked)


def test_a_lookup_after_the_update_may_wait_on_it(graph):
    table = tf_booster.get_hash_table("t", 4)
    train_op = minimize(lookup(table))
    with tf.control_dependencies([train_op]):
        after = lookup(table)
    tf_booster.rewrite_graph(graph)
    (apply_op,) = ops(graph, "TableApplyAdagrad")
    assert apply_op in ancestors(after) and after.op not in ancestors(apply_op)


def test_the_shape_of_a_lookup_is_kept(graph):
    values = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), v1.placeholder(tf.int64, [7, None, 3]))
    tf_booster.rewrite_graph(graph)
    (gather,) = ops(graph, "TableGather")
    assert gather.outputs[0].shape.as_list() == [7, None, 3, 4] == values.shape.as_list()


def test_a_table_that_nothing_updates_has_no_optimizer(graph):
    lookup(tf_booster.get_hash_table("t", 4))
    tf_booster.rewrite_graph(graph)
    (handle,) = ops(graph, "HashTable")
    assert handle.get_attr("optimizer") == b"" and handle.get_attr("slot_names") == []
    assert not [op for op in graph.get_operations() if "TableApply" in op.type]


def test_a_frozen_table_beside_a_trained_one(graph):
    frozen, trained = tf_booster.get_hash_table("f", 4, trainable=False), tf_booster.get_hash_table("t", 4)
    minimize(lookup(frozen) * lookup(trained))
    tf_booster.rewrite_graph(graph)
    assert [(t["name"], t["optimizer"]) for t in tf_booster.report().tables] == [("f", None), ("t", "adagrad")]


def test_codes_that_reach_no_table_keep_their_shape(graph):
    source = v1.placeholder(tf.int64, [None, 1])
    from_column = column("a").transform_feature(Features({"a": source}), None)
    count = tf.size(from_column.values)
    tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        assert session.run(count, {source: [[5], [6], [5]]}) == 3


class Features(dict):
    def get(self, key, _):
        return self[key]


def test_a_trainable_table_that_is_left_out_of_training_is_reported(graph):
    left_out = tf_booster.get_hash_table("left_out", 4)
    trained, frozen = tf_booster.get_hash_table("t", 4), tf_booster.get_hash_table("f", 4, trainable=False)
    minimize(lookup(left_out) * lookup(trained) * lookup(frozen), var_list=[trained.variable])
    ((node, reason),) = of_tables(tf_booster.rewrite_graph(graph)).skipped
    assert node == "left_out" and "var_list" in reason


def test_evaluation_trains_nothing_and_that_is_no_news(graph):
    lookup(tf_booster.get_hash_table("t", 4))
    assert of_tables(tf_booster.rewrite_graph(graph)).skipped == []


def test_size_and_export_read_the_table_before_and_after_the_rewrite(graph):
    table = tf_booster.get_hash_table("t", 4)
    lookup(table)
    before = table.size()
    tf_booster.rewrite_graph(graph)
    after = table.size()
    (handle,) = ops(graph, "HashTable")
    assert before.op.inputs[0] is handle.outputs[0] and after.op.inputs[0] is handle.outputs[0]


def test_a_table_that_is_only_asked_for_its_size(graph):
    size = tf_booster.get_hash_table("t", 4).size()
    tf_booster.rewrite_graph(graph)
    assert "TfBoosterHashTable" in types(size) and not v1.trainable_variables()


def test_readiness_made_before_the_rewrite_does_not_wait_for_the_stand_in(graph):
    lookup(tf_booster.get_hash_table("t", 4))
    not_ready = v1.report_uninitialized_variables()
    tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        assert session.run(not_ready).tolist() == []


def test_a_summary_of_the_whole_table_shows_nan_and_is_reported(graph):
    table = tf_booster.get_hash_table("t", 4)
    minimize(lookup(table))
    mean = v1.summary.scalar("whole_table", tf.reduce_mean(table.variable))
    tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        event = v1.Summary.FromString(session.run(mean))
    assert str(event.value[0].simple_value) == "nan"
    ((node, reason),) = of_tables(tf_booster.report()).skipped
    assert node == "whole_table" and "'t'" in reason and "NaN" in reason


@pytest.mark.parametrize("control_flow", ["v1", "v2"])
def test_a_summary_of_several_tables_shows_nan(graph, control_flow):
    """As canned linear models make one: a number, of all weights. Each table by itself goes into the tf.cond of zero_fraction."""
    was_v2 = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if control_flow == "v2" else v1.disable_control_flow_v2)()
    try:
        _summaries_of_several_tables(graph)
    finally:
        (v1.enable_control_flow_v2 if was_v2 else v1.disable_control_flow_v2)()


def _summaries_of_several_tables(graph):
    tables = [tf_booster.get_hash_table(f"t{i}", 1) for i in range(3)]
    minimize(tf.concat([lookup(table) for table in tables], 1))
    weights = tf.concat([tf.reshape(table.variable, [-1]) for table in tables], 0)
    zeros = v1.summary.scalar("zeros", tf.math.zero_fraction(weights))
    of_each = [
        v1.cond(v1.size(t.variable) > 1, lambda t=t: tf.math.zero_fraction(t.variable), lambda: 0.0) for t in tables
    ]
    summed = v1.summary.scalar("summed", tf.add_n(of_each))
    unknown = v1.placeholder_with_default(tf.reduce_mean(weights), None)
    average = v1.summary.scalar("average", unknown)
    report = tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        for summary in session.run([zeros, average, summed]):
            assert str(v1.Summary.FromString(summary).value[0].simple_value) == "nan"
    assert sorted(node for node, _ in of_tables(report).skipped) == ["average"] * 3 + ["summed"] * 3 + ["zeros"] * 3


def test_summaries_of_gradients_as_people_write_them(graph):
    optimizer = v1.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(tf.reduce_sum(lookup(tf_booster.get_hash_table("t", 4)) ** 2))
    for gradient, variable in pairs:
        v1.summary.histogram(f"gradient_of_{variable.op.name}", gradient)
        v1.summary.scalar("norm", tf.norm(gradient.values))
    optimizer.apply_gradients(pairs)
    merged = v1.summary.merge_all()
    ((node, reason),) = of_tables(tf_booster.rewrite_graph(graph)).skipped
    assert node == "gradient_of_t" and "gradient of table 't' as a dense tensor" in reason
    assert "TfBoosterTableGather" in types(merged) and "UnsortedSegmentSum" not in types(merged)


def test_a_histogram_of_the_whole_table_is_empty(graph):
    table = tf_booster.get_hash_table("t", 4)
    lookup(table)
    histogram = v1.summary.histogram("rows", table.variable)
    ((node, reason),) = of_tables(tf_booster.rewrite_graph(graph)).skipped
    with v1.Session(graph=graph) as session:
        event = v1.Summary.FromString(session.run(histogram))
    assert event.value[0].histo.num == 0 and node == "rows" and "is empty" in reason


def test_a_second_run_changes_nothing(graph):
    minimize(lookup(tf_booster.get_hash_table("t", 4)))
    first = tf_booster.rewrite_graph(graph)
    before = graph.as_graph_def().SerializeToString(deterministic=True)
    collections = {name: list(graph.get_collection(name)) for name in graph.get_all_collection_keys()}
    assert tf_booster.rewrite_graph(graph) is first
    assert graph.as_graph_def().SerializeToString(deterministic=True) == before
    assert {name: list(graph.get_collection(name)) for name in graph.get_all_collection_keys()} == collections


def test_a_lookup_made_after_the_rewrite_is_rewritten_by_the_next(graph):
    table = tf_booster.get_hash_table("t", 4)
    minimize(lookup(table))
    tf_booster.rewrite_graph(graph)
    late = lookup(table)
    tf_booster.rewrite_graph(graph)
    (handle,) = ops(graph, "HashTable")
    assert types(late) >= {"TfBoosterTableGather", "TfBoosterTableProbe"} and "TfBoosterStandInIds" not in types(late)
    assert [probe.get_attr("group") for probe in ops(graph, "TableProbe")] == [0, 1]
    assert len(graph.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)) == 1
    assert registry.rewritten(graph)["t"].num_probes == 2 and handle.get_attr("optimizer") == b"adagrad"


def test_a_graph_without_tables_is_left_alone(graph):
    weight = v1.get_variable("w", [4])
    minimize(weight)
    before = graph.as_graph_def().SerializeToString(deterministic=True)
    made = tf_booster.rewrite_graph(graph)
    assert graph.as_graph_def().SerializeToString(deterministic=True) == before
    assert not made.modified and "as it was" in str(made)


def seed_of(graph):
    (handle,) = ops(graph, "HashTable")
    return handle.get_attr("seeds")[0]


def test_seed_is_the_tables_own_else_the_options_else_the_graphs_else_zero():
    def rewritten(own=None, option=None, graphs=None):
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(graphs)
            lookup(tf_booster.get_hash_table("t", 4, seed=own))
            try:
                tf_booster.enable_gpu_booster(seed=option)
                tf_booster.rewrite_graph(graph)
            finally:
                tf_booster.disable_gpu_booster()
            return seed_of(graph)

    assert rewritten(own=1, option=2, graphs=3) == 1
    assert rewritten(option=2, graphs=3) == 2
    assert rewritten(graphs=3) == 3
    assert rewritten(own=0, option=2) == 0
    assert rewritten() == 0


def test_check_numerics_reaches_the_update(graph):
    minimize(lookup(tf_booster.get_hash_table("t", 4)))
    try:
        tf_booster.enable_gpu_booster(check_numerics=True)
        tf_booster.rewrite_graph(graph)
    finally:
        tf_booster.disable_gpu_booster()
    assert ops(graph, "TableApplyAdagrad")[0].get_attr("check_numerics") is True
