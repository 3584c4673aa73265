"""What an error becomes in one line."""

import pytest
import tensorflow as tf

from tf_booster import log

v1 = tf.compat.v1


@pytest.mark.parametrize(
    "said",
    [
        "a bad row\n\t [[{{node x}}]]",
        "Graph execution error:\n\na bad row\n\t [[{{node x}}]]",
        "Graph execution error:\n\nDetected at node 'x' defined at (most recent call last):\n    File \"a.py\", line 7\nNode: 'x'\na bad row",
        "Graph execution error:\n\nDetected at node 'x'\nNode: 'x'\n2 root error(s) found.\n  a bad row\n  another",
    ],
)
def test_the_kernels_message(said):
    assert log.brief(tf.errors.InvalidArgumentError(None, None, said)) == "InvalidArgumentError: a bad row"


def test_other_errors():
    assert log.brief(OSError("no such\nfile")) == "OSError: no such"
    assert log.brief(ValueError()) == "ValueError: "


def test_what_a_session_raises():
    with tf.Graph().as_default(), v1.Session() as session:
        failing = tf.debugging.check_numerics(v1.placeholder_with_default(1.0, []) / 0.0, "a bad row")
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(failing)
    assert log.brief(raised.value).startswith("InvalidArgumentError: a bad row : Tensor had Inf")
