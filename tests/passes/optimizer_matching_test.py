"""Every optimizer's update of a Variable is recognised as what it is, or refused by name."""

import pytest
import tensorflow as tf

from tf_booster.passes.optimizer_matching import UnsupportedUpdate, match_updates

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy
F32_TENTH = float(tf.constant(0.1).numpy())

FUSED = {
    "v1 sgd": (lambda: v1.train.GradientDescentOptimizer(0.1), "sgd", "GradientDescent", []),
    "v1 momentum": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), "momentum", "Momentum", [("momentum", 0.0)]),
    "v1 adagrad": (lambda: v1.train.AdagradOptimizer(0.1, 0.25), "adagrad", "Adagrad", [("accumulator", 0.25)]),
    "v1 adam": (lambda: v1.train.AdamOptimizer(0.1), "adam", "Adam", [("m", 0.0), ("v", 0.0)]),
    "v1 ftrl": (lambda: v1.train.FtrlOptimizer(0.1), "ftrl", "Ftrl", [("accumulator", F32_TENTH), ("linear", 0.0)]),
    "v1 ftrl shrinkage": (
        lambda: v1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1),
        "ftrl",
        "Ftrl",
        [("accumulator", F32_TENTH), ("linear", 0.0)],
    ),
    "v1 rmsprop": (lambda: v1.train.RMSPropOptimizer(0.1), "rmsprop", "RMSProp", [("ms", 1.0), ("momentum", 0.0)]),
    "v1 rmsprop centered": (
        lambda: v1.train.RMSPropOptimizer(0.1, centered=True),
        "centered_rmsprop",
        "CenteredRMSProp",
        [("mg", 0.0), ("ms", 1.0), ("momentum", 0.0)],
    ),
    "keras sgd": (lambda: keras.SGD(0.1), "sgd", "GradientDescent", []),
    "keras momentum": (lambda: keras.SGD(0.1, 0.9, True), "keras_momentum", "KerasMomentum", [("momentum", 0.0)]),
    "keras adagrad": (lambda: keras.Adagrad(0.1), "adagrad_v2", "AdagradV2", [("accumulator", F32_TENTH)]),
    "keras adam": (lambda: keras.Adam(0.1), "adam", "Adam", [("m", 0.0), ("v", 0.0)]),
    "keras ftrl": (lambda: keras.Ftrl(0.1), "ftrl", "Ftrl", [("accumulator", F32_TENTH), ("linear", 0.0)]),
    "keras rmsprop": (lambda: keras.RMSprop(0.1), "rmsprop", "RMSProp", [("ms", 0.0), ("momentum", 0.0)]),
    "keras rmsprop momentum": (
        lambda: keras.RMSprop(0.1, momentum=0.9),
        "rmsprop",
        "RMSProp",
        [("ms", 0.0), ("momentum", 0.0)],
    ),
    "keras rmsprop centered": (
        lambda: keras.RMSprop(0.1, centered=True),
        "centered_rmsprop",
        "CenteredRMSProp",
        [("mg", 0.0), ("ms", 0.0), ("momentum", 0.0)],
    ),
}

REFUSED = {
    "v1 adadelta": lambda: v1.train.AdadeltaOptimizer(0.1),
    "v1 proximal adagrad": lambda: v1.train.ProximalAdagradOptimizer(0.1),
    "keras adadelta": lambda: keras.Adadelta(0.1),
    "keras adamax": lambda: keras.Adamax(0.1),
    "keras nadam": lambda: keras.Nadam(0.1),
    "keras amsgrad": lambda: keras.Adam(0.1, amsgrad=True),
}


def train_graph(make_optimizer, loss_fn=lambda rows, variable: tf.reduce_sum(rows * rows)):
    """A graph with one Variable 'rows' [1, 4], looked up by placeholder 'ids' and trained."""
    graph = tf.Graph()
    with graph.as_default():
        ids = v1.placeholder(tf.int64, [None], name="ids")
        variable = v1.get_variable("rows", [1, 4], use_resource=True, initializer=v1.zeros_initializer())
        loss = loss_fn(tf.nn.embedding_lookup(variable, ids), variable)
        optimizer = make_optimizer()
        step = v1.train.get_or_create_global_step()
        if isinstance(optimizer, v1.train.Optimizer):
            optimizer.minimize(loss, global_step=step)
        else:
            optimizer.iterations = step
            optimizer.get_updates(loss, [variable])
    return graph


def updates_of(graph):
    return match_updates("rows", graph.get_operation_by_name("rows"))


@pytest.mark.parametrize("name", FUSED)
def test_optimizer_is_recognised(name):
    make_optimizer, optimizer, op_name, slots = FUSED[name]
    (update,) = updates_of(train_graph(make_optimizer))
    assert (update.optimizer, update.op_name) == (optimizer, op_name)
    assert [(slot.name, slot.initial_value) for slot in update.slots] == slots
    # The gradient is the raw one: what TensorFlow put in front to sum duplicates is left out.
    assert update.grad.op.type == "Reshape" and update.indices.op.type == "Reshape"
    assert update.replaced[-1].type in ("ReadVariableOp",) or len(update.replaced) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_other_optimizers_are_refused_by_name(name):
    with pytest.raises(
        UnsupportedUpdate, match="Table 'rows': the update by op .* has no fused form; use one of: .*Adagrad"
    ):
        updates_of(train_graph(REFUSED[name]))


def test_dense_gradient_is_refused():
    graph = train_graph(
        lambda: v1.train.AdagradOptimizer(0.1), lambda rows, variable: tf.reduce_sum(rows) + tf.nn.l2_loss(variable)
    )
    with pytest.raises(UnsupportedUpdate, match="dense gradient.*l2_loss"):
        updates_of(graph)


def test_adam_waits_are_complete():
    """What depended on any part of Adam's chain must be able to wait on the fused op instead."""
    graph = train_graph(lambda: v1.train.AdamOptimizer(0.1))
    (update,) = updates_of(graph)
    group = graph.get_operation_by_name("Adam/update_rows/group_deps")
    assert set(group.control_inputs) <= set(update.replaced)
    lr, beta1, beta2, epsilon = update.inputs[2:]
    assert update.inputs[:2] == (0.0, 0.0)
    assert [t.op.name for t in (beta1, beta2, epsilon)] == ["Adam/beta1", "Adam/beta2", "Adam/epsilon"]
    assert lr.op.type == "RealDiv"


def test_two_updates_are_both_found():
    graph = tf.Graph()
    with graph.as_default():
        ids = v1.placeholder(tf.int64, [None])
        variable = v1.get_variable("rows", [1, 4], use_resource=True, initializer=v1.zeros_initializer())
        rows = tf.nn.embedding_lookup(variable, ids)
        optimizer = v1.train.AdagradOptimizer(0.1)
        optimizer.minimize(tf.reduce_sum(rows))
        optimizer.minimize(tf.reduce_sum(rows * rows))
    assert [u.optimizer for u in updates_of(graph)] == ["adagrad", "adagrad"]


def test_slot_that_starts_at_no_constant_is_refused():
    graph = tf.Graph()
    with graph.as_default():
        ids = v1.placeholder(tf.int64, [None])
        variable = v1.get_variable("rows", [1, 4], use_resource=True, initializer=v1.zeros_initializer())
        accumulator = v1.get_variable("acc", [1, 4], use_resource=True, initializer=v1.random_uniform_initializer())
        rows = tf.nn.embedding_lookup(variable, ids)
        grad = tf.gradients(rows, variable)[0]
        tf.raw_ops.ResourceSparseApplyAdagrad(
            var=variable.handle, accum=accumulator.handle, lr=0.1, grad=grad.values, indices=grad.indices
        )
    with pytest.raises(UnsupportedUpdate, match="optimizer slot 'acc' does not start at one constant"):
        updates_of(graph)
