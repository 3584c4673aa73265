"""Small training programs in a graph of their own, run plain and with the pass, for variable_updates_test.py and its like."""

import numpy as np
import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
legacy = tf.keras.optimizers.legacy

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(0.5),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3, l2_regularization_strength=1e-3),
    "ftrl with shrinkage": lambda: v1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=1e-3),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "centered rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
    "keras sgd": lambda: legacy.SGD(0.1),
    "keras momentum": lambda: legacy.SGD(0.05, 0.9, nesterov=True),
    "keras adagrad": lambda: legacy.Adagrad(0.1),
    "keras adam": lambda: legacy.Adam(0.01),
    "keras ftrl": lambda: legacy.Ftrl(0.1),
    "keras rmsprop": lambda: legacy.RMSprop(0.01),
    "keras rmsprop momentum": lambda: legacy.RMSprop(0.01, momentum=0.5),
    "keras centered": lambda: legacy.RMSprop(0.01, centered=True),
}

ROWS = 23
BATCH = 16


def minimize(optimizer, loss, variables=None):
    """The train op, which counts the global step."""
    step = v1.train.get_or_create_global_step()
    if isinstance(optimizer, v1.train.Optimizer):
        return optimizer.minimize(loss, global_step=step, var_list=variables)
    optimizer.iterations = step
    return tf.group(*optimizer.get_updates(loss, variables or v1.trainable_variables()))


def dense_model(x, widths=(13, 7, 8, 1), scope="dense"):
    """Layers of odd widths; the last one gives one column."""
    with v1.variable_scope(scope, use_resource=True):
        for i, width in enumerate(widths):
            kernel = v1.get_variable(f"kernel_{i}", [x.shape[1], width])
            x = tf.tanh(x @ kernel + v1.get_variable(f"bias_{i}", [width], initializer=tf.zeros_initializer()))
    return x


def embeddings(ids, dims=(5, 8, 1), dtype=tf.float32):
    """The same ids looked up in several tables, twice in the first."""
    tables = [v1.get_variable(f"table_{d}", [ROWS, d], dtype, use_resource=True) for d in dims]
    found = [tf.nn.embedding_lookup(table, ids) for table in tables]
    return tf.concat([*found, tf.nn.embedding_lookup(tables[0], (ids * 7) % ROWS)], 1)


class Program:
    """A graph that `build(x, ids)` fills: it returns a loss and a train op, or a list of train ops to be run in turn."""

    def __init__(self, build, boosted=False, **options):
        self.graph, self.result = tf.Graph(), None
        with self.graph.as_default():
            v1.set_random_seed(3)
            self.x = v1.placeholder(tf.float32, [None, 4], "x")
            self.ids = v1.placeholder(tf.int64, [None], "ids")
            self.loss, trains = build(self.x, self.ids)
            self.trains = trains if isinstance(trains, list) else [trains]
            self.initializer = v1.global_variables_initializer()
        if boosted:
            view = GraphView(self.graph)
            the_pass = VariableUpdates(**options)
            assert the_pass.requires(view)
            self.result = the_pass.run(view)
            the_pass.ensures(view)

    def train(self, steps=12, threads=1, grappler=False):
        """Losses, and the final value of each Variable by name.

        Grappler reorders the arithmetic of Adam's chain of ops, by which rows are updated; without it TensorFlow does what the
        optimizer wrote.
        """
        config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
        rng = np.random.RandomState(0)
        with v1.Session(graph=self.graph, config=config) as sess:
            sess.run(self.initializer)
            losses = []
            for step in range(steps):
                feed = {self.x: rng.standard_normal([BATCH, 4]), self.ids: rng.randint(0, ROWS, BATCH)}
                losses.append(sess.run([self.loss, self.trains[step % len(self.trains)]], feed)[0])
            variables = self.graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
            return losses, {v.name: value for v, value in zip(variables, sess.run(variables))}

    def executed(self, index=0):
        """Types of the ops before the train op, as a run needs them."""
        seen, stack, types = set(), [self.trains[index]], []
        stack = [t.op if isinstance(t, tf.Tensor) else t for t in stack]
        while stack:
            op = stack.pop()
            if op not in seen:
                seen.add(op)
                types.append(op.type)
                stack += [t.op for t in op.inputs] + list(op.control_inputs)
        return types

    def fused(self, index=0):
        """Types of the fused ops that the train op needs, sorted."""
        return sorted(t[len("TfBoosterMulti") :] for t in self.executed(index) if t.startswith("TfBoosterMulti"))

    def trainable(self):
        """The Variables that are trained."""
        return self.graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)

    def values(self, *names):
        """Reads of the Variables of these names."""
        return [self.graph.get_tensor_by_name(f"{name}/Read/ReadVariableOp:0") for name in names]

    def reasons(self):
        """Reason by Variable."""
        return {entry["name"]: entry["reason"] for entry in self.result.variables if entry["reason"]}


def check_same(build, steps=12, threads=1, **options):
    """Trains plain and fused and asserts equal bits. Returns the fused program."""
    plain, fused = Program(build), Program(build, True, **options)
    (losses, want), (my_losses, have) = plain.train(steps, threads), fused.train(steps, threads)
    assert sorted(want) == sorted(have)
    for name in want:
        np.testing.assert_array_equal(have[name].astype(np.float64), want[name].astype(np.float64), name)
    np.testing.assert_array_equal(my_losses, losses)
    return fused
