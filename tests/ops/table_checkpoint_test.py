"""Export and Restore: a table through TensorFlow's V2 checkpoint and back, and every checkpoint that must be refused."""

import os

import numpy as np
import pytest
import tensorflow as tf
from table_session import EXTREME_IDS, SLOTS, int64

OPTIMIZER_OPS = {
    "sgd": ("gradient_descent", [0.1]),
    "momentum": ("momentum", [0.1, 0.9]),
    "keras_momentum": ("keras_momentum", [0.1, 0.9]),
    "adagrad": ("adagrad", [0.1]),
    "adagrad_v2": ("adagrad_v2", [0.1, 1e-7]),
    "adam": ("adam", [0.9, 0.999, 0.1, 0.9, 0.999, 1e-8]),
    "ftrl": ("ftrl", [0.1, 0.0, 0.0, 0.0, -0.5]),
    "rmsprop": ("rms_prop", [0.1, 0.9, 0.5, 1e-7]),
    "centered_rmsprop": ("centered_rms_prop", [0.1, 0.9, 0.5, 1e-7]),
}
RANDOM = dict(initializer="truncated_normal", args=(0.0, 0.5))


def train(t, steps=3, seed=0):
    op, hyper = OPTIMIZER_OPS[t.attrs["optimizer"]]
    random = np.random.RandomState(seed)
    for _ in range(steps):
        ids = random.choice(EXTREME_IDS + list(range(20, 30)), 24)
        t.step(op, [ids], [random.uniform(-1, 1, [24, t.dim])], np.float32(hyper))


def tensors_of(t, name="user_emb"):
    """A table's tensors under their names in a checkpoint."""
    e = t.export()
    tensors = {f"{name}/slots/{slot}": value for slot, value in zip(SLOTS[t.attrs["optimizer"]], e.slots)}
    for part in ("keys", "values", "frequencies", "last_use_steps", "pending_keys", "pending_counts", "step", "seed"):
        tensors[f"{name}/{part}"] = getattr(e, part)
    tensors[f"{name}/optimizer"] = np.asarray(e.optimizer, object)
    return tensors


def write(prefix, tensors, slices=None):
    prefix = str(prefix)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=slices or [""] * len(tensors),
        tensors=[tf.constant(x) for x in tensors.values()],
    )
    return prefix


def restore(t, prefix, name="user_emb"):
    t("restore", np.asarray(prefix, object), checkpoint_names=[name])


def same(a, b):
    assert a.keys() == b.keys()
    for key, (values, slots, frequency, last_use) in a.items():
        np.testing.assert_array_equal(values, b[key][0])
        np.testing.assert_array_equal(slots, b[key][1])
        assert (frequency, last_use) == b[key][2:]


@pytest.mark.parametrize("optimizer", OPTIMIZER_OPS)
def test_a_round_trip_keeps_everything_and_training_goes_on_with_equal_bits(table, tmp_path, optimizer):
    a, b = table(dim=3, optimizer=optimizer, **RANDOM), table(dim=3, optimizer=optimizer, **RANDOM, seed=99)
    train(a)
    train(b, seed=5)
    restore(b, write(tmp_path / "model", tensors_of(a)))
    same(a.contents(), b.contents())
    assert a("stats")[3] == b("stats")[3] == 3
    train(a, seed=1)
    train(b, seed=1)
    same(a.contents(), b.contents())


def test_the_seed_comes_back_so_unseen_keys_keep_their_first_values(table, tmp_path):
    a, b = table(dim=4, **RANDOM, seed=1), table(dim=4, **RANDOM, seed=2)
    assert not np.array_equal(a.find([5]).values, b.find([5]).values)
    restore(b, write(tmp_path / "model", tensors_of(a)))
    np.testing.assert_array_equal(a.find([5]).values, b.find([5]).values)
    assert b.export().seed == 1


def test_an_empty_table(table, tmp_path):
    a, b = table(optimizer="adam"), table(optimizer="adam")
    b.assign([1], [[1, 2]])
    restore(b, write(tmp_path / "model", tensors_of(a)))
    assert b.size() == 0


def test_pending_keys_keep_their_counts(table, tmp_path):
    options = dict(dim=1, optimizer="sgd", min_frequencies=[3])
    a, b = table(**options), table(**options)
    a.step("gradient_descent", [[1, 1, 2]], [np.ones([3, 1])], [np.float32(1)])
    b.step("gradient_descent", [[2, 2]], [np.ones([2, 1])], [np.float32(1)])
    tensors = tensors_of(a)
    assert dict(zip(tensors["user_emb/pending_keys"], tensors["user_emb/pending_counts"])) == {1: 2, 2: 1}
    restore(b, write(tmp_path / "model", tensors))
    b.step("gradient_descent", [[1, 2]], [np.ones([2, 1])], [np.float32(1)])
    np.testing.assert_array_equal(b.find([1, 2]).found, [True, False])


def test_tensorflow_lists_and_reads_the_checkpoint(table, tmp_path):
    t = table(optimizer="adagrad")
    train(t)
    reader = tf.train.load_checkpoint(write(tmp_path / "model", tensors_of(t)))
    shapes = reader.get_variable_to_shape_map()
    assert shapes["user_emb/values"] == shapes["user_emb/slots/accumulator"] == [t.size(), 2]
    assert reader.get_tensor("user_emb/optimizer") == b"adagrad"


def test_a_table_under_another_name(table, tmp_path):
    a, b = table(name="item_emb"), table()
    a.assign([4], [[1, 2]])
    restore(b, write(tmp_path / "model", tensors_of(a, "item_emb")), "item_emb")
    np.testing.assert_array_equal(b.find([4]).values, [[1, 2]])


def test_a_checkpoint_in_shards(table, tmp_path):
    a, b = table(optimizer="adam"), table(optimizer="adam")
    train(a)
    tensors = list(tensors_of(a).items())
    parts = [write(tmp_path / f"part{i}", dict(tensors[i::3])) for i in range(3)]
    prefix = str(tmp_path / "model")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
    assert len([f for f in os.listdir(tmp_path) if ".data-" in f]) == 3
    restore(b, prefix)
    same(a.contents(), b.contents())


def test_tensors_in_slices_of_two_ranks(table, tmp_path):
    a, b = table(), table()
    ids = np.arange(7)
    a.assign(ids, np.arange(14).reshape(7, 2))
    e, parts = a.export(), []
    for i, (start, end) in enumerate([(0, 3), (3, 7)]):
        tensors = {"user_emb/keys": e.keys[start:end], "user_emb/values": e.values[start:end]}
        spec = f"{start},{end - start}"
        parts.append(write(tmp_path / f"part{i}", tensors, [f"7 {spec}", f"7 2 {spec}:0,2"]))
    prefix = str(tmp_path / "model")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
    restore(b, prefix)
    np.testing.assert_array_equal(b.find(ids).values, np.arange(14).reshape(7, 2))
    assert b.size() == 7


@pytest.mark.parametrize("saved", ["adagrad", "sgd", None])
def test_slots_of_another_optimizer_start_anew_and_the_log_says_so(table, tmp_path, capfd, saved):
    a, b = (table(optimizer=o, **RANDOM) for o in (saved or "", "adam"))
    if saved:
        train(a)
    else:
        a.find_or_insert([1, 2, 3])
    tensors = tensors_of(a)
    if saved is None:
        del tensors["user_emb/optimizer"]
    train(b)
    restore(b, write(tmp_path / "model", tensors))
    wanted = "the slots of '%s'" % saved if saved else "no optimizer's slots"
    assert f"has {wanted}; its rows are restored, and the slots of 'adam' start anew" in capfd.readouterr().err
    found, rows = b.contents(), a.contents()
    assert found.keys() == rows.keys()
    for key, (values, slots, frequency, _) in found.items():
        np.testing.assert_array_equal(values, rows[key][0])
        np.testing.assert_array_equal(slots, np.zeros([2, 2]))
        assert frequency == rows[key][2]
    # And the new optimizer goes on from them.
    train(b, seed=3)
    assert any(np.any(slots) for _, slots, _, _ in b.contents().values())


def test_slots_of_the_same_name_are_not_those_of_another_optimizer(table, tmp_path):
    """TensorFlow's momentum and Keras's have a slot of one name, in other units."""
    a, b = table(optimizer="momentum"), table(optimizer="keras_momentum")
    train(a)
    restore(b, write(tmp_path / "model", tensors_of(a)))
    assert all(np.any(slots) for _, slots, _, _ in a.contents().values())
    assert not any(np.any(slots) for _, slots, _, _ in b.contents().values())


def test_what_is_optional_has_defaults(table, tmp_path):
    t = table(optimizer="adagrad")
    train(t)
    tensors = {"user_emb/keys": int64([3, 4]), "user_emb/values": np.ones([2, 2], np.float32)}
    restore(t, write(tmp_path / "model", tensors))
    same(t.contents(), {k: (np.ones(2), [np.full(2, np.float32(0.1))], 1, 0) for k in (3, 4)})
    np.testing.assert_array_equal(t("stats")[:4], [2, 0, 0, 0])
    assert t.export().seed == 7


def damaged(change):
    """A test of a checkpoint whose tensors `change` has spoilt."""

    def prepare(t, path):
        tensors = tensors_of(t)
        change(tensors)
        return write(path / "model", tensors)

    return prepare


def cut(suffix, keep):
    def prepare(t, path):
        prefix = write(path / "model", tensors_of(t))
        with open(prefix + suffix, "r+b") as file:
            file.truncate(int(os.path.getsize(prefix + suffix) * keep))
        return prefix

    return prepare


def flip(t, path):
    tensors = tensors_of(t)
    prefix = write(path / "model", tensors)
    with open(prefix + DATA, "r+b") as file:
        place = file.read().index(tensors["user_emb/values"].tobytes())
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    return prefix


def without_data(t, path):
    prefix = write(path / "model", tensors_of(t))
    os.remove(prefix + DATA)
    return prefix


DATA = ".data-00000-of-00001"
E = tf.errors
KEYS, VALUES = "user_emb/keys", "user_emb/values"
REFUSED = {
    "no checkpoint": (lambda t, p: str(p / "nowhere"), E.NotFoundError, "there is no checkpoint '.*nowhere'"),
    "another table": (
        lambda t, p: write(p / "model", tensors_of(t, "item_emb")),
        E.NotFoundError,
        "checkpoint '.*model' has no tensor 'user_emb/keys', so it was saved without this table. It has the tables "
        "'item_emb'; check the table's name",
    ),
    "no table": (
        lambda t, p: write(p / "model", {"kernel": np.ones(3)}),
        E.NotFoundError,
        "no tensor 'user_emb/keys'.*It has no tables",
    ),
    "no values": (damaged(lambda x: x.pop(VALUES)), E.NotFoundError, "has 'user_emb/keys' but no 'user_emb/values'"),
    "no slot": (damaged(lambda x: x.pop("user_emb/slots/v")), E.NotFoundError, "but no 'user_emb/slots/v'"),
    "no pending counts": (
        damaged(lambda x: x.pop("user_emb/pending_counts")), E.NotFoundError, "but no 'user_emb/pending_counts'",
    ),
    "wrong dim": (
        damaged(lambda x: x.update({VALUES: np.ones([len(x[KEYS]), 32], np.float32)})),
        E.InvalidArgumentError,
        "dim is 2 but 'user_emb/values' in checkpoint '.*model' has 32 columns; check embedding_dim",
    ),
    "wrong slot dim": (
        damaged(lambda x: x.update({"user_emb/slots/m": np.ones([len(x[KEYS]), 1], np.float32)})),
        E.InvalidArgumentError,
        "dim is 2 but 'user_emb/slots/m' in checkpoint '.*model' has 1 columns",
    ),
    "wrong dtype": (
        damaged(lambda x: x.update({VALUES: x[VALUES].astype(np.float64)})),
        E.InvalidArgumentError,
        "dtype of 'user_emb/values' in checkpoint '.*model' is double, but must be float",
    ),
    "wrong rows": (
        damaged(lambda x: x.update({VALUES: x[VALUES][1:]})),
        E.InvalidArgumentError,
        r"'user_emb/values' in checkpoint '.*model' has the shape \[\d+,2\], but must be \[\d+, 2\] to match",
    ),
    "wrong rank": (
        damaged(lambda x: x.update({KEYS: x[KEYS][:, None]})),
        E.InvalidArgumentError,
        r"'user_emb/keys' in checkpoint '.*model' has the shape \[\d+,1\], but must be \[\?\]",
    ),
    "wrong frequencies": (
        damaged(lambda x: x.update({"user_emb/frequencies": int64([1])})),
        E.InvalidArgumentError,
        "user_emb/frequencies",
    ),
    "step is no scalar": (
        damaged(lambda x: x.update({"user_emb/step": int64([1])})),
        E.InvalidArgumentError,
        "user_emb/step",
    ),
    "duplicate keys": (
        damaged(lambda x: x[KEYS].__setitem__(0, x[KEYS][1])), E.InvalidArgumentError, r"key -?\d+ occurs twice.*\(checkpoint '.*model'\)",
    ),
    "truncated data": (cut(DATA, 0.5), E.DataLossError, "is corrupt or truncated; restore an earlier checkpoint"),
    "empty data": (cut(DATA, 0), E.DataLossError, "is corrupt or truncated; restore an earlier checkpoint"),
    "truncated index": (cut(".index", 0.5), E.DataLossError, "index of checkpoint '.*model' cannot be read"),
    "empty index": (cut(".index", 0), E.DataLossError, "index of checkpoint '.*model' cannot be read"),
    "corrupt data": (flip, E.DataLossError, "'user_emb/values' of checkpoint '.*model' is corrupt or truncated"),
    "no data": (without_data, E.DataLossError, "is corrupt or truncated; restore an earlier checkpoint"),
}  # fmt: skip


@pytest.mark.parametrize("prepare, error, message", REFUSED.values(), ids=REFUSED.keys())
def test_a_checkpoint_that_does_not_fit_changes_nothing(table, tmp_path, prepare, error, message):
    saved, t = table(optimizer="adam"), table(optimizer="adam")
    train(saved)
    train(t, seed=4)
    prefix = prepare(saved, tmp_path)
    before, stats = t.contents(), t("stats")
    with pytest.raises(error, match="TableRestore 'user_emb': .*" + message):
        restore(t, prefix)
    same(t.contents(), before)
    np.testing.assert_array_equal(t("stats")[:4], stats[:4])


def test_more_rows_than_the_limit_change_nothing(table, tmp_path):
    a, b = table(), table(max_rows=[2])
    a.assign([1, 2, 3], np.ones([3, 2]))
    b.assign([9], [[1, 2]])
    with pytest.raises(tf.errors.ResourceExhaustedError, match="TableRestore 'user_emb'.*2"):
        restore(b, write(tmp_path / "model", tensors_of(a)))
    same(b.contents(), {9: (np.float32([1, 2]), [], 1, 0)})


def test_a_prefix_must_be_a_scalar(table):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"prefix has the shape \[1\], but must be a scalar"):
        table()("restore", ["x"], checkpoint_names=["user_emb"])
