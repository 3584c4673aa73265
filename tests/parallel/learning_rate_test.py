"""lr_scaling against plain TensorFlow whose own rate is multiplied."""

import equal_training as equal
import launch
import pytest
import tensorflow as tf
from dense_collectives_test import program

import tf_booster
from tf_booster.parallel import raw_gradients
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.learning_rate import LearningRate
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1

WARMUP = 10
FUSED, APART = (), ("variable_updates",)
# Each optimizer has forms of its own: one op, a chain of ops for rows, assigns.
CASES = [
    ("sgd", FUSED),
    ("sgd", APART),
    ("adam", FUSED),
    ("adam", APART),
    ("ftrl", FUSED),
    ("keras momentum", APART),
    ("keras adam", FUSED),
    ("keras rmsprop", FUSED),
    ("keras rmsprop", APART),
]


def warming_up(optimizer, size):
    def build(features):
        step = tf.cast(v1.train.get_or_create_global_step(), tf.float32)
        return program(optimizer, "none", 1.0 + (size - 1.0) * tf.minimum(step / WARMUP, 1.0))(features)

    return build


def train_cases(rank, size, cases):
    data = equal.records(size, steps=20)
    mine = equal.part(data, rank, size)
    found, warmed, joined = [], [], {}
    for optimizer, left_out in cases:
        tf.enable_gpu_booster(lr_scaling="linear", disable_passes=left_out)
        found.append(equal.train(program(optimizer, "none"), mine))
    for optimizer in ("sgd", "adam"):
        tf.enable_gpu_booster(lr_scaling="linear", warmup_steps=WARMUP)
        warmed.append(equal.train(program(optimizer, "none"), mine))
    tf_booster.disable_gpu_booster()
    programs = {case[0]: program(case[0], "none", float(size)) for case in cases}
    trained = {name: [one for case, one in zip(cases, found) if case[0] == name] for name in programs}
    for optimizer, one in zip(("sgd", "adam"), warmed):
        programs[optimizer, WARMUP], trained[optimizer, WARMUP] = warming_up(optimizer, size), [one]
    for i, (name, build) in enumerate(programs.items()):
        if i % size == rank:  # Plain TensorFlow knows no ranks: each trains some.
            train_one = lambda d, build=build: _without_rates(equal.train(build, d))
            joined[name] = equal.reference(train_one, data, *trained[name])
    return found, warmed, joined


def _without_rates(outcome):
    for name in ("SGD", "Adam", "RMSprop"):
        outcome["variables"].pop(f"{name}/learning_rate", None)  # Keras keeps the program's own rate as a Variable.
    return outcome


def test_rates_are_multiplied_by_the_number_of_ranks():
    (found, warmed, joined), (others, others_warmed, more) = launch.values(train_cases, 2, cases=CASES, seconds=300)
    joined.update(more)
    for case, *ranks in zip(CASES, found, others):
        assert equal.worst(joined[case[0]][0], ranks, joined[case[0]][1]) == "", case
    for optimizer, *ranks in zip(("sgd", "adam"), warmed, others_warmed):
        assert equal.worst(joined[optimizer, WARMUP][0], ranks, joined[optimizer, WARMUP][1]) == "", optimizer
    for report in (each["report"] for each in found):
        (entry,) = [p for p in report["passes"] if p["name"] == "learning_rate"]
        assert entry["modified"] and entry["skipped"] == [], entry


def test_a_warmup_without_a_global_step_is_refused():
    with tf.Graph().as_default() as graph:
        x = v1.get_variable("x", [2], use_resource=True)
        (mark,) = raw_gradients.mark_helper(lambda ys, xs: [tf.ones([2])])([], [x])
        v1.train.GradientDescentOptimizer(0.1).apply_gradients([(mark, x)])
        view = GraphView(graph)
        with pytest.raises(RewriteError, match="create_global_step"):
            LearningRate(2, 5).run(view)
        assert LearningRate(2).run(view).modified
        assert not LearningRate(2).requires(view)


def test_moving_averages_have_no_rate_to_multiply():
    with tf.Graph().as_default() as graph:
        x, kept = (v1.get_variable(name, [2], use_resource=True, trainable=name == "x") for name in ("x", "kept"))
        (mark,) = raw_gradients.mark_helper(lambda ys, xs: [tf.ones([2])])([], [x])
        with tf.control_dependencies([kept.assign_sub((kept - tf.ones([2])) * 0.1)]):
            v1.train.GradientDescentOptimizer(0.1).apply_gradients([(mark, x)])
        view = GraphView(graph)
        assert VariableUpdates().run(view).modified
        result = LearningRate(2).run(view)
        assert len(result.changes) == 1 and "of 1 updates" in result.changes[0] and not result.skipped
