"""Dimensions as products: what is said of a tensor is so when the graph runs, whatever the batch."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native
from tf_booster.passes.dimensions import Dimensions, product, quotient

v1 = tf.compat.v1
BATCHES = (0, 1, 2, 5)
# Grappler (2.15) takes a transpose, one that changes nothing and the first's inverse for one transpose.
WITHOUT_GRAPPLER = v1.ConfigProto()
WITHOUT_GRAPPLER.graph_options.rewrite_options.disable_meta_optimizer = True


def placeholder(*shape, dtype=tf.float32):
    return v1.placeholder(dtype, shape)


def fed(tensor, batch):
    shape = [batch if size is None else size for size in tensor.shape.as_list()]
    return np.random.RandomState(batch).standard_normal(shape).astype(tensor.dtype.as_numpy_dtype)


def check_said(graph):
    """Runs all that can be run for several batches: of each tensor its dimensions are what was said, and elements of shapes. Returns the Dimensions."""
    dimensions = Dimensions(graph.get_operations())
    tensors = [t for op in graph.get_operations() for t in op.outputs if t.dtype not in (tf.resource, tf.variant)]
    inputs = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
    with v1.Session(graph=graph) as session:
        session.run([op for op in graph.get_operations() if op.name == "init"])
        for batch in BATCHES:
            values = session.run(tensors, {tensor: fed(tensor, batch) for tensor in inputs})
            meaning = {}  # What each unknown dimension is in this run: said where it first stands alone.
            for tensor, value in zip(tensors, values):
                if batch == 1 and sums_rows(tensor.op):
                    continue
                said = dimensions.of(tensor)
                if said is not None:
                    assert len(said) == np.ndim(value), tensor
                    check_sizes(said, np.shape(value), meaning, tensor)
                if dimensions.elements(tensor) is not None:
                    check_sizes(dimensions.elements(tensor), np.reshape(value, [-1]), meaning, tensor)
    return dimensions


def sums_rows(op):
    """Of one row it makes no difference whether a gradient is summed over it, and TensorFlow's versions differ."""
    return op.type == "BroadcastGradientArgs" or (op.type == "Sum" and sums_rows(op.inputs[1].op))


def check_sizes(said, found, meaning, tensor):
    assert len(said) == len(found), tensor
    for (factor, symbols), size in zip(said, found):
        if factor == 1 and len(symbols) == 1:
            meaning.setdefault(symbols[0], size)
        assert factor * np.prod([meaning[symbol] for symbol in symbols]) == size, (tensor, said, found)


def spelled(sizes, batch):
    """Dimensions as in CASES: how often the batch, or "?"."""
    if sizes is None:
        return None
    return [factor if not symbols else f"{factor}B" if symbols == batch else "?" for factor, symbols in sizes]


def rows_of(x, like):
    return tf.reshape(x, tf.concat([tf.shape(like)[:1], [-1]], 0))


def gradient_of(y, x):
    return tf.gradients(tf.reduce_sum(tf.sin(y)), x)[0]


# Of x, [batch, 4, 6], and of a matrix, [6, 3]: what the result is like.
CASES = {
    "itself": (lambda x, m: x, ["1B", 4, 6]),
    "by elements": (lambda x, m: tf.cast(tf.nn.relu(tf.sin(x)), tf.float64), ["1B", 4, 6]),
    "broadcast": (lambda x, m: x[:, :1] * m[:, 0] + x, ["1B", 4, 6]),
    "of two batches": (lambda x, m: x + placeholder(None, 4, 6), ["?", 4, 6]),
    "a row, if there is one, and a batch": (lambda x, m: x[:1] + x, ["?", 4, 6]),
    "one row and a batch": (lambda x, m: placeholder(1, 4, 6) + x, ["1B", 4, 6]),
    "of another rank": (lambda x, m: x + placeholder(4, 6), ["1B", 4, 6]),
    "flat": (lambda x, m: tf.reshape(x, [-1]), ["24B"]),
    "to columns": (lambda x, m: tf.reshape(x, [-1, 3]), ["8B", 3]),
    "not by columns": (lambda x, m: tf.reshape(x, [-1, 24]), ["1B", 24]),
    "rows of a tensor": (lambda x, m: rows_of(x, x), ["1B", 24]),
    "product": (lambda x, m: tf.reshape(x, [-1, 6]) @ m, ["4B", 3]),
    "turned product": (lambda x, m: tf.matmul(m, tf.reshape(x, [-1, 6]), transpose_a=True, transpose_b=True), [3, "4B"]),
    "products": (lambda x, m: tf.matmul(x, x, transpose_b=True), ["1B", 4, 4]),
    "products of one matrix and a batch": (lambda x, m: tf.matmul(x, placeholder(None, 6, 5)), ["?", 4, 5]),
    "tensordot": (lambda x, m: tf.tensordot(x, m, axes=[[2], [0]]), ["1B", 4, 3]),
    "turned": (lambda x, m: tf.transpose(x, [2, 0, 1]), [6, "1B", 4]),
    "turned by itself": (lambda x, m: tf.transpose(tf.reshape(x, [-1, 6])), [6, "4B"]),
    "joined": (lambda x, m: tf.concat([x, x], -1), ["1B", 4, 12]),
    "joined along the batch": (lambda x, m: tf.concat([x, x], 0), ["?", 4, 6]),
    "stacked": (lambda x, m: tf.stack([x, x, x], 1), ["1B", 3, 4, 6]),
    "unstacked": (lambda x, m: tf.unstack(x, axis=1)[2], ["1B", 6]),
    "split": (lambda x, m: tf.split(x, 2, axis=-1)[1], ["1B", 4, 3]),
    "split by sizes": (lambda x, m: tf.split(x, [1, 3], axis=1)[1], ["1B", 3, 6]),
    "split along the batch": (lambda x, m: tf.split(tf.concat([x, x], 0), 2, axis=0)[1], ["?", 4, 6]),
    "expanded": (lambda x, m: tf.expand_dims(x, -2), ["1B", 4, 1, 6]),
    "squeezed": (lambda x, m: tf.squeeze(x[:, :1], [1]), ["1B", 6]),
    "tiled": (lambda x, m: tf.tile(x, [2, 1, 3]), ["2B", 4, 18]),
    "tiled by the batch": (lambda x, m: tf.tile(m, [tf.shape(x)[0], 1]), ["6B", 3]),
    "summed": (lambda x, m: tf.reduce_sum(x, -2), ["1B", 6]),
    "summed and kept": (lambda x, m: tf.reduce_max(x, [1, 2], keepdims=True), ["1B", 1, 1]),
    "summed along the batch": (lambda x, m: tf.reduce_mean(x, 0), [4, 6]),
    "gathered": (lambda x, m: tf.gather(m, tf.cast(x > 0, tf.int32)[:, :, 0]), ["1B", 4, 3]),
    "gathered along an axis": (lambda x, m: tf.gather(x, [1, 0, 2], axis=1), ["1B", 3, 6]),
    "one-hot": (lambda x, m: tf.one_hot(tf.cast(x > 0, tf.int32)[:, 0, 0], 5), ["1B", 5]),
    "one-hot in front": (lambda x, m: tf.one_hot(tf.cast(x > 0, tf.int32)[:, 0, 0], 5, axis=0), [5, "1B"]),
    "filled": (lambda x, m: tf.fill([tf.shape(x)[0], 2], 0.5), ["1B", 2]),
    "filled by products": (lambda x, m: tf.fill([tf.shape(x)[0] * 4, tf.size(m)], 0.5), ["4B", 18]),
    "broadcast to": (lambda x, m: tf.broadcast_to(m[0, 0], tf.shape(x)[:2]), ["1B", 4]),
    "a part": (lambda x, m: tf.slice(x, [0, 1, 0], [-1, 2, 6]), ["1B", 2, 6]),
    "a part of the batch": (lambda x, m: tf.slice(x, [tf.shape(x)[0] // 2, 1, 0], [-1, 2, 6]), ["?", 2, 6]),
    "a part by the shape": (lambda x, m: tf.slice(x, [0, 0, 0], [tf.shape(x)[0], 2, 6]), ["1B", 2, 6]),
    "indexed": (lambda x, m: x[:, 1, tf.newaxis, 2:4], ["1B", 1, 2]),
    "indexed from the end": (lambda x, m: x[..., -1], ["?", 4]),
    "rows from the second on": (lambda x, m: x[1:], ["?", 4, 6]),
    "every second row": (lambda x, m: x[::2], ["?", 4, 6]),
    "by an unstacked shape": (lambda x, m: tf.reshape(x, [tf.unstack(tf.shape(x))[0], 24]), ["1B", 24]),
    "by a product": (lambda x, m: tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:2]), 6]), ["4B", 6]),
    "by a gathered shape": (lambda x, m: tf.reshape(x, tf.gather(tf.shape(x), [1, 0, 2])), [4, "1B", 6]),
    "by a 64-bit shape": (lambda x, m: tf.reshape(x, tf.gather(tf.shape(x, tf.int64), [2, 1, 0])), [6, 4, "1B"]),
    "selected": (lambda x, m: tf.where(x > 0, x, tf.zeros_like(x)), ["1B", 4, 6]),
    "gradient of elements": (lambda x, m: gradient_of(tf.nn.elu(x) * tf.sigmoid(x), x), ["1B", 4, 6]),
    "gradient of a tensordot": (lambda x, m: gradient_of(tf.tensordot(x, m, axes=[[2], [0]]), x), ["1B", 4, 6]),
    "gradient of the matrix": (lambda x, m: gradient_of(tf.tensordot(x, m, axes=[[2], [0]]), m), [6, 3]),
    "gradient of a broadcast": (lambda x, m: gradient_of(x * m[:, 0], x), ["1B", 4, 6]),
    "gradient of what is broadcast": (lambda x, m: gradient_of(x * tf.transpose(m)[:1], m), [6, 3]),
    "gradient of two batches": (lambda x, m: tf.gradients(x * placeholder(None, 4, 6), x)[0], ["1B", 4, 6]),
    "gradient of a sum": (lambda x, m: gradient_of(tf.reduce_sum(x, 1), x), ["1B", 4, 6]),
    "gradient of a join": (lambda x, m: gradient_of(tf.concat([x, x], 2), x), ["1B", 4, 6]),
    "batch normalization": (lambda x, m: _native.ops().tf_booster_batch_norm(x, [], [], epsilon=0.1)[0], ["1B", 4, 6]),
    "small products": (lambda x, m: small_products(x, m)[1], ["4B", 3]),
    "gradients of biases": (lambda x, m: bias_gradients(x)[1], ["4B", 6]),
}  # fmt: skip


def small_products(x, m):
    rows = tf.reshape(x, [-1, 6])
    return _native.ops().tf_booster_multi_mat_mul(
        a=[rows[:, :3], rows], b=[m[:3], m], bias=[], transpose_a=False, transpose_b=False, relu=False
    )


def bias_gradients(x):
    rows = tf.reshape(x, [-1, 6])
    sums, gradients = _native.ops().tf_booster_multi_bias_grad(upstream=[rows], relu=[tf.abs(rows)])
    return [*sums, *gradients]


@pytest.mark.parametrize("kind", CASES)
def test_what_is_said(kind):
    build, wanted = CASES[kind]
    with tf.Graph().as_default() as graph:
        x, m = placeholder(None, 4, 6), placeholder(6, 3)
        y = build(x, m)
        dimensions = check_said(graph)
        assert spelled(dimensions.of(y), dimensions.of(x)[0][1]) == wanted


@pytest.mark.parametrize("kind", CASES)
def test_ops_on_a_tensor_of_unknown_rank(kind):
    build, _ = CASES[kind]
    with tf.Graph().as_default() as graph:
        x, m = v1.placeholder(tf.float32, None), placeholder(6, 3)
        try:
            build(x, m)
        except (TypeError, ValueError):
            pass  # TensorFlow wants to know the rank. What it has made until then counts.
        assert Dimensions(graph.get_operations()).of(x) is None


def test_a_rank_that_is_not_known():
    with tf.Graph().as_default() as graph:
        x = placeholder(None, 4)
        y = v1.placeholder(tf.float32, None)
        dimensions = Dimensions(graph.get_operations())
        assert dimensions.of(y) is None
        sums = tf.reduce_sum(x, v1.placeholder(tf.int32, [None]))
        assert Dimensions(graph.get_operations()).of(sums) is None
        assert Dimensions([]).of(x)[1] == (4, ())


def steps_of(draw):
    return draw(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5)), min_size=1, max_size=12))


STEPS = {
    "turn": lambda t, n: tf.transpose(t, np.roll(np.arange(t.shape.rank), n % t.shape.rank)),
    "flatten": lambda t, n: tf.reshape(t, [-1]),
    "fold": lambda t, n: tf.reshape(t, [-1, 2 + n % 2]) if n < 4 else tf.reshape(t, [2, -1]),
    "pairs": lambda t, n: tf.stack([t, t], n % (t.shape.rank + 1)),
    "twice": lambda t, n: tf.concat([t, t], n % t.shape.rank),
    "repeat": lambda t, n: tf.tile(t, [1 + n % 2] + [1] * (t.shape.rank - 1)),
    "sum": lambda t, n: tf.reduce_sum(t, n % t.shape.rank, keepdims=n > 3 or t.shape.rank == 1),
    "expand": lambda t, n: tf.expand_dims(t, n % (t.shape.rank + 1)),
    "as it is": lambda t, n: tf.reshape(t, tf.shape(t)),
    "first to last": lambda t, n: tf.reshape(t, tf.concat([tf.shape(t)[1:], tf.shape(t)[:1]], 0)),
    "rows apart": lambda t, n: tf.reshape(t, [tf.shape(t)[0], -1]) if t.shape[0] != 0 else t,
    "add": lambda t, n: t + tf.reduce_sum(t, n % t.shape.rank, keepdims=True),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_program_of_reshapes(data):
    steps = steps_of(data.draw)
    with tf.Graph().as_default() as graph:
        tensor = placeholder(None, 6, 4)
        for kind, number in steps:
            if tensor.shape.rank and tensor.shape.rank < 6:
                try:
                    tensor = STEPS[kind](tensor, number)
                except ValueError:
                    continue  # TensorFlow knows already that it does not divide.
        dimensions = Dimensions(graph.get_operations())
        with v1.Session(config=WITHOUT_GRAPPLER) as session:
            for rows in (1, 12):
                try:
                    shape = session.run(tensor, {"Placeholder:0": np.zeros((rows, 6, 4), np.float32)}).shape
                except tf.errors.InvalidArgumentError:
                    continue  # Numbers of rows that do not divide.
                symbol = dimensions.of(graph.get_tensor_by_name("Placeholder:0"))[0][1]
                for size, (factor, symbols) in zip(shape, dimensions.of(tensor)):
                    if set(symbols) <= set(symbol):
                        assert size == factor * rows ** len(symbols)


def test_products_and_quotients():
    batch, time = (1, (1,)), (1, (2,))
    assert product([(2, ()), batch, (3, (2,))]) == (6, (1, 2))
    assert product([batch, (0, ())]) == (0, ())
    assert quotient((6, (1, 2)), (3, (2,))) == (2, (1,))
    assert quotient((6, (1,)), (4, (1,))) is None
    assert quotient(batch, time) is None
    assert quotient(batch, (0, ())) is None
    assert quotient((6, (1, 1)), (1, (1,))) == (6, (1,))
