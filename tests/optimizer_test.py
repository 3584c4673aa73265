"""Every fused optimizer against TensorFlow's own kernel: 100 steps, each of which starts from the same state for both.

A value or slot may differ by 4 ulp (float32) of the larger of its old value and its update.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Tuple

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native
from tf_booster.checkpoint import layout

raw = tf.raw_ops
v1 = tf.compat.v1
STEPS = 100
KEYS = np.array([0, -1, 1, 2**63 - 1, -(2**63), *(7919 * 2**30 * np.arange(1, 36))], np.int64)


@dataclasses.dataclass(frozen=True)
class Case:
    """One op: the table's optimizer with its slots' initial values, hyperparameters in the op's order, and TensorFlow's
    kernel on variables [value, slots…] for summed gradients `g` of the rows `i`."""

    op: str
    optimizer: str
    slots: Dict[str, float]
    hyper: Dict[str, float]
    attrs: Dict[str, bool]
    kernel: Callable
    ulps: float = 4.0


MOMENTUM = {"momentum": 0.0}
ACCUMULATOR = {"accumulator": 0.1}


def scatter(v, g, i, h, a):
    raw.ResourceScatterAdd(resource=v[0], indices=i, updates=-g * np.float32(h["lr"]))


def momentum(v, g, i, h, a):
    raw.ResourceSparseApplyMomentum(var=v[0], accum=v[1], grad=g, indices=i, **h, **a)


def keras_momentum(v, g, i, h, a):
    raw.ResourceSparseApplyKerasMomentum(var=v[0], accum=v[1], grad=g, indices=i, **h, **a)


def adagrad(v, g, i, h, a):
    raw.ResourceSparseApplyAdagrad(var=v[0], accum=v[1], grad=g, indices=i, **h, **a)


def adagrad_v2(v, g, i, h, a):
    raw.ResourceSparseApplyAdagradV2(var=v[0], accum=v[1], grad=g, indices=i, **h, **a)


def adam(v, g, i, h, a):
    """ResourceApplyAdam on the gathered rows: TensorFlow has no sparse kernel."""
    gathered = [tf.Variable(raw.ResourceGather(resource=x, indices=i, dtype=tf.float32)) for x in v]
    raw.ResourceApplyAdam(**dict(zip(["var", "m", "v"], [x.handle for x in gathered])), grad=g, **h, **a)
    for x, rows in zip(v, gathered):
        raw.ResourceScatterUpdate(resource=x, indices=i, updates=rows)


def ftrl(v, g, i, h, a):
    raw.ResourceSparseApplyFtrlV2(var=v[0], accum=v[1], linear=v[2], grad=g, indices=i, **h, **a)


def ftrl_without_shrinkage(v, g, i, h, a):
    h = {name: value for name, value in h.items() if name != "l2_shrinkage"}
    raw.ResourceSparseApplyFtrl(var=v[0], accum=v[1], linear=v[2], grad=g, indices=i, **h, **a)


def rmsprop(v, g, i, h, a):
    raw.ResourceSparseApplyRMSProp(var=v[0], ms=v[1], mom=v[2], grad=g, indices=i, **h)


def centered_rmsprop(v, g, i, h, a):
    raw.ResourceSparseApplyCenteredRMSProp(var=v[0], mg=v[1], ms=v[2], mom=v[3], grad=g, indices=i, **h)


def cases() -> List[Case]:
    flags = (False, True)
    adam_slots, rms = {"m": 0.0, "v": 0.0}, dict(lr=0.01, rho=0.9, momentum=0.5, epsilon=1e-4)
    adam_hyper = dict(beta1_power=0.9, beta2_power=0.999, lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-7)
    found = [Case("gradient_descent", "sgd", {}, dict(lr=0.1), {}, scatter)]
    for nesterov in flags:
        attrs, hyper = dict(use_nesterov=nesterov), dict(lr=0.1, momentum=0.9)
        found.append(Case("momentum", "momentum", MOMENTUM, hyper, attrs, momentum))
        found.append(Case("keras_momentum", "keras_momentum", MOMENTUM, hyper, attrs, keras_momentum))
        found.append(Case("adam", "adam", adam_slots, adam_hyper, attrs, adam))
    for update in flags:
        attrs = dict(update_slots=update)
        found.append(Case("adagrad", "adagrad", ACCUMULATOR, dict(lr=0.1), attrs, adagrad))
        found.append(Case("adagrad_v2", "adagrad_v2", ACCUMULATOR, dict(lr=0.1, epsilon=1e-3), attrs, adagrad_v2))
    for by_lr in flags:
        slots, attrs = {"accumulator": 0.1, "linear": 0.0}, dict(multiply_linear_by_lr=by_lr)
        hyper = dict(lr=0.1, l1=0.01, l2=0.02, l2_shrinkage=0.03, lr_power=-0.5)
        found.append(Case("ftrl", "ftrl", slots, hyper, attrs, ftrl))
        found.append(Case("ftrl", "ftrl", slots, dict(hyper, l2_shrinkage=0.0), attrs, ftrl_without_shrinkage))
        # Eigen's power and libm's are each right within 1 ulp, so the difference of two powers, which is added to the linear
        # slot, may differ by 4 ulp of a power; a change of binade on the way (by lr, by the value) doubles that, and so does
        # the division that gives the new value. The ulps are those of power / lr * value, see `scale_of`.
        found.append(Case("ftrl", "ftrl", slots, dict(hyper, lr_power=-0.7), attrs, ftrl, ulps=16.0))
    # Eigen's reciprocal root is the processor's estimate, off by up to e = 1.5 * 2^-12 on Intel's (AMD's are finer), and one
    # Newton step, which leaves 1.5 e^2 = 3.4 * 2^-24 and the roundings of its last product and sum: 5.4 * 2^-24 of the term
    # lr * grad * rsqrt, 8 with the roundings of two products and ours. The term is at most 1.5 times what ulps are counted of,
    # as `momentum` is 0.5.
    found.append(Case("rms_prop", "rmsprop", {"ms": 1.0, "momentum": 0.0}, rms, {}, rmsprop, ulps=12.0))
    centered = {"mg": 0.0, "ms": 1.0, "momentum": 0.0}
    found.append(Case("centered_rms_prop", "centered_rmsprop", centered, rms, {}, centered_rmsprop, ulps=12.0))
    return found


def name_of(case: Case) -> str:
    return "-".join([case.op, *(k for k, v in case.attrs.items() if v), str(case.hyper.get("lr_power", ""))])


class Stepper:
    """A table and its update in one session: `step(ids, grad)`, and `state()` as {key: [value, slots…] of dim columns}."""

    def __init__(self, case: Case, dim: int):
        ops = _native.ops()
        self.session = v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            table = ops.tf_booster_hash_table(
                table_name="t", dim=dim, optimizer=case.optimizer, slot_names=list(case.slots),
                slot_initial_values=list(case.slots.values()), field_names=["t"], seeds=[1], initializers=["normal"],
                initializer_args=[0.0, 0.3], min_frequencies=[0], max_rows=[0], evictions=[""], eviction_args=[0],
            )  # fmt: skip
            self.ids, self.grad = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, dim])
            probe = ops.tf_booster_table_probe(table, [self.ids])
            self.update = getattr(ops, "tf_booster_table_apply_" + case.op)(
                table, [probe.keys], [probe.key_fields], [probe.counts], [probe.handles], probe.codes, [self.grad],
                *case.hyper.values(),
                **case.attrs,
            )  # fmt: skip
            self.insert = ops.tf_booster_table_find_or_insert(table, self.ids, dim=dim)
            (self.export,) = layout.tables_of(ops.tf_booster_table_export(table, N=1, S=len(case.slots), dim=dim))
            self.session.run(self.insert, {self.ids: KEYS})

    def step(self, ids: np.ndarray, grad: np.ndarray) -> None:
        self.session.run(self.update, {self.ids: ids, self.grad: grad})

    def state(self) -> np.ndarray:
        """[1 + slots, keys, dim], keys in the order of KEYS."""
        export = self.session.run(self.export)
        place = {key: i for i, key in enumerate(export.keys)}
        assert len(place) == len(KEYS)
        return np.stack([export.values, *export.slots])[:, [place[key] for key in KEYS]]


def batch(random: np.random.RandomState, dim: int) -> Tuple[np.ndarray, np.ndarray]:
    """Places of keys, skewed so that some come many times and some not at all, and gradients of many magnitudes."""
    places = (len(KEYS) * random.uniform(size=60) ** 2).astype(np.int64)
    grad = random.normal(size=(60, dim)) * 10.0 ** random.uniform(-3, 0.5, size=(60, 1))
    return places, grad.astype(np.float32)


def scale_of(case: Case, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """What the ulps are counted of: the larger of old value and update."""
    scale = np.maximum(np.abs(before), np.abs(after - before))
    if "momentum" in case.slots and "rho" in case.hyper:
        # RMSProp's update is momentum * old + lr * grad * rsqrt(ms + epsilon). Eigen's vectorised rsqrt is an estimate of the
        # processor, refined, and off by some ulp. Where the two terms cancel, this error outlives them: count ulps of the terms.
        scale[0] = np.maximum(scale[0], scale[-1])
    power = -case.hyper.get("lr_power", -0.5)
    if power != 0.5:
        lr = 1.0 if case.attrs["multiply_linear_by_lr"] else case.hyper["lr"]
        scale[2] = np.maximum(scale[2], after[1] ** power / lr * np.abs(before[0]))
    return scale


@pytest.mark.parametrize("dim", [1, 3, 16, 200])
@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_equals_tensorflows_kernel(case, dim):
    stepper = Stepper(case, dim)
    random = np.random.RandomState(dim)
    before = stepper.state()
    worst = 0.0
    for _ in range(STEPS):
        places, grad = batch(random, dim)
        rows, inverse = np.unique(places, return_inverse=True)
        summed = np.zeros([len(rows), dim], np.float32)
        np.add.at(summed, inverse, grad)  # In the order of occurrence, as UnsortedSegmentSum adds.
        variables = [tf.Variable(x) for x in before]
        case.kernel([v.handle for v in variables], tf.constant(summed), rows, case.hyper, case.attrs)
        stepper.step(KEYS[places], grad)
        wanted, after = np.stack([v.numpy() for v in variables]), stepper.state()
        assert np.isfinite(wanted).all()
        ulps = np.abs(after.astype(np.float64) - wanted) / np.spacing(scale_of(case, before, wanted))
        worst = max(worst, ulps.max())
        np.testing.assert_array_equal(np.delete(after, rows, axis=1), np.delete(before, rows, axis=1))
        assert (after[0, rows] != before[0, rows]).any()
        before = after
    assert worst <= case.ulps
    stepper.session.close()
