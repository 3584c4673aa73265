"""The pass same_shapes: reshapes that change nothing are left out, others are not."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, running

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.same_shapes import SameShapes

v1 = tf.compat.v1
fc = tf.feature_column
PASSES = [SameShapes()]
NUMBERS = np.arange(12, dtype=np.float32).reshape(6, 2)


def fed(shape=(None, 2), array=NUMBERS):
    return v1.placeholder_with_default(array, shape)


def reshapes(build):
    """How many reshapes the program's first fetch needs behind the pass, which changes no bit."""
    same = check_same(build, PASSES)
    return running(same.graph, same.fetches[0])["Reshape"]


def columns():
    features = {name: fed((None, 1), NUMBERS[:, :1]) for name in "abc"}
    return [2.0 * v1.feature_column.input_layer(features, [fc.numeric_column(name) for name in features])]


def trained():
    weights = v1.get_variable("w", [2, 1], initializer=v1.ones_initializer(), use_resource=True)
    x = fed()
    loss = tf.reduce_sum(tf.square(tf.reshape(x @ weights, [tf.shape(x)[0], 1])))
    return [loss, v1.train.GradientDescentOptimizer(0.01).minimize(loss)]


LEFT_OUT = {
    "numeric columns": columns,
    "two in a row": lambda: [-tf.reshape(tf.reshape(fed(), [-1, 2]), [-1, 2])],
    "of known shape": lambda: [-tf.reshape(fed([6, 2]), [6, 2])],
    "no rows": lambda: [-tf.reshape(fed(array=NUMBERS[:0]), [-1, 2])],
    "strings": lambda: [tf.strings.join([tf.reshape(fed([None], np.array(["a", "b"], object)), [-1]), "c"])],
    "in training": trained,
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_reshapes_that_change_nothing_are_left_out(kind):
    assert reshapes(LEFT_OUT[kind]) == 0


def waiting():
    x = fed()
    with tf.control_dependencies([tf.no_op()]):
        return [-tf.reshape(x, [-1, 2])]


STAY = {
    "another rank": lambda: [-tf.reshape(fed(), [-1])],
    "other columns": lambda: [-tf.reshape(fed(), [-1, 3])],
    "turned": lambda: [-tf.reshape(fed(), [2, -1])],
    "two unknown dimensions": lambda: [-tf.reshape(fed((None, None)), tf.reverse(tf.shape(fed()), [0]))],
    "unknown rank": lambda: [-tf.reshape(fed(None), [-1, 2])],
    "it checks the number of rows": lambda: [-tf.reshape(fed(), [6, 2])],
    "it waits for something": waiting,
}


@pytest.mark.parametrize("kind", STAY)
def test_others_stay(kind):
    assert reshapes(STAY[kind]) >= 1


def test_a_fetch_by_name_and_a_second_run():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        same = tf.reshape(fed(), [-1, 2], name="same")
        end = -same
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].changes == [
            "1 reshape to the shape that was there"
        ]
        assert not SameShapes().run(GraphView(graph)).modified
        np.testing.assert_array_equal(session.run("same:0"), NUMBERS)
        np.testing.assert_array_equal(session.run(end), -NUMBERS)
