"""Errors of a step name the ops, and the lines, of the program."""

import re

import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1


@pytest.fixture(name="boosted", autouse=True)
def boosted_programs():
    tf_booster.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def train(input_fn):
    def model_fn(features, labels, mode):
        rows = [tf.nn.embedding_lookup(v1.get_variable(f"t{i}", [4, 3]), features) for i in range(2)]
        loss = tf.reduce_sum(tf.concat(rows, 1))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    tf.estimator.Estimator(model_fn).train(input_fn, steps=3)


def test_the_input_fails_as_it_does_without_tf_booster(tmp_path):
    def input_fn():
        parsed = lambda record: tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([], tf.int64)})["x"]
        return tf.data.TFRecordDataset(str(tmp_path / "none")).map(parsed).batch(2)

    with pytest.raises(tf.errors.NotFoundError) as caught:
        train(input_fn)
    assert "tf_booster/pipeline" not in str(caught.value)
    assert re.search(r"Detected at node 'IteratorGetNext' defined at .*\n +File \".*", caught.value.message)
    assert caught.value.op.name == caught.value.node_def.name == "IteratorGetNext"


def test_paths_and_scopes_of_the_program_stay(tmp_path):
    folder = tmp_path / "tf_booster" / "pipeline"
    with pytest.raises(tf.errors.NotFoundError) as caught:
        train(lambda: tf.data.TextLineDataset(str(folder / "none")).map(tf.strings.length).batch(2))
    assert str(folder / "none") in caught.value.message
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.name_scope("tf_booster/pipeline"):
            checked = tf.debugging.check_numerics(v1.placeholder_with_default(float("nan"), []), "seen", name="checked")
        with pytest.raises(tf.errors.InvalidArgumentError, match="seen") as caught:
            session.run(checked)
    assert caught.value.op is checked.op and "{{node tf_booster/pipeline/checked}}" in caught.value.message


def test_an_op_that_stands_for_others_leads_back_to_these():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        train(lambda: tf.data.Dataset.from_tensors([1, 9]))
    # A lookup or an update, whichever is first.
    named = re.search(r"op 'tf_booster/\S+' stands for \[\[{{node (\S+)}}\]\] and another", caught.value.message)
    assert named and not named[1].startswith("tf_booster/")
    lines = rf"node '{re.escape(named[1])}' defined at (.*\n)*.*error_words_test.py\", line \d+, in model_fn"
    assert re.search(lines, caught.value.message)
