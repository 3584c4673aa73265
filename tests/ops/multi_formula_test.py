"""TfBoosterMultiApplyFormula against TensorFlow's elementwise ops, bit for bit."""

import random

import numpy as np
import pytest
import tensorflow as tf
from multi_apply_test import SMALL, bits, gradients

from tf_booster import _native

v1 = tf.compat.v1

BINARY = ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")
UNARY = ("Neg", "Abs", "Sign", "Square", "Sqrt", "Rsqrt")
DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)


class Twins:
    """A formula for Variables of `sizes`, by one op and by TensorFlow's on each of them."""

    def __init__(self, sizes, dtype, arrays, tensors, numbers, operations, operands, results):
        values = [[1 + 0.01 * g for g in gradients(sizes, tf.float64, k)] for k in range(arrays)]
        self.ours = [[v1.Variable(v, dtype=dtype, use_resource=True) for v in of_array] for of_array in values]
        self.theirs = [[v1.Variable(v, dtype=dtype, use_resource=True) for v in of_array] for of_array in values]
        self.tensors = [[tf.constant(g, dtype) for g in gradients(sizes, dtype, 10 + k)] for k in range(tensors)]
        self.numbers = [tf.constant(0.3 + 0.4 * k, dtype) for k in range(numbers)]
        self.fused = _native.ops().tf_booster_multi_apply_formula(
            var=[v.handle for of_array in self.ours for v in of_array],
            number=self.numbers,
            tensor=[t for of_tensor in self.tensors for t in of_tensor],
            N=len(sizes),
            operations=operations,
            operands=operands,
            results=results,
        )
        self.plain = []
        for i in range(len(sizes)):
            made = [a[i].value() for a in self.theirs] + [t[i] for t in self.tensors] + self.numbers
            places = iter(operands)
            for operation in operations:
                inputs = [made[next(places)] for _ in range(2 if operation in BINARY else 1)]
                made.append(getattr(tf.raw_ops, operation)(**dict(zip("xy", inputs))))
            with tf.control_dependencies(made):
                self.plain += [a[i].assign(made[r]).op for a, r in zip(self.theirs, results) if made[r].shape.rank]

    def check(self, steps=2, threads=0):
        config = v1.ConfigProto(intra_op_parallelism_threads=threads)
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # It divides by multiplying.
        with v1.Session(config=config) as sess:
            sess.run(v1.global_variables_initializer())
            for _ in range(steps):
                sess.run([self.plain])
                sess.run(self.fused)
            for k, (ours, theirs) in enumerate(zip(*sess.run([self.ours, self.theirs]))):
                for a, b in zip(theirs, ours):
                    same = (bits(a) == bits(b)) | (np.isnan(a) & np.isnan(b))
                    assert same.all(), (k, a.size, np.flatnonzero(~same)[:5], a[~same][:5], b[~same][:5])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("operation", [*BINARY, *UNARY])
def test_each_operation_has_tensorflows_bits(operation, dtype):
    operands = [[0, 1], [0, 2], [2, 1]] if operation in BINARY else [[1]]
    for both in operands:
        with tf.Graph().as_default():
            Twins([*SMALL, 1025, 70001], dtype, 1, 1, 1, [operation], both, [3]).check(1)


@pytest.mark.parametrize("seed", range(30))
def test_any_formula_has_tensorflows_bits(seed):
    draw = random.Random(seed)
    arrays, tensors, numbers = draw.randint(1, 6), draw.randint(0, 6), draw.randint(1, 24)
    leaves = arrays + tensors + numbers
    operations, operands, shaped = [], [], list(range(arrays + tensors))
    for i in range(draw.randint(1, 32)):
        operations.append(draw.choice(BINARY + UNARY))
        operands.append(draw.choice(shaped))
        if operations[-1] in BINARY:
            operands.append(draw.randrange(leaves + i))
        shaped.append(leaves + i)
    made = [value for value in shaped if value >= leaves]
    results = [draw.choice([k, draw.choice(made)]) for k in range(arrays)]
    sizes = [draw.choice([0, 1, 2, 15, 16, 17, 100, 1023, 1024, 1025, 5000]) for _ in range(draw.randint(1, 8))]
    with tf.Graph().as_default():
        Twins(sizes, draw.choice(DTYPES), arrays, tensors, numbers, operations, operands, results).check()


@pytest.mark.parametrize("threads", [1, 4])
def test_many_variables_on_many_threads(threads):
    operations = ["Mul", "Mul", "Add", "Square", "Mul", "Mul", "Add", "Sqrt", "RealDiv", "Mul", "Sub"]
    operands = [6, 1, 7, 4, 9, 10, 4, 8, 12, 6, 2, 13, 14, 15, 11, 16, 17, 5, 0, 18]
    with tf.Graph().as_default():
        sizes = [*range(60), *range(3000, 3040), 300000]
        twins = Twins(sizes, tf.float32, 4, 1, 4, operations, operands, [19, 11, 15, 3])
        twins.check(3, threads)


def test_results_are_written_when_all_is_read():
    with tf.Graph().as_default():
        Twins([5, 1030], tf.float32, 2, 1, 1, ["Mul", "Mul"], [1, 3, 0, 3], [4, 5]).check()


def test_a_read_keeps_what_it_read():
    with tf.Graph().as_default(), v1.Session() as sess:
        var = v1.Variable(np.ones(6, np.float32), use_resource=True)
        old = var.value()
        with tf.control_dependencies([old]):
            step = _native.ops().tf_booster_multi_apply_formula(
                [var.handle], [tf.constant(3.0)], [], N=1, operations=["Mul"], operands=[0, 1], results=[2]
            )
        with tf.control_dependencies([step]):
            late = tf.identity(old)
        sess.run(var.initializer)
        assert sess.run(late).tolist() == [1] * 6 and sess.run(var).tolist() == [3] * 6


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(tensor=(3, 5)), r"variable .* has shape \[4\], but tensor 0 of its formula has \[3\]"),
        (dict(number=np.ones(2)), r"number has shape \[2\]; wanted a scalar"),
        (dict(slot=5), r"variable .* has shape \[4\], but its slot .* has \[5\]"),
        (dict(operations=["Tan"]), "its formula is none: operation 'Tan' is unknown"),
        (dict(results=[4]), "its formula is none: it has 1 results, wanted one for each of 2 arrays"),
        (dict(N=3), "V is 4; wanted a multiple of N, which is 3"),
        (dict(initialize=False), "uninitialized|not initialized"),
        (dict(slot_type=tf.float64), "float64|double"),
    ],
)
def test_errors_name_op_argument_and_what_was_wanted(change, message):
    with tf.Graph().as_default(), v1.Session() as sess:
        sizes = (4, 5)
        first = [v1.Variable(np.ones(n, np.float32), use_resource=True) for n in sizes]
        slots = [change.get("slot", sizes[0]), sizes[1]]
        second = [v1.Variable(np.ones(n), dtype=change.get("slot_type", tf.float32), use_resource=True) for n in slots]
        op = _native.ops().tf_booster_multi_apply_formula(
            var=[v.handle for v in first + second],
            number=[tf.constant(change.get("number", 1.0), tf.float32)],
            tensor=[tf.ones(n) for n in change.get("tensor", sizes)],
            N=change.get("N", 2),
            operations=change.get("operations", ["Sub"]),
            operands=[0, 2],
            results=change.get("results", [4, 1]),
            name="step",
        )
        if change.get("initialize", True):
            sess.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.OpError, match=message) as raised:
            sess.run(op)
        assert "TfBoosterMultiApplyFormula" in str(raised.value) and "step" in str(raised.value)
