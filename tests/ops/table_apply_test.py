"""The fused updates: each op against TensorFlow's own kernel, and what they share against a dictionary."""

import numpy as np
import pytest
import tensorflow as tf
from table_session import EXTREME_IDS, SLOTS, int64

raw = tf.raw_ops
LR = 0.1

# Of each op: the table's optimizer, hyperparameters in the op's order (all different, so that a mix-up shows), choices of
# attributes, and TensorFlow's own update of variables [value, slots…] by the gradient of all rows.
OPS = {
    "gradient_descent": (
        "sgd",
        dict(lr=LR),
        [{}],
        lambda v, g, h, a: raw.ResourceApplyGradientDescent(var=v[0], alpha=h["lr"], delta=g),
    ),
    "momentum": (
        "momentum",
        dict(lr=LR, momentum=0.7),
        [dict(use_nesterov=False), dict(use_nesterov=True)],
        lambda v, g, h, a: raw.ResourceSparseApplyMomentum(var=v[0], accum=v[1], grad=g, indices=rows(g), **h, **a),
    ),
    "keras_momentum": (
        "keras_momentum",
        dict(lr=LR, momentum=0.7),
        [dict(use_nesterov=False), dict(use_nesterov=True)],
        lambda v, g, h, a: raw.ResourceSparseApplyKerasMomentum(
            var=v[0], accum=v[1], grad=g, indices=rows(g), **h, **a
        ),
    ),
    "adagrad": (
        "adagrad",
        dict(lr=LR),
        [dict(update_slots=True), dict(update_slots=False)],
        lambda v, g, h, a: raw.ResourceSparseApplyAdagrad(var=v[0], accum=v[1], grad=g, indices=rows(g), **h, **a),
    ),
    "adagrad_v2": (
        "adagrad_v2",
        dict(lr=LR, epsilon=0.03),
        [dict(update_slots=True), dict(update_slots=False)],
        lambda v, g, h, a: raw.ResourceSparseApplyAdagradV2(var=v[0], accum=v[1], grad=g, indices=rows(g), **h, **a),
    ),
    "adam": (
        "adam",
        dict(beta1_power=0.8, beta2_power=0.9, lr=LR, beta1=0.6, beta2=0.95, epsilon=0.01),
        [dict(use_nesterov=False), dict(use_nesterov=True)],
        lambda v, g, h, a: raw.ResourceApplyAdam(var=v[0], m=v[1], v=v[2], grad=g, **h, **a),
    ),
    "ftrl": (
        "ftrl",
        dict(lr=LR, l1=0.02, l2=0.03, l2_shrinkage=0.04, lr_power=-0.6),
        [dict(multiply_linear_by_lr=False), dict(multiply_linear_by_lr=True)],
        lambda v, g, h, a: raw.ResourceSparseApplyFtrlV2(
            var=v[0], accum=v[1], linear=v[2], grad=g, indices=rows(g), **h, **a
        ),
    ),
    "rms_prop": (
        "rmsprop",
        dict(lr=LR, rho=0.8, momentum=0.6, epsilon=0.02),
        [{}],
        lambda v, g, h, a: raw.ResourceSparseApplyRMSProp(var=v[0], ms=v[1], mom=v[2], grad=g, indices=rows(g), **h),
    ),
    "centered_rms_prop": (
        "centered_rmsprop",
        dict(lr=LR, rho=0.8, momentum=0.6, epsilon=0.02),
        [{}],
        lambda v, g, h, a: raw.ResourceSparseApplyCenteredRMSProp(
            var=v[0], mg=v[1], ms=v[2], mom=v[3], grad=g, indices=rows(g), **h
        ),
    ),
}
CASES = [(op, attrs) for op, (_, _, choices, _) in OPS.items() for attrs in choices]


def rows(grad):
    return np.arange(len(grad), dtype=np.int64)


def grads_of(ids, dim, seed):
    return np.random.RandomState(seed).uniform(-1, 1, np.shape(ids) + (dim,)).astype(np.float32)


@pytest.mark.parametrize("op, attrs", CASES, ids=lambda x: str(x))
def test_equals_tensorflows_own_kernel(table, op, attrs):
    optimizer, hyper, _, reference = OPS[op]
    slots = SLOTS[optimizer]
    t = table(dim=5, optimizer=optimizer)
    ids = int64([3, -1, 3, 1 << 62, 0, -1, 3])
    keys, places = np.unique(ids, return_inverse=True)
    variables = [tf.Variable(np.full([len(keys), 5], initial, np.float32)) for initial in [0.5, *slots.values()]]
    for step in range(3):
        grad = grads_of(ids, 5, step)
        t.step(op, [ids], [grad], hyper.values(), **attrs)
        summed = np.zeros([len(keys), 5], np.float32)
        np.add.at(summed, places, grad)
        reference([v.handle for v in variables], summed, hyper, attrs)
    contents = t.contents()
    assert sorted(contents) == sorted(keys)
    for i, key in enumerate(keys):
        values, found_slots, frequency, last_use = contents[key]
        for found, variable in zip([values, *found_slots], variables):
            np.testing.assert_allclose(found, variable.numpy()[i], rtol=3e-6, atol=3e-7)
        assert frequency == 3 * np.count_nonzero(ids == key) and last_use == 3


@pytest.mark.parametrize("dim, power", [(1, -0.5), (1, -0.4), (8, -0.5)])
def test_ftrl_has_tensorflows_bits(table, dim, power):
    """Linear models' rows of one column take another kernel there than others. (Of several columns, Eigen has a pow of its own.)"""
    hyper = dict(lr=LR, l1=0.02, l2=0.03, l2_shrinkage=0.04, lr_power=power)
    t = table(dim=dim, optimizer="ftrl")
    ids = np.arange(2000, dtype=np.int64)
    variables = [
        tf.Variable(np.full([len(ids), dim], initial, np.float32)) for initial in [0.5, *SLOTS["ftrl"].values()]
    ]
    for step in range(3):
        grad = grads_of(ids, dim, step)
        t.step("ftrl", [ids], [grad], hyper.values(), multiply_linear_by_lr=False)
        OPS["ftrl"][3]([v.handle for v in variables], grad, hyper, dict(multiply_linear_by_lr=False))
    contents = t.contents()
    for i, key in enumerate(ids):
        for found, variable in zip([contents[key][0], *contents[key][1]], (v[i].numpy() for v in variables)):
            np.testing.assert_array_equal(found, variable)


@pytest.mark.parametrize("op, slot", [("rms_prop", 0), ("centered_rms_prop", 1)])
def test_epsilon_outside_of_the_root(table, op, slot):
    optimizer, hyper, _, _ = OPS[op]
    t = table(dim=1, optimizer=optimizer)
    t.step(op, [[4]], [[[2.0]]], dict(hyper, momentum=0.0).values(), epsilon_outside_sqrt=True)
    ms, mg = 0.8 * 1.0 + 0.2 * 4.0, (0.2 * 2.0 if slot else 0.0)
    np.testing.assert_allclose(t.find([4]).values, [[0.5 - LR * 2.0 / (np.sqrt(ms - mg * mg) + 0.02)]], rtol=1e-6)


def sgd(t, id_lists, grads, lr=1.0, **attrs):
    t.step("gradient_descent", id_lists, grads, [np.float32(lr)], **attrs)


def test_groups_of_two_probes_meet_in_one_update(table):
    """The same id in both probes is one row: gradients and sightings are summed, and it moves once."""
    t = table(dim=2, optimizer="adagrad")
    a, b = [7, 8, 7], [[9, 7], [10, 9]]
    grads = [grads_of(a, 2, 0), grads_of(b, 2, 1)]
    t.step("adagrad", [a, b], grads, [np.float32(LR)])
    ids, grad = np.concatenate([a, np.reshape(b, -1)]), np.concatenate([g.reshape(-1, 2) for g in grads])
    contents = t.contents()
    assert sorted(contents) == [7, 8, 9, 10] and t("stats")[3] == 1
    for key, (values, (accumulator,), frequency, last_use) in contents.items():
        summed = grad[ids == key].sum(0, dtype=np.float64)
        np.testing.assert_allclose(accumulator, 0.1 + summed**2, rtol=1e-5)
        np.testing.assert_allclose(values, 0.5 - LR * summed / np.sqrt(0.1 + summed**2), rtol=1e-5)
        assert frequency == np.count_nonzero(ids == key) and last_use == 1


def test_extreme_ids_train(table):
    t = table(dim=1, optimizer="sgd")
    ids = EXTREME_IDS * 2
    sgd(t, [ids], [np.arange(len(ids)).reshape(-1, 1)])
    n = len(EXTREME_IDS)
    np.testing.assert_array_equal(t.find(EXTREME_IDS).values[:, 0], [0.5 - (2 * i + n) for i in range(n)])


def apply_raw(t, codes, grad, keys=(5, 6), counts=(1, 1), handles=(-1, -1), lr=1.0, **attrs):
    return t(
        "apply_gradient_descent", [int64(keys)], [np.zeros(np.shape(keys), np.int32)], [int64(counts)],
        [int64(handles)], [int64(codes)], [np.asarray(grad, np.float32)], np.asarray(lr, np.float32), **attrs,
    )  # fmt: skip


def test_code_0_is_skipped_and_keys_without_a_gradient_are_counted_only(table):
    t = table(optimizer="sgd")
    apply_raw(t, [0, 2, 0], [[9, 9], [1, 2], [9, 9]])
    contents = t.contents()
    np.testing.assert_array_equal(contents[6][0], [-0.5, -1.5])
    np.testing.assert_array_equal(contents[5][0], [0.5, 0.5])
    assert contents[5][2] == contents[6][2] == 1


def test_empty_batches(table):
    t = table(optimizer="sgd")
    sgd(t, [[]], [np.zeros([0, 2])])
    sgd(t, [[], [3]], [np.zeros([0, 2]), [[1, 1]]])
    apply_raw(t, [], np.zeros([0, 2]), keys=[], counts=[], handles=[])
    assert t.size() == 1 and t("stats")[3] == 3


def test_handles_from_before_an_erase_and_made_up_ones(table):
    t = table(optimizer="sgd")
    t.assign([5, 6, 7], [[1, 1], [2, 2], [3, 3]])
    p = t("probe", [int64([5, 6])])
    t("erase", int64([5]))
    t.assign([8, 9], [[8, 8], [9, 9]])
    apply_raw(t, p.codes[0], [[1, 1], [1, 1]], p.keys, p.counts, p.handles)
    apply_raw(t, [1, 2], [[1, 1], [1, 1]], [7, 8])
    apply_raw(t, [1, 2], [[1, 1], [1, 1]], [7, 8], handles=[1 << 50, -9])
    np.testing.assert_array_equal(t.find([5, 6, 7, 8, 9]).values[:, 0], [-0.5, 1, 1, 6, 9])


def test_a_learning_rate_is_a_tensor(table):
    t = table(dim=1, optimizer="sgd")
    with t.session.graph.as_default():
        lr = tf.compat.v1.placeholder(tf.float32, [])
        p = t.ops.tf_booster_table_probe(t.handle, [[1]])
        keys = ([p.keys], [p.key_fields], [p.counts], [p.handles])
        step = t.apply_op("gradient_descent")(t.handle, *keys, p.codes, [[[1.0]]], lr)
    for rate in (0.25, 0.125):
        t.session.run(step, {lr: rate})
    np.testing.assert_array_equal(t.find([1]).values, [[0.125]])


def test_a_filter_admits_with_the_batch_that_brings_the_last_sighting(table):
    t = table(dim=1, optimizer="sgd", min_frequencies=[3])
    sgd(t, [[1, 1, 2]], [[[1], [1], [1]]])
    assert t.size() == 0 and t("stats")[1] == 2
    np.testing.assert_array_equal(t.find([1, 2]).values, [[0.5], [0.5]])
    sgd(t, [[1]], [[[4]]])
    found = t.find([1, 2])
    np.testing.assert_array_equal(found.values, [[-3.5], [0.5]])
    np.testing.assert_array_equal(found.found, [True, False])


def test_eviction_follows_the_update(table):
    t = table(dim=1, optimizer="sgd", evictions=["lru"], eviction_args=[2])
    sgd(t, [[1, 2]], [[[1], [1]]])
    sgd(t, [[3]], [[[1]]])
    sgd(t, [[3, 4]], [[[1], [1]]])
    assert sorted(t.export().keys) == [3, 4] and t("stats")[2] == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_check_numerics_refuses_and_leaves_the_table(table, bad):
    t = table(optimizer="adagrad")
    t.step("adagrad", [[5]], [[[1, 2]]], [np.float32(LR)])
    before = t.contents()
    with pytest.raises(tf.errors.InvalidArgumentError, match="TableApplyAdagrad 'user_emb'"):
        t.step("adagrad", [[5, 6]], [[[1, 2], [1, bad]]], [np.float32(LR)], check_numerics=True)
    same(t.contents(), before)
    t.step("adagrad", [[5, 6]], [[[1, 2], [1, bad]]], [np.float32(LR)])
    assert np.isnan(t.find([6]).values[0, 1]) and np.isfinite(t.find([5]).values).all()


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_array_equal(found[key][0], wanted[key][0])
        np.testing.assert_array_equal(found[key][1], wanted[key][1])
        assert found[key][2:] == wanted[key][2:]


def test_a_limit_fails_the_whole_step(table):
    t = table(optimizer="adagrad", max_rows=[3])
    t.step("adagrad", [[1, 2]], [[[1, 2], [3, 4]]], [np.float32(LR)])
    before, stats = t.contents(), t("stats")
    with pytest.raises(tf.errors.ResourceExhaustedError, match="user_emb.*3"):
        t.step("adagrad", [[1, 3, 4]], [np.ones([3, 2])], [np.float32(LR)])
    same(t.contents(), before)
    np.testing.assert_array_equal(t("stats")[:4], stats[:4])
    t.step("adagrad", [[1, 3]], [np.ones([2, 2])], [np.float32(LR)])
    assert t.size() == 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: apply_raw(t, [3], [[1, 1]]), "TableApplyGradientDescent 'user_emb'.*code"),
        (lambda t: apply_raw(t, [(1 << 40) + 1], [[1, 1]]), "TableApplyGradientDescent 'user_emb'.*(group|probe)"),
        (lambda t: apply_raw(t, [-1], [[1, 1]]), "TableApplyGradientDescent 'user_emb'.*code"),
        (lambda t: apply_raw(t, [1], [[1, 1, 1]]), "dim is 2 but grad has 3 columns; check embedding_dim"),
        (lambda t: apply_raw(t, [1, 2], [[1, 1]]), "grad has 1 rows, but indices has 2 entries"),
        (lambda t: apply_raw(t, [[1]], [[1, 1]]), r"indices has the shape \[1,1\], but must be a vector"),
        (lambda t: apply_raw(t, [1], [1, 1]), r"grad has the shape \[2\], but must be \[1, 2\]"),
        (lambda t: apply_raw(t, [1], [[1, 1]], counts=[1]), "counts has 1 entries, but keys has 2"),
        (lambda t: apply_raw(t, [1], [[1, 1]], handles=[1]), "handles has 1 entries, but keys has 2"),
        (lambda t: apply_raw(t, [1], [[1, 1]], lr=[1.0]), r"lr has the shape \[1\], but must be a scalar"),
    ],
)
def test_refusals(table, call, message):
    t = table(optimizer="sgd")
    t.assign([5], [[1, 2]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(t)
    same(t.contents(), {5: (np.float32([1, 2]), [], 1, 0)})


def test_a_table_of_another_optimizer_is_refused(table):
    t = table(optimizer="adagrad")
    with pytest.raises(tf.errors.InvalidArgumentError, match="slots of optimizer 'adagrad', but the op needs .*'sgd'"):
        sgd(t, [[1]], [[[1, 1]]])
    assert t.size() == 0
