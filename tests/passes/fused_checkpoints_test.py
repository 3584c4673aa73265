"""A checkpoint does not know which tables were fused: saved in one grouping it restores in any other, bit for bit."""

import numpy as np
import pytest
import tensorflow as tf
from fused_pairs import OPTIMIZERS, SETTINGS, Program, minimize, v1

import tf_booster


def model(optimizer="adagrad", groups=1, tables=6):
    """`groups` train at learning rates of their own, and so are not fused with each other. One rate of 0.1 for all tables
    is the same training in any number of groups."""

    def build():
        ids = v1.placeholder(tf.int64, [None, tables])
        made = [tf_booster.get_hash_table(f"t{i}", 4, **SETTINGS[i]) for i in range(tables)]
        hidden = tf.concat([tf_booster.embedding_lookup(t, ids[:, i]) for i, t in enumerate(made)], 1)
        loss = tf.reduce_sum(tf.square(tf.reduce_sum(hidden * np.linspace(-1, 1, 4 * tables), 1) - 1))
        trains = [minimize(loss, OPTIMIZERS[optimizer](), [t.variable for t in made[g::groups]]) for g in range(groups)]
        return {"ids": ids, "loss": loss, "train": trains if groups > 1 else trains[0]}

    return build


def train(program, steps, seed):
    random = np.random.RandomState(seed)
    for _ in range(steps):
        program.run("train", ids=random.randint(-9, 30, [20, 6]))


def save(program, path):
    with program.graph.as_default():
        return program.saver.save(program.session, str(path))


def restore(program, path, saver=None):
    with program.graph.as_default():
        (saver or program.saver).restore(program.session, path)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "ftrl", "keras_rmsprop"])
@pytest.mark.parametrize("saved, restored", [(True, False), (False, True), (True, True)])
def test_training_goes_on_the_same_after_a_restore_in_the_other_form(tmp_path, optimizer, saved, restored):
    first, second = Program(model(optimizer), saved), Program(model(optimizer), restored)
    train(first, 7, 0)
    train(second, 5, 9)  # Has rows, pending keys and clocks of its own, which must go.
    restore(second, save(first, tmp_path / "model"))
    expect_same_but_evicted(first, second)
    for program in (first, second):
        train(program, 7, 1)
    expect_same_but_evicted(first, second)


def expect_same_but_evicted(one, other):
    """How many rows were evicted is of the process, not of the checkpoint."""
    a, b = one.contents(), other.contents()
    for name in a:
        assert a[name][:3] == b[name][:3]
        assert a[name][3][:2] == b[name][3][:2] and a[name][3][3] == b[name][3][3]


@pytest.mark.parametrize("saved, restored", [(2, 1), (1, 3), (3, 2), (6, 1)])
def test_any_grouping_restores_any_other(tmp_path, saved, restored):
    first, second = Program(model(groups=saved), True), Program(model(groups=restored), True)
    resources = [len({t.resource.ref() for t in p.tables.values()}) for p in (first, second)]
    assert resources == [saved, restored]
    train(first, 6, 0)
    train(second, 2, 9)
    restore(second, save(first, tmp_path / "model"))
    expect_same_but_evicted(first, second)


def test_names_in_the_checkpoint_are_those_of_the_tables(tmp_path):
    paths = []
    for fuse in (True, False):
        program = Program(model("adam"), fuse)
        train(program, 2, 0)
        paths.append(save(program, tmp_path / str(fuse)))
    names = [sorted(name for name, _ in tf.train.list_variables(path)) for path in paths]
    assert names[0] == names[1] and "t3/slots/m" in names[0]


def test_a_saver_of_one_table_saves_and_restores_it_alone(tmp_path):
    def build():
        nodes = model()()
        nodes["saver"] = v1.train.Saver([v1.trainable_variables()[2]])  # Made before the rewrite.
        return nodes

    first, second = Program(build, True), Program(build, True)
    train(first, 5, 0)
    train(second, 5, 3)
    before = second.contents()
    with first.graph.as_default():
        path = first.nodes["saver"].save(first.session, str(tmp_path / "one"))
    assert all(name.startswith("t2/") for name, _ in tf.train.list_variables(path))
    restore(second, path, second.nodes["saver"])
    after, wanted = second.contents(), first.contents()
    for name in after:
        assert after[name][:3] == (wanted if name == "t2" else before)[name][:3]


def test_a_bad_checkpoint_leaves_each_table_as_it_was(tmp_path):
    first, second = Program(model(), True), Program(model(), True)
    train(first, 5, 0)
    train(second, 5, 3)
    path = save(first, tmp_path / "model")
    reader = tf.train.load_checkpoint(path)
    tensors = {name: reader.get_tensor(name) for name, _ in tf.train.list_variables(path)}
    tensors["t3/keys"] = np.zeros_like(tensors["t3/keys"])  # One key for all rows.
    bad = str(tmp_path / "bad")
    tf.raw_ops.SaveV2(
        prefix=bad,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )
    before, wanted = second.contents(), first.contents()
    with pytest.raises(tf.errors.InvalidArgumentError, match="TableRestore.*t3"):
        restore(second, bad)
    after = second.contents()
    for name in after:
        assert after[name][:3] in (before[name][:3], wanted[name][:3])
    assert after["t3"][:3] == before["t3"][:3]
    train(second, 3, 4)


def test_a_warm_start_of_some_tables(tmp_path):
    first = Program(model(), False)
    train(first, 5, 0)
    path = save(first, tmp_path / "model")

    def build():
        nodes = model()()
        v1.train.init_from_checkpoint(path, {"t1": "t4", "t2": "t2"})
        return nodes

    tf_booster.enable_gpu_booster()
    try:
        second = Program(build, True)
    finally:
        tf_booster.disable_gpu_booster()
    with second.graph.as_default():
        second.session.run([resource.create for resource in v1.get_collection(v1.GraphKeys.RESOURCES)])
    wanted, found = first.contents(), second.contents()
    assert found["t4"][0] == wanted["t1"][0] and found["t2"][0] == wanted["t2"][0]
    assert not found["t0"][0] and not found["t1"][0]
