"""Updates put together at random of elementwise ops, reads and writes in all orders: the same bits as without the pass.

`PYTHONPATH=.:tests/data:tests/passes python tests/passes/random_formulas_test.py 500` tries more of them.
"""

import random
import sys

import numpy as np
import pytest
import tensorflow as tf
from update_programs import check_same

v1 = tf.compat.v1

SHAPES = ([4, 3], [5], [2, 2, 2])
BINARY = (tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, lambda a, b: a / (tf.abs(b) + 1.0))
UNARY = (
    tf.negative,
    tf.abs,
    tf.sign,
    tf.square,
    lambda x: tf.sqrt(tf.abs(x)),
    lambda x: tf.math.rsqrt(tf.abs(x) + 1.0),
)
OTHER = (tf.tanh, lambda x: x - tf.reduce_mean(x), lambda x: tf.cumsum(x))


class Maker:
    """Of the updates of a few Variables of one shape. Whatever it writes waits for all reads before, and is waited for by all behind."""

    def __init__(self, draw, shape, name, x):
        self.draw, self.shape = draw, shape
        self.variables = [
            v1.get_variable(
                f"{name}_{i}",
                initializer=np.linspace(-1, i + 1, np.prod(shape)).reshape(shape).astype(np.float32),
                use_resource=True,
            )
            for i in range(draw.randint(1, 4))
        ]
        self.last_write, self.reads = {}, {v: [] for v in range(len(self.variables))}
        self.values = [tf.ones(shape) * tf.reduce_mean(x), tf.reshape(x[0, :1], [1] * len(shape)) + tf.zeros(shape)]
        self.watched, self.updates = [], []

    def read(self):
        at = self.draw.randrange(len(self.variables))
        after = [self.last_write[at]] if at in self.last_write else []
        if after and self.draw.random() < 0.3:
            with tf.control_dependencies(after):
                after = [tf.no_op()]
        with tf.control_dependencies(after):
            value = self.variables[at].read_value()
        self.reads[at].append(value)
        self.values.append(value)

    def compute(self):
        draw = self.draw
        kind = draw.random()
        one, other = (draw.choice(self.values[-6:]) for _ in range(2))
        if kind < 0.6:
            other = draw.choice([other, other, tf.constant(draw.uniform(-1, 1)), tf.reduce_mean(other)])
            made = draw.choice(BINARY)(*draw.choice([(one, other), (other, one)]))
        elif kind < 0.9:
            made = draw.choice(UNARY)(one)
        else:
            made = draw.choice(OTHER)(one)
        self.values.append(tf.clip_by_value(made, -100.0, 100.0) if draw.random() < 0.1 else made)

    def write(self):
        draw, at = self.draw, self.draw.randrange(len(self.variables))
        value = draw.choice(self.values[-3:])
        wait = [*self.reads[at], value, *([self.last_write[at]] if at in self.last_write else [])]
        if draw.random() < 0.1:
            wait.append(draw.choice(self.values))
        variable = self.variables[at]
        with tf.control_dependencies(wait):
            if draw.random() < 0.5:  # Of the Variable itself, as most updates are.
                value = variable * 0.5 + value * 0.1
            write = draw.choice([variable.assign, variable.assign_add, variable.assign_sub])(value * 0.25)
        self.last_write[at], self.reads[at] = write.op, []
        self.updates.append(write.op if draw.random() < 0.5 else write)

    def step(self):
        self.draw.choice([self.read, self.read, self.compute, self.compute, self.compute, self.compute, self.write])()

    def watch(self):
        self.watched.append(tf.reduce_sum(self.draw.choice(self.values)))


def build_of(seed):
    def build(x, ids):
        draw = random.Random(seed)
        shape, steps, plan = draw.choice(SHAPES), draw.randint(5, 25), draw.random()
        watched, updates = [], []
        for i in range(draw.randint(1, 3)):  # Alike, so that they fuse.
            again = random.Random(seed + 1)
            maker = Maker(again, shape if plan < 0.7 else SHAPES[i], f"v{i}", x)
            for _ in range(steps):
                maker.step()
            maker.write()
            if draw.random() < 0.3:
                maker.watch()
            watched, updates = watched + maker.watched, updates + maker.updates
        with tf.control_dependencies(updates):
            loss = tf.add_n([tf.reduce_mean(x), *watched])
        return loss, tf.group(*updates, v1.assign_add(v1.train.get_or_create_global_step(), 1))

    return build


@pytest.mark.parametrize("seed", range(40))
def test_updates_at_random(seed):
    check_same(build_of(seed), steps=4, threads=1 + seed % 2)


if __name__ == "__main__":
    FUSED = 0
    for number in range(int(sys.argv[1])):
        try:
            FUSED += "ApplyFormula" in check_same(build_of(number), steps=4, threads=1 + number % 2).fused()
        except AssertionError as error:
            print("seed", number, str(error)[:300], flush=True)
    print(f"{FUSED} of {sys.argv[1]} have a formula", flush=True)
