"""The sums of factorization machines after the pass: one op and one for the gradient, TensorFlow's bits, and what is left."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, run, running, variable

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.field_sums import FieldSums
from tf_booster.passes.graph_view import GraphView

v1 = tf.compat.v1
ROWS, FIELDS, DIM = 11, 18, 8


def square(x):
    return tf.square(x)


def product(x):
    return x * x


def embeddings(columns, batch=None, fields=FIELDS, dtype=tf.float32):
    """[batch, fields, columns], trained."""
    given = np.random.RandomState(3).standard_normal((ROWS, 4)).astype(dtype.as_numpy_dtype)
    x = v1.placeholder_with_default(given, [batch, 4])
    return tf.tanh(tf.reshape(tf.matmul(x, variable("w", 4, fields * columns, dtype)), [-1, fields, columns]))


def interaction(v, squares=square, keepdims=False):
    """What is behind the sums over the fields, whose axis 1 is gone unless keepdims."""
    pairs = tf.square(tf.reduce_sum(v, 1, keepdims)) - tf.reduce_sum(squares(v), axis=[-2], keepdims=keepdims)
    return 0.5 * tf.reduce_sum(pairs, -1, keepdims=True)


def trained(loss, *fetches):
    train = v1.train.AdagradOptimizer(0.1).minimize(loss)
    v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
    return [loss, *fetches, train]


def tower(*inputs):
    wide = tf.concat(inputs, 1)
    return tf.nn.relu(tf.matmul(wide, variable("tower", wide.shape[1], 3)))


def numbers(columns):
    return tf.ensure_shape(v1.placeholder_with_default(np.ones((ROWS, columns), np.float32), [None, None]), [None, columns])  # fmt: skip


def deepfm(batch=None, squares=square, columns=DIM, fields=FIELDS, split=True, keepdims=False, joined=True, more=None):
    """A DeepFM whose embeddings have the first-order weight in front, or not. more: what else reads the vectors."""

    def build():
        wide = embeddings(columns + (1 if split else 0), batch, fields)
        weights, v = tf.split(wide, [1, columns], 2) if split else (wide[:, :, :1], wide)
        pairs = interaction(v, squares, keepdims)
        pairs = tf.squeeze(pairs, 1) if keepdims else pairs
        flat = tf.reshape(v, [-1, fields * columns])
        deep = tower(numbers(2), flat, numbers(3)) if joined else tf.sin(flat)
        logits = pairs + tf.reduce_sum(deep, 1, keepdims=True) + tf.reduce_sum(weights, 1)
        loss = tf.reduce_mean(tf.sin(logits))
        if more is not None:
            loss += more(v)
        return trained(loss, logits)

    return build


def check(built):
    """Every bit as without the pass. Returns how often ops run in a training step, and what the report says."""
    outcome = check_same(built, [FieldSums()])
    counts = running(outcome.graph, outcome.graph.get_collection(v1.GraphKeys.TRAIN_OP)[0])
    return counts, outcome.report.passes[0].changes


def fused(counts):
    return counts["TfBoosterFieldSums"], counts["TfBoosterFieldSumsGrad"]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("squares", [square, product])
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("batch", [ROWS, None])
def test_a_deepfm_and_its_gradient(batch, split, squares, keepdims):
    counts, changes = check(deepfm(batch, squares, split=split, keepdims=keepdims))
    assert fused(counts) == (1, 1)
    assert len(changes) == 1 and changes[0].endswith("sums over 18 fields and their join by one op")
    gone = ("SplitV", "Slice", "AddN", "ConcatV2")
    assert not [kind for kind in gone if counts[kind]] or not split and counts["AddN"] == 1


@pytest.mark.parametrize("fields", [2, 15, 16, 17, 39])
@pytest.mark.parametrize("columns", [2, 4, 7, 8, 10, 16, 17, 33])
def test_every_shape(columns, fields):
    counts, _ = check(deepfm(columns=columns, fields=fields))
    assert fused(counts) == (1, 1)


def test_without_a_join():
    counts, changes = check(deepfm(joined=False))
    assert fused(counts) == (1, 1) and "join" not in changes[0]


def test_vectors_that_are_read_otherwise():
    counts, _ = check(deepfm(more=lambda v: tf.reduce_sum(tf.sin(v * 0.3))))
    assert fused(counts) == (1, 1) and counts["SplitV"] == 0  # What else reads the vectors has a copy.
    counts, _ = check(deepfm(more=lambda v: tf.reduce_sum(tf.square(tf.reduce_sum(v, 2)))))
    assert fused(counts) == (1, 1)
    counts, _ = check(deepfm(more=lambda v: tf.reduce_sum(tf.square(v) * 0.1)))
    assert fused(counts) == (1, 1)


def test_sums_that_the_tower_reads():
    """A neural factorization machine: the join waits for the sums, and stays."""

    def build():
        v = embeddings(DIM)
        pairs = tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1)
        deep = tower(tf.reshape(v, [-1, FIELDS * DIM]), pairs)
        return trained(tf.reduce_sum(tf.sin(deep)), deep)

    counts, changes = check(build)
    assert fused(counts) == (1, 1) and counts["ConcatV2"] == 1 and "join" not in changes[0]


def test_a_join_that_needs_what_the_sums_do_not():
    def build():
        v = embeddings(DIM)
        pairs = interaction(v)
        fed = v1.placeholder(tf.float32, [None, 2])
        return [pairs, tower(tf.reshape(v, [-1, FIELDS * DIM]), fed)], fed

    with tf.Graph().as_default() as graph:
        (pairs, deep), fed = build()
        assert pipelines.rewrite(graph, Options(), only=[FieldSums()]).passes[0].modified
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(pairs).shape == (ROWS, 1)  # Without a feed.
            assert session.run(deep, {fed: np.ones((ROWS, 2))}).shape == (ROWS, 3)


@pytest.mark.parametrize("train", [True, False])
def test_a_join_with_what_the_other_part_of_the_split_becomes(train):
    """The op gives that part out, so it cannot wait for it: the join stays."""

    def build():
        weights, v = tf.split(embeddings(DIM + 1), [1, DIM], 2)
        deep = tower(tf.reshape(v, [-1, FIELDS * DIM]), tf.reduce_sum(weights, 1), numbers(2))
        logits = interaction(v) + tf.reduce_sum(deep, 1, keepdims=True)
        return trained(tf.reduce_sum(tf.sin(logits)), logits) if train else [logits]

    outcome = check_same(build, [FieldSums()])
    (change,) = outcome.report.passes[0].changes
    assert change.endswith("sums over 18 fields by one op")


def test_a_part_of_the_split_that_the_sums_wait_for():
    """Then nothing is done: the new op would wait for itself."""

    def build():
        weights, v = tf.split(embeddings(DIM + 1), [1, DIM], 2)
        with tf.control_dependencies([tf.reduce_sum(weights)]):
            sums = tf.reduce_sum(v, 1)
        return [tf.square(sums) - tf.reduce_sum(tf.square(v), 1), tf.reduce_sum(weights, 1)]

    assert "would wait for itself" in check_same(build, [FieldSums()]).report.passes[0].skipped[0][1]


def test_two_machines_and_equal_splits():
    def build():
        first, second = tf.split(embeddings(2 * DIM), 2, axis=-1)
        return trained(tf.reduce_sum(tf.sin(interaction(first))) + tf.reduce_sum(tf.cos(interaction(second))))

    counts, changes = check(build)
    assert fused(counts) == (2, 2) and len(changes) == 2


def test_the_sum_of_squares_alone():
    def build():
        v = embeddings(DIM)
        return trained(tf.reduce_sum(tf.sqrt(1.0 + tf.reduce_sum(tf.square(v), 1))) + tf.reduce_sum(tf.sin(v)))

    counts, _ = check(build)
    assert fused(counts) == (1, 1) and counts["Square"] == 0


def test_without_a_gradient():
    def build():
        return [interaction(embeddings(DIM))]

    outcome = check_same(build, [FieldSums()])
    assert running(outcome.graph, *outcome.graph.get_operations()[-1:])


@pytest.mark.parametrize("batch", [0, 1, 2, ROWS])
def test_batches_of_other_sizes(batch):
    given = np.random.RandomState(5).standard_normal((batch, 4)).astype(np.float32)

    def build():
        x = v1.placeholder_with_default(given, [None, 4])
        wide = tf.tanh(tf.reshape(tf.matmul(x, variable("w", 4, FIELDS * (DIM + 1))), [-1, FIELDS, DIM + 1]))
        weights, v = tf.split(wide, [1, DIM], 2)
        logits = interaction(v) + tf.reduce_sum(weights, 1) + tower(tf.reshape(v, [-1, FIELDS * DIM]), x)
        return trained(tf.reduce_sum(tf.sin(logits)), logits)

    counts, _ = check(build)
    assert fused(counts) == (1, 1)


def test_many_addends_are_left():
    """TensorFlow adds more than eight in another order."""

    def build():
        v = embeddings(DIM)
        others = [tf.reduce_sum(tf.sin(v * i)) for i in range(8)]
        return trained(tf.reduce_sum(interaction(v)) + tf.add_n(others))

    counts, _ = check(build)
    assert fused(counts) == (1, 0)


LEFT = {
    "float64": lambda: interaction(embeddings(DIM, dtype=tf.float64)),
    "one field": lambda: interaction(embeddings(DIM, fields=1)),
    "one column": lambda: interaction(embeddings(1)),
    "fields that are not known": lambda: interaction(v1.placeholder(tf.float32, [None, None, DIM])),
    "another axis": lambda: tf.reduce_sum(tf.square(embeddings(DIM)), 2),
    "all axes": lambda: tf.reduce_sum(tf.square(embeddings(DIM))),
    "sums alone": lambda: tf.reduce_sum(embeddings(DIM), 1),
    "a product of two": lambda: tf.reduce_sum(embeddings(DIM) * v1.placeholder(tf.float32, [None, FIELDS, DIM]), 1),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name):
    with tf.Graph().as_default() as graph:
        tf.identity(LEFT[name]())
        before = graph.as_graph_def()
        report = pipelines.rewrite(graph, Options(), only=[FieldSums()])
        assert not report.passes[0].modified and graph.as_graph_def() == before


def test_in_a_v1_cond_it_is_left():
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            v = embeddings(DIM)
            v1.cond(tf.reduce_sum(v) > 0, lambda: interaction(tf.sin(v)), lambda: tf.zeros([ROWS, 1]))
            assert not pipelines.rewrite(graph, Options(), only=[FieldSums()]).passes[0].modified
    finally:
        v1.enable_control_flow_v2()


def test_what_waits_and_is_waited_for():
    with tf.Graph().as_default() as graph:
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        v = embeddings(DIM)
        with tf.control_dependencies([counter.assign_add(1.0)]):
            squares = tf.square(v)
        sums = tf.reduce_sum(squares, 1)
        with tf.control_dependencies([sums.op]):
            counted = tf.identity(counter.read_value())
        read = tf.identity(sums)
        assert pipelines.rewrite(graph, Options(), only=[FieldSums()]).passes[0].modified
        assert running(graph, read)["TfBoosterFieldSums"] == 1
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(read)
            assert session.run(counted) == 2.0


def test_who_fetches_what_is_gone_has_it():
    def build():
        wide = embeddings(DIM + 1)
        weights, v = tf.split(wide, [1, DIM], 2)
        sums = tf.reduce_sum(v, 1)
        logits = tf.square(sums) - tf.reduce_sum(tf.square(v), 1) + tf.reduce_sum(weights, 1)
        return [*trained(tf.reduce_sum(tf.sin(logits))), v, weights, sums]

    check_same(build, [FieldSums()])


def test_a_second_run_changes_nothing():
    check_second_run(deepfm(), [], FieldSums())
    with tf.Graph().as_default() as graph:
        deepfm()()
        pipelines.rewrite(graph, Options(), only=[FieldSums()])
        assert not FieldSums().requires(GraphView(graph))
        made = next(op for op in graph.get_operations() if op.type == "TfBoosterFieldSums")
        assert GraphView(graph).originals(made) == ["Sum", "Sum_1", "concat", "split"]


def test_all_passes_agree_with_tensorflow():
    def build():
        return deepfm(None, product)()

    plain = run(build)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(7)
        fetches = build()
        report = pipelines.rewrite(graph, Options())
        assert any(p.name == "field_sums" and p.modified and not p.other_bits for p in report.passes)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [session.run(fetches)[0] for _ in range(3)]
    np.testing.assert_allclose(losses, [plain.values[2 * i] for i in range(3)], rtol=1e-6)


def sums_op(**changed):
    given = {"x": np.ones((2, 3, 4), np.float32), "others": [], "first": 1, "columns": 2, "num_joined": 0}
    return _native.ops().tf_booster_field_sums(**{**given, "num_apart": 0, **changed})


def gradient_op(**changed):
    given = {"x": np.ones((2, 3, 4), np.float32), "terms": [np.ones((2, 4), np.float32)], "ranges": [4], "counts": [1]}
    return _native.ops().tf_booster_field_sums_grad(**{**given, "kinds": ["sum"], "first": [0], **changed})


@pytest.mark.parametrize(
    "op, changed, message",
    [
        (sums_op, {"x": np.ones((2, 3), np.float32)}, r"x has shape \[2,3\], wanted \[rows, fields, columns\]"),
        (sums_op, {"first": 3}, "first and columns are 3 and 2, but x has 4 columns"),
        (sums_op, {"others": [np.ones((2, 1), np.float32)]}, "num_joined is 0, place 0 with 1 others"),
        (sums_op, {"num_joined": 1, "place": 1}, "num_joined is 1, place 1 with 0 others"),
        (
            sums_op,
            {"num_joined": 1, "others": [np.ones((3, 1), np.float32)]},
            r"others\[0\] has shape \[3,1\], but x has 2",
        ),
        (sums_op, {"num_apart": 1, "apart_first": [4], "apart_columns": [1]}, "apart_columns are 4 and 1, but x has 4"),
        (sums_op, {"num_apart": 1}, "apart_first has 0 entries, wanted 1"),
        (
            gradient_op,
            {"terms": [np.ones((3, 4), np.float32)]},
            r"terms\[0\] has shape \[3,4\], wanted 2 rows or 1 with 4",
        ),
        (gradient_op, {"first": [1]}, r"wanted 2 rows or 1 with 4 elements from 1 on"),
        (gradient_op, {"kinds": ["whole"]}, "with 12 elements from 0 on"),
        (gradient_op, {"ranges": [3]}, "ranges have 3 columns, but x has 4"),
        (gradient_op, {"counts": [0]}, "counts must be 1 at least each and 1 in all"),
        (gradient_op, {"kinds": ["other"]}, "kinds|other"),
    ],
)
def test_errors_of_the_ops(op, changed, message):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        op(**changed)
