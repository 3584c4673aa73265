"""minimize in tf.control_dependencies(UPDATE_OPS), as every program with batch normalization has it: the same ops go as without, and what it waits for runs."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, ragged_ids, run, sparse_input, variable

from tf_booster.options import Options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
ROWS = 30


def bags(seed):
    return sparse_input(ragged_ids(seed, 12, ROWS, low=0))


def columns():
    return [v1.nn.safe_embedding_lookup_sparse([variable(f"table_{i}", ROWS, 8)], bags(i)) for i in range(3)]


def one_table():
    table = variable("shared", ROWS, 4)
    return [v1.nn.embedding_lookup_sparse([table], bags(i), None, combiner="sum") for i in range(2)]


def partitioned():
    parts = v1.get_variable(
        "parts", [ROWS, 4], initializer=v1.glorot_uniform_initializer(seed=1), partitioner=v1.fixed_size_partitioner(3)
    )
    ids = tf.constant(np.random.RandomState(1).randint(0, ROWS, 12))
    return [tf.nn.embedding_lookup(list(parts), ids), tf.nn.embedding_lookup(list(parts), ids[:5])]


def clipped():
    rows = tf.nn.embedding_lookup(variable("clipped", ROWS, 4), tf.constant([1, 5, 1, 7, 9], tf.int64))
    return [tf.clip_by_norm(rows, 0.7, axes=[1])]


def crossed():
    fields = [
        tf.nn.embedding_lookup(variable(f"field_{i}", ROWS, 4), tf.constant([1, 5, 1, 7], tf.int64)) for i in range(4)
    ]
    stacked = tf.stack(fields, 1)
    return [tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1)]


MODELS = [columns, one_table, partitioned, clipped, crossed]


def program(model, optimizer, waits, as_tensor=False):
    """Its loss and train op; a Variable counts the steps, from what the model gives. as_tensor: as a metric's update is one."""
    v1.train.get_or_create_global_step()
    outputs = model()
    counter = v1.get_variable("counter", initializer=0.0, use_resource=True)
    loss = tf.add_n([tf.reduce_sum(tf.sin(x * (1.0 + 0.1 * i)) * tf.cos(0.3 * x)) for i, x in enumerate(outputs)])
    update = counter.assign_add(1.0 + 0.0 * tf.reduce_mean(outputs[0]), read_value=as_tensor)
    update = tf.sqrt(update) * 2.0 if as_tensor else update
    with tf.control_dependencies([update] if waits else []):
        return [loss, optimizer().minimize(loss, v1.train.get_global_step())]


def passes():
    left_out = ["small_matmuls", "pair_dots", "embedding_pipeline"]
    return pipelines.passes(Options(disable_passes=left_out))


def before(graph, op):
    found, work = set(), [op]
    while work:
        for other in (*(t.op for t in work[-1].inputs), *work.pop().control_inputs):
            if other not in found:
                found.add(other)
                work.append(other)
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["Adagrad", "Momentum"])
def test_the_same_ops_go(model, optimizer):
    make = {
        "Adagrad": lambda: v1.train.AdagradOptimizer(0.1),
        "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    }[optimizer]
    mine = check_same(lambda: program(model, make, waits=True), passes())
    assert 3.0 in [float(value) for value in mine.values if value.shape == ()], "the update has not run once a step"
    without = run(lambda: program(model, make, waits=False), passes())
    more = mine.running() - without.running()
    assert sum(more.values()) <= 13, more
    assert not [name for name in mine.running() if name.startswith(("SparseSegment", "DynamicPartition"))]


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_trained_before_what_it_waits_for(model, as_tensor):
    adagrad = lambda: v1.train.AdagradOptimizer(0.1)
    mine = check_same(lambda: program(model, adagrad, True, as_tensor), passes())
    assert 3.0 in [float(value) for value in mine.values if value.shape == ()], "the update has not run once a step"
    train = mine.fetches[-1]
    (update,) = [
        op for op in before(mine.graph, train) if op.type == "AssignAddVariableOp" and "counter" in op.inputs[0].name
    ]
    trained = [op for op in before(mine.graph, train) if "Apply" in op.type]
    assert trained and all(update in before(mine.graph, op) for op in trained), collections.Counter(
        op.type for op in trained
    )
