"""What a table cannot serve is refused before the first edit, naming table, op and remedy."""

import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _native

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy


def adagrad():
    return v1.train.AdagradOptimizer(0.1)


def table(name="t"):
    return tf_booster.get_hash_table(name, 4)


def lookup(t):
    return tf_booster.embedding_lookup(t, v1.placeholder(tf.int64, [None]))


def codes(t):
    """What TensorFlow's own ops see of a lookup's ids."""
    return _native.ops().tf_booster_stand_in_ids(v1.placeholder(tf.int64, [None]), table_name=t.name)


def l2_loss_of_the_table():
    t = table()
    adagrad().minimize(tf.reduce_sum(lookup(t)) + tf.nn.l2_loss(t.variable))


def gradient_made_dense():
    t = table()
    ((gradient, variable),) = adagrad().compute_gradients(tf.reduce_sum(lookup(t)))
    adagrad().apply_gradients([(tf.clip_by_value(tf.convert_to_tensor(gradient), -1.0, 1.0), variable)])


def dense_gradient_alone():
    t = table()
    adagrad().minimize(tf.nn.l2_loss(t.variable))


def moving_average():
    t = table()
    adagrad().minimize(tf.reduce_sum(lookup(t)))
    tf.train.ExponentialMovingAverage(0.9).apply([t.variable])


def assign():
    t = table()
    lookup(t)
    t.variable.assign(tf.zeros([1, 4]))


def read():
    t = table()
    lookup(t)
    tf.reduce_sum(t.variable, name="norm")


def unregistered_ids():
    tf.nn.embedding_lookup(table().variable, v1.placeholder(tf.int64, [None]))


def gather_nd():
    t = table()
    t.variable.gather_nd(tf.expand_dims(codes(t), 1))


def codes_into_cond():
    t = table()
    moved = codes(t)
    tf.cond(v1.placeholder(tf.bool, []), lambda: tf.nn.embedding_lookup(t.variable, moved), lambda: tf.zeros([1, 4]))


def lookup_inside_function():
    t = table()

    @tf.function
    def inside(ids):
        return _native.ops().tf_booster_stand_in_ids(ids, table_name=t.name)

    inside(v1.placeholder(tf.int64, [None]))


def lookup_inside_dataset():
    t = table()
    v1.data.make_one_shot_iterator(
        tf.data.Dataset.range(3).map(lambda i: _native.ops().tf_booster_stand_in_ids(i, table_name=t.name))
    ).get_next()


def lookup_inside_while_loop():
    t = table()
    v1.disable_control_flow_v2()
    try:
        moved = []
        tf.while_loop(lambda i: i < 3, lambda i: (moved.append(codes(t)), moved[0][0], i + 1)[2], [tf.constant(0)])
    finally:
        v1.enable_control_flow_v2()


def computing_with_codes():
    t = table()
    tf.nn.embedding_lookup(t.variable, codes(t) % 7)


def mixing_other_ids_in():
    t = table()
    tf.nn.embedding_lookup(t.variable, tf.concat([codes(t), v1.placeholder(tf.int64, [None])], 0))


def several_lookups_into_one_gather():
    t = table()
    tf.nn.embedding_lookup(t.variable, tf.concat([codes(t), codes(t)], 0))


def one_lookup_for_two_tables():
    moved = tf.identity(codes(table("a")))
    tf.nn.embedding_lookup(table("a").variable, moved)
    tf.nn.embedding_lookup(table("b").variable, moved)


def gather_with_batch_dims():
    t = table()
    moved = tf.reshape(codes(t), [1, -1])
    tf.raw_ops.ResourceGather(resource=t.variable.handle, indices=moved, dtype=tf.float32, batch_dims=1)


def two_optimizers_on_one_table():
    loss = tf.reduce_sum(lookup(table()))
    adagrad().minimize(loss)
    adagrad().minimize(loss)


def gradient_of_something_else():
    t = table()
    lookup(t)
    rows = tf.IndexedSlices(tf.ones([2, 4]), tf.constant([0, 0], tf.int64), tf.constant([1, 4], tf.int64))
    adagrad().apply_gradients([(rows, t.variable)])


def adadelta():
    v1.train.AdadeltaOptimizer().minimize(tf.reduce_sum(lookup(table())))


def keras_nadam():
    keras.Nadam().get_updates(tf.reduce_sum(lookup(table())), v1.trainable_variables())


def variable_of_two_rows():
    variable = v1.get_variable("t", [2, 4], use_resource=True)
    tf.nn.embedding_lookup(variable, _native.ops().tf_booster_stand_in_ids([1], table_name="t"))


def variable_of_float64():
    variable = v1.get_variable("t", [1, 4], tf.float64, use_resource=True)
    tf.nn.embedding_lookup(variable, _native.ops().tf_booster_stand_in_ids([1], table_name="t"))


def table_that_nothing_made():
    tf.identity(_native.ops().tf_booster_stand_in_table(table_name="t"))


def saver_of_the_first_format():
    t = table()
    lookup(t)
    v1.train.Saver([t.variable], write_version=v1.train.SaverDef.V1)


def table_on_a_parameter_server():
    with v1.device(v1.train.replica_device_setter(ps_tasks=1)):
        lookup(table())


REASONS = {
    l2_loss_of_the_table: "l2_loss.*regularise the looked-up embeddings",
    gradient_made_dense: "UnsortedSegmentSum.*keep tf.IndexedSlices",
    dense_gradient_alone: "ResourceApplyAdagrad.*dense gradient.*regularise",
    moving_average: "ExponentialMovingAverage.*reads the whole table.*looked-up embeddings instead",
    assign: "assigns to the whole table.*insert_or_assign",
    read: r"reads the whole table.*'norm' \(Sum\).*export",
    unregistered_ids: "did not come through tf_booster.*tf_booster.embedding_lookup",
    gather_nd: "ResourceGatherNd.*use tf_booster.embedding_lookup",
    codes_into_cond: r"'cond' \(If\).*look ids up outside",
    lookup_inside_function: "of function '__inference_inside.*look ids up outside",
    lookup_inside_dataset: "of function '.*look ids up outside",
    lookup_inside_while_loop: "inside a tf.cond, a tf.while_loop.*look ids up outside",
    computing_with_codes: "FloorMod.*computes with looked-up ids.*before they go",
    mixing_other_ids_in: "ConcatV2.*mixes looked-up ids.*put the ids together before",
    several_lookups_into_one_gather: "several lookups; put the ids together first",
    one_lookup_for_two_tables: "Tables 'a' and 'b'.*Identity.*look the ids up in each table",
    gather_with_batch_dims: "batch_dims 1; wanted 0",
    two_optimizers_on_one_table: "updated in 2 places.*Adagrad/update_t.*Adagrad_1/update_t.*one optimizer",
    gradient_of_something_else: "does not come from lookups.*compute_gradients",
    adadelta: "ResourceSparseApplyAdadelta.*no fused form; use one of: .*Adagrad, Adam, Ftrl",
    keras_nadam: "no fused form; use one of: .*tf.keras.optimizers.legacy",
    variable_of_two_rows: r"shape \[2, 4\], wanted \[1, dim\]",
    variable_of_float64: "is float64; a hash table's rows are float32",
    table_on_a_parameter_server: "on job 'ps'.*without parameter servers",
    table_that_nothing_made: "nothing in this graph made it.*get_hash_table",
    saver_of_the_first_format: "V1 format; wanted V2",
}


@pytest.mark.parametrize("build", REASONS, ids=lambda build: build.__name__)
def test_refusal_names_op_and_remedy_and_edits_nothing(build):
    with tf.Graph().as_default() as graph:
        build()
        before = graph.as_graph_def().SerializeToString(deterministic=True)
        collections = {name: list(graph.get_collection(name)) for name in graph.get_all_collection_keys()}
        with pytest.raises(tf_booster.RewriteError, match=REASONS[build]) as error:
            tf_booster.rewrite_graph(graph)
        assert "'t'" in str(error.value) or "'a'" in str(error.value)
        assert graph.as_graph_def().SerializeToString(deterministic=True) == before
        assert {name: list(graph.get_collection(name)) for name in graph.get_all_collection_keys()} == collections


def test_a_finalized_graph_is_refused():
    with tf.Graph().as_default() as graph:
        lookup(table())
        graph.finalize()
        with pytest.raises(tf_booster.RewriteError, match="finalized.*before a MonitoredSession"):
            tf_booster.rewrite_graph(graph)
