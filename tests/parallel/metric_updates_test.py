"""How metrics' Variables are found to be updated, and so merged over ranks; what cannot be merged is refused."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import tensorflow as tf

from tf_booster.parallel.metric_updates import how_merged, note_read, variables_of_metrics

v1 = tf.compat.v1


def of_metric(make: Callable[[Any, Any], Any], dtype: Any = tf.float32, resource: bool = True) -> str:
    with tf.Graph().as_default():
        v = v1.get_variable("v", [4], dtype, v1.zeros_initializer(), trainable=False, use_resource=resource)
        make(v, v1.placeholder(dtype, [4]))
        return how_merged({"v": v})["v"]


@tf.function
def in_a_function(v: Any, x: Any) -> None:
    v.assign(tf.maximum(x, v))


def in_control_flow_v1(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def made(v: Any, x: Any) -> Any:
        v1.disable_control_flow_v2()
        try:
            return make(v, x)
        finally:
            v1.enable_control_flow_v2()

    return made


def v1_cond(v: Any, x: Any) -> Any:
    return v1.cond(v1.placeholder(tf.bool, []), lambda: v.assign_add(x), lambda: v.assign_add(2 * x))


def loop(v: Any, x: Any) -> Any:
    """Each step adds what no step before has read."""

    def body(i: Any, read: Any) -> Any:
        added = v.assign_add(x * tf.cast(i, tf.float32))
        return i + 1, read + added  # Goes out of the loop alone.

    return tf.while_loop(lambda i, _: i < 3, body, [0, x])


@tf.function
def loop_in_a_function(v: Any, x: Any) -> None:
    for y in tf.range(3.0):
        v.assign(tf.maximum(v, x * y))


def loop_that_adds_what_it_read(v: Any, x: Any) -> Any:
    def body(i: Any, one: Any, other: Any) -> Any:
        return i + 1, v.assign_add(other) * 2.0, one

    return tf.while_loop(lambda i, *_: i < 3, body, [0, x, x])


def loop_that_ends_by_it(v: Any, x: Any) -> Any:
    return tf.while_loop(lambda i: v[0] + i < 3.0, lambda i: (v.assign_add(x), i + 1.0)[1:], [0.0])


MERGED = [
    (lambda v, x: v.assign_add(x), "sum"),
    (lambda v, x: [v.assign_sub(x), v.assign(v + 2 * x)], "sum"),
    (lambda v, x: v.scatter_add(tf.IndexedSlices(x[:2], [0, 1])), "sum"),
    (lambda v, x: v.scatter_max(tf.IndexedSlices(x[:2], [0, 1])), "max"),
    (lambda v, x: v.assign(tf.identity(tf.maximum(tf.identity(v), x))), "max"),
    (lambda v, x: v.assign(tf.minimum(x, v)), "min"),
    (in_a_function, "max"),
    (lambda v, x: tf.cond(x[0] > 0, lambda: v.assign(tf.minimum(v, x)), lambda: v.read_value()), "min"),
    (in_control_flow_v1(v1_cond), "sum"),
    (loop, "sum"),
    (in_control_flow_v1(loop), "sum"),
    (lambda v, x: tf.map_fn(lambda y: v.assign_add(x * y), x), "sum"),
    (loop_in_a_function, "max"),
    (lambda v, x: None, "sum"),
]  # fmt: skip


@pytest.mark.parametrize("make, kind", MERGED)
def test_kinds(make, kind):
    assert of_metric(make) == kind


def test_reference_variables_and_flags():
    assert of_metric(lambda v, x: v1.assign_add(v, x), resource=False) == "sum"
    assert of_metric(lambda v, x: v1.assign(v, tf.maximum(v, x)), resource=False) == "max"
    assert of_metric(lambda v, x: v.assign(tf.logical_or(v, x)), tf.bool) == "max"


@pytest.mark.parametrize("resource", [True, False])
def test_variables_that_checkpoints_have(resource):
    def make(v, x):
        v1.assign_add(v, x)
        v1.train.Saver([v])

    assert of_metric(make, resource=resource) == "sum"


@pytest.mark.parametrize("resource", [True, False])
def test_variables_of_no_collection_of_metrics(resource):
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
        values = v1.placeholder(tf.float32, [None])
        added, step, only_read, only_written = (
            v1.get_variable(name, [], trainable=False, initializer=v1.zeros_initializer())
            for name in ("added", "step", "only_read", "only_written")
        )
        weight = v1.get_variable("weight", [], use_resource=True)
        read_inside = tf.cond(values[0] > 1, lambda: weight + 1.0, lambda: weight - 1.0)
        looped = tf.while_loop(lambda i: i < 3.0, lambda i: i + weight**2 + 1.0, [0.0])
        called = tf.function(lambda: weight * 2.0)()
        total = v1.get_local_variable("total", [], initializer=v1.zeros_initializer(), use_resource=True)
        v1.assign_add(step, 1.0)  # By a train op, say.
        updates = [v1.assign_add(added, tf.reduce_sum(values)), v1.assign_add(only_written, 1.0)]
        in_a_cond = tf.cond(values[0] > 0, lambda: v1.assign_add(total, 1.0), lambda: v1.assign_add(total, 2.0))
        note_read(
            graph,
            {
                "own": (tf.identity(added) * tf.identity(step) + tf.identity(only_read), tf.group(*updates)),
                "total": (tf.identity(total), in_a_cond),
                "mean": v1.metrics.mean(values * read_inside * called * looped),
                "weight": (read_inside + called + looped, tf.group(read_inside, called, looped)),
            },
        )
        found = {v.op.name: v for v in variables_of_metrics(graph)}
        assert set(found) == {"added", "total", "mean/total", "mean/count"}
        assert set(how_merged(found).values()) == {"sum"}


@pytest.mark.parametrize("resource", [True, False])
def test_variables_that_decide_how_those_of_metrics_are_updated(resource):
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
        total, rows, batches, called = (
            v1.get_local_variable(name, [], initializer=v1.zeros_initializer())
            for name in ("total", "rows", "batches", "called")
        )
        values = v1.placeholder(tf.float32, [None])
        counted = v1.assign_add(rows, tf.cast(tf.size(values), tf.float32))
        few = v1.assign_add(batches, 1.0)
        with tf.control_dependencies([few, v1.assign_add(called, 1.0)]):
            branches = lambda: v1.assign_add(total, 1.0), lambda: v1.assign_add(total, 0.0)
            update = in_control_flow_v1(lambda *_: v1.cond(counted < 13.0, *branches))(None, None)
        note_read(graph, {"first rows": (tf.identity(total), [update, few])})
        found = {v.op.name: v for v in variables_of_metrics(graph)}
        assert {"total", "rows"} <= set(found)
        if resource:
            assert set(found) == {"total", "rows"}
        with pytest.raises(ValueError, match="'total' is not only added to"):
            how_merged(found)


def test_metrics_updated_in_loops_and_strided_slices_are_noted():
    with tf.Graph().as_default() as graph:
        values = v1.placeholder(tf.float32, [None])
        looped, sliced = (
            v1.get_local_variable(name, [2], initializer=v1.zeros_initializer()) for name in ("looped", "sliced")
        )
        updates = (tf.map_fn(looped.assign_add, tf.stack([values, values])), sliced[:1].assign(values))
        note_read(graph, {"own": ((looped.read_value(), sliced.read_value()), updates)})
        assert {v.op.name for v in variables_of_metrics(graph)} == {"looped", "sliced"}


REFUSED = [
    lambda v, x: v.assign(x),
    lambda v, x: v.assign(0.9 * v + x),
    lambda v, x: v.assign(x - v),
    lambda v, x: v.assign_add((x - v) / 2),
    lambda v, x: v.assign(tf.maximum(v, x + v)),
    lambda v, x: [v.assign_add(x), v.assign(tf.maximum(v, x))],
    tf.function(lambda v, x: v.assign(x)),
    lambda v, x: tf.function(lambda d: v.assign_add(d))(x - v),
    lambda v, x: tf.while_loop(lambda i: i < 3, lambda i: v.assign_add(x)[0] * 0 + i + 1, [0.0]),
    loop_that_adds_what_it_read,
    in_control_flow_v1(loop_that_adds_what_it_read),
    loop_that_ends_by_it,
    in_control_flow_v1(loop_that_ends_by_it),
    in_control_flow_v1(
        lambda v, x: v1.cond(v[0] > 1.0, lambda: v.assign_add([1.0] * 4), lambda: v.assign_add([0.0] * 4))
    ),
    lambda v, x: tf.cond(v[0] > 1.0, lambda: v.assign_add([1.0] * 4), lambda: v.assign_add([0.0] * 4)),
    lambda v, x: v[:2].assign(x[:2]),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_cannot_be_merged_is_refused(make):
    with pytest.raises(ValueError, match="'v' is not only added to.*assign_add"):
        of_metric(make)


def test_all_metrics_of_tensorflow_are_merged():
    with tf.Graph().as_default() as graph:
        labels, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None])
        scores = v1.placeholder(tf.float32, [None, 3])
        m = v1.metrics
        m.accuracy(labels, labels), m.auc(labels, values), m.false_negatives_at_thresholds(labels, values, [0.2])
        m.mean_iou(labels, labels, 3), m.mean_per_class_accuracy(labels, labels, 3)
        (
            m.mean_relative_error(values, values, values),
            m.precision_at_k(labels[:, None], scores, 2),
            m.root_mean_squared_error(values, values),
        )
        m.sensitivity_at_specificity(labels, values, 0.5), m.average_precision_at_k(labels[:, None], scores, 2)
        for metric in (
            tf.keras.metrics.AUC(),
            tf.keras.metrics.MeanIoU(2),
            tf.keras.metrics.R2Score(),
            tf.keras.metrics.Precision(),
        ):
            metric.update_state(values[:, None], values[:, None])
            for variable in metric.variables:
                graph.add_to_collection(v1.GraphKeys.METRIC_VARIABLES, variable)
        found = {v.op.name: v for v in graph.get_collection(v1.GraphKeys.METRIC_VARIABLES)}
        assert len(found) > 30 and set(how_merged(found).values()) == {"sum"}
