"""The fused ops on a card against the same ops on the CPU. `tools/gpu_check.sh python` and `make test-card` run them; others do not collect them."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _native

pytestmark = pytest.mark.gpu

DEVICE = "/gpu:0"
ops = _native.ops()
rng = np.random.RandomState(0)


def on(device, build):
    with tf.device(device):
        return [t.numpy() for t in build()]


def check(build, tolerance=1e-5):
    """What `build` gives on the card and on the CPU."""
    for got, want in zip(on(DEVICE, build), on("/cpu:0", build)):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def updated(op, shapes, slots, tensors, **inputs):
    """A function that makes Variables and slots (all ones), runs the update and gives them all."""
    values = [floats(*shape) for shape in shapes]

    def build():
        variables = [tf.Variable(value) for value in values]
        arrays = {name: [tf.Variable(tf.ones(shape)) for shape in shapes] for name in slots}
        handles = {name: [v.handle for v in some] for name, some in arrays.items()}
        scalars = {name: tf.constant(value) for name, value in inputs.items() if isinstance(value, float)}
        flags = {name: value for name, value in inputs.items() if isinstance(value, bool)}
        lists = {name: [tf.constant(v) for v in some] for name, some in tensors.items()}
        op(var=[v.handle for v in variables], **handles, **scalars, **lists, **flags)
        return [v.read_value() for v in [*variables, *(v for some in arrays.values() for v in some)]]

    return build


ADAM = {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6}


@pytest.mark.parametrize("packed", [False, True])
def test_dense_updates(packed):
    shapes = [(3,), (0,), (128, 33), (4097,), (1, 1)] * 60
    grads = [floats(*shape) for shape in shapes]
    grad = [np.concatenate([g.ravel() for g in grads])] if packed else grads
    check(updated(ops.tf_booster_multi_apply_adam, shapes, ["m", "v"], {"grad": grad}, **ADAM))
    check(updated(ops.tf_booster_multi_apply_moving_average, shapes, [], {"grad": grad}, rate=0.1), tolerance=0)
    ftrl = {"lr": 0.1, "l1": 0.01, "l2": 0.01, "lr_power": -0.5}
    check(updated(ops.tf_booster_multi_apply_ftrl, shapes, ["accum", "linear"], {"grad": grad}, **ftrl))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16], ids=lambda t: t.name)
def test_formulas(dtype):
    """Adam with decay of the weights; of 16 bits each operation rounds as on the CPU, but for the CPU's approximate roots."""
    operations = ["Mul", "Mul", "Add", "Square", "Mul", "Mul", "AddV2", "Sqrt", "AddV2", "RealDiv", "Mul", "AddV2", "Mul", "Sub"]  # fmt: skip
    operands = [4, 1, 5, 3, 11, 12, 3, 6, 2, 7, 14, 15, 16, 17, 18, 8, 13, 19, 9, 0, 20, 21, 10, 22, 0, 23]
    shapes = [(3,), (0,), (128, 33), (4097,), (1, 1)] * 20
    values, grads = [floats(*shape) for shape in shapes], [floats(*shape) for shape in shapes]

    def build():
        arrays = [[tf.Variable(tf.cast(v * scale, dtype)) for v in values] for scale in (1, 0)]
        arrays.append([tf.Variable(tf.ones(shape, dtype)) for shape in shapes])
        ops.tf_booster_multi_apply_formula(
            var=[v.handle for of_array in arrays for v in of_array],
            number=[tf.constant(n, dtype) for n in (0.9, 0.1, 0.99, 0.01, 1e-3, 0.01, 0.1)],
            tensor=[tf.cast(g, dtype) for g in grads],
            N=len(shapes),
            operations=operations,
            operands=operands,
            results=[24, 13, 17],
        )
        return [tf.cast(v.read_value(), tf.float64) for of_array in arrays for v in of_array]

    check(build, {tf.float32: 1e-6, tf.float64: 1e-14, tf.float16: 2.0**-9, tf.bfloat16: 2.0**-6}[dtype])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda t: t.name)
def test_dense_updates_of_16_bits(dtype):
    """Each operation rounds as on the CPU, but for the CPU's approximate roots."""
    sizes, epsilon = (3, 4097, 64), 2.0**-10 if dtype == tf.float16 else 2.0**-7
    start, grads = [floats(size) for size in sizes], [floats(size) for size in sizes]

    def build():
        variables = [tf.Variable(tf.cast(value, dtype)) for value in start]
        slots = {name: [tf.Variable(tf.ones([size], dtype)) for size in sizes] for name in ("m", "v")}
        ops.tf_booster_multi_apply_adam(
            var=[v.handle for v in variables],
            **{name: [v.handle for v in some] for name, some in slots.items()},
            **{name: tf.constant(value, dtype) for name, value in {**ADAM, "epsilon": 1e-3}.items()},
            grad=[tf.cast(grad, dtype) for grad in grads],
        )
        return [tf.cast(v.read_value(), tf.float32) for v in [*variables, *slots["m"], *slots["v"]]]

    check(build, 4 * epsilon)


@pytest.mark.parametrize("dim", [16, 7])
def test_dots_of_pairs(dim):
    parts = [floats(300, 1, dim), floats(300, 26, dim)]
    pairs = [27 * i + j for i in range(27) for j in range(i)]
    upstream = floats(300, len(pairs))

    def build():
        given = [tf.constant(part) for part in parts]
        return [
            ops.tf_booster_pair_dots(parts=given, dim=dim, pairs=pairs),
            *ops.tf_booster_pair_dots_grad(gradient=tf.constant(upstream), parts=given, dim=dim, pairs=pairs),
        ]

    check(build)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.bool_])
def test_columns(dtype):
    parts = [(rng.standard_normal((30, 5, width)) * 3).astype(dtype) for width in (16, 1, 0, 130, 8)]

    def build():
        joined = ops.tf_booster_concat_columns(values=[tf.constant(part) for part in parts])
        sizes = [part.shape[-1] for part in parts]
        apart = ops.tf_booster_split_columns(value=joined, size_splits=tf.constant(sizes, tf.int64), num_split=5)
        return [joined, *apart]

    made = on(DEVICE, build)
    for got, want in zip(made, [np.concatenate(parts, -1), *parts]):
        np.testing.assert_array_equal(got, want)


def test_ones_among_zeros():
    ids = [rng.randint(-2, 10, (300, width)) for width in (1, 3, 4)]

    def build():
        given = [tf.constant(some, tf.int64) for some in ids]
        return ops.tf_booster_multi_hot(ids=given, depths=[8, 7, 8], apart=[False, False, True])

    made = on(DEVICE, build)
    summed = [tf.reduce_sum(tf.one_hot(some, depth), -2) for some, depth in zip(ids, (8, 7))]
    for got, want in zip(made, [*summed, tf.reshape(tf.one_hot(ids[2], 8), [300, 32])]):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_buckets(dtype):
    numbers = [(rng.standard_normal(shape) * 5).astype(dtype) for shape in ((300, 1), (7, 3), (0, 2), (41,))]
    numbers[0][:3, 0] = [np.nan, np.inf, -np.inf]
    boundaries = [np.sort(rng.standard_normal(n)).astype(np.float32) for n in (1, 29, 3, 700)]

    def build():
        return ops.tf_booster_multi_bucketize(
            numbers=[tf.constant(some) for some in numbers],
            boundaries=np.concatenate(boundaries).tolist(),
            num_boundaries=[len(some) for some in boundaries],
        )

    made = on(DEVICE, build)
    for got, some, of in zip(made, numbers, boundaries):
        np.testing.assert_array_equal(got, np.searchsorted(of.astype(dtype), some, "right"))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
def test_all_finite(dtype):
    fine = [np.full(shape, 1.5) for shape in ((300, 7), (5,), (0, 2), (1,))]
    for place, other in ((None, 0.0), (0, np.inf), (1, -np.inf), (3, np.nan)):
        given = [numbers.copy() for numbers in fine]
        if place is not None:
            given[place].reshape(-1)[-1] = other

        def build(given=given):
            return [ops.tf_booster_all_finite(numbers=[tf.cast(tf.constant(x), dtype) for x in given])]

        assert on(DEVICE, build)[0] == (place is None)


def test_clipped_rows():
    rows, gradients = [[floats(n, dim) for n, dim in ((40, 16), (0, 4), (333, 7), (5, 130))] for _ in range(2)]
    norms = [3.0, 1.0, 2.0, 9.0]
    check(lambda: ops.tf_booster_clip_rows([tf.constant(x) for x in rows], max_norms=norms), 0)
    check(
        lambda: ops.tf_booster_clip_rows_grad(
            [tf.constant(g) for g in gradients], [tf.constant(x) for x in rows], max_norms=norms
        )
    )


@pytest.mark.parametrize("dim", [16, 7])
def test_joined_dots_of_pairs(dim):
    parts, beside = [floats(300, 5, dim)], floats(300, 3)
    pairs = [5 * i + j for i in range(5) for j in range(i)]
    upstream = floats(300, 13)

    def build():
        given = dict(parts=[tf.constant(part) for part in parts], dim=dim, pairs=pairs)
        joined = ops.tf_booster_joined_pair_dots(others=[tf.constant(beside)], order=[1, 0], **given)
        return [joined, *ops.tf_booster_pair_dots_grad(gradient=tf.constant(upstream), column=3, **given)]

    check(build)


@pytest.mark.parametrize("columns", [16, 7])
def test_sums_over_fields(columns):
    """The CPU's bits."""
    wide, beside, tower = floats(300, 26, columns + 1), floats(300, 3), floats(300, 26 * columns + 3)
    given = {"num_joined": 1, "place": 1, "num_apart": 1, "apart_first": [0], "apart_columns": [1]}

    def build():
        x = tf.constant(wide)
        made = ops.tf_booster_field_sums(x=x, others=[tf.constant(beside)], first=1, columns=columns, **given)
        gradient = ops.tf_booster_field_sums_grad(
            x=x,
            terms=[tf.ones([300, 26, 1]), made.sums, made.square_sums, tf.constant(tower), made.sums],
            ranges=[1, columns],
            counts=[1, 4],
            kinds=["whole", "sum", "square_sum", "whole", "product_sum"],
            first=[0, 0, 0, 3, 0],
        )
        return [made.sums, made.square_sums, *made.joined, *made.apart, gradient]

    check(build, 0)


@pytest.mark.parametrize("units", [16, 7])
def test_batch_normalization(units):
    """The CPU's bits."""
    batch, upstream, gamma, beta = floats(300, units), floats(300, units), floats(units), floats(units)

    def build():
        x, scale = tf.constant(batch), [tf.constant(gamma)]
        made = ops.tf_booster_batch_norm(x=x, gamma=scale, beta=[tf.constant(beta)], epsilon=1e-3)
        gradient = ops.tf_booster_batch_norm_grad(
            dy=tf.constant(upstream), x=x, mean=made.mean, variance=made.variance, gamma=scale, epsilon=1e-3
        )
        return [*made, *gradient]

    check(build, 0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_updates(index):
    shapes = [(100, 16), (5, 3), (20000, 1), (1, 33)]
    indices = [np.minimum(rng.zipf(1.3, 3000), shape[0]).astype(index) - 1 for shape in shapes]
    grads = [floats(3000, shape[1]) * 0.01 for shape in shapes]
    tensors = {"indices": indices, "grad": grads}
    check(updated(ops.tf_booster_multi_sparse_apply_adagrad, shapes, ["accum"], tensors, lr=0.1), 1e-4)
    adam = {"alpha": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6}
    for lazy in (False, True):
        op = ops.tf_booster_multi_sparse_apply_adam
        check(updated(op, shapes, ["m", "v"], tensors, lazy=lazy, **adam), 1e-4)


def test_gathers():
    tables = [floats(50, dim) for dim in (1, 3, 16, 64)]
    ids = [rng.randint(0, 50, size) for size in (7, 1000, 0, 333)]

    def build():
        handles = [tf.Variable(table) for table in tables]
        return ops.tf_booster_multi_gather(
            resources=[v.handle for v in handles], indices=[tf.constant(i) for i in ids], dtype=tf.float32
        )

    check(build, 0)


@pytest.mark.parametrize("mod", [False, True])
def test_tables_in_parts(mod):
    rows, parts = 50, 4
    sizes = [(len(range(part, rows, parts)), 12) for part in range(parts)]
    ids = rng.randint(0, rows, 600)
    values = [floats(*size) for size in sizes]

    def build():
        variables = [tf.Variable(value) for value in values]
        handles = [v.handle for v in variables]
        return ops.tf_booster_partitioned_gather(
            resources=handles, indices=[tf.constant(ids)], parts=[parts], mod=[mod], dtype=tf.float32
        )

    check(build)
    tensors = {"indices": [ids] * parts, "grad": [floats(600, 12)] * parts}
    table = {"part": list(range(parts)), "parts": [parts] * parts, "part_rows": [rows] * parts, "mod": [mod] * parts}
    apply = functools.partial(ops.tf_booster_multi_sparse_apply_adagrad, **table)
    check(updated(apply, sizes, ["accum"], tensors, lr=0.1, sum_duplicates=True))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_lookups(combiner):
    values = [rng.randint(-1, 40, (200, width)) for width in (1, 6)]
    tables = [floats(40, dim) for dim in (16, 5)]

    def build():
        prepared = ops.tf_booster_prepare_lookups(
            [tf.constant(v) for v in values], [], [], [], Tids=tf.int64, num_filled=2, prune_ids=True,
            prune_weights=False, fill_rows=True, default_ids=[0, 3], leading_dims=[1, 1], hash_buckets=[0, 0],
        )  # fmt: skip
        rows = [tf.gather(table, ids) for table, ids in zip(tables, prepared.ids)]
        places = {"idx": prepared.idx, "row_splits": prepared.row_splits, "zero_rows": prepared.row_is_empty}
        pooled = ops.tf_booster_pool_lookups(rows=rows, weights=[], combiners=[combiner] * 2, **places)
        grads = ops.tf_booster_pool_lookups_grad(
            grads=pooled, rows=rows, weights=[], combiners=[combiner] * 2, **places
        )
        return [*prepared.ids, *prepared.idx, *prepared.row_splits, *prepared.row_is_empty, *pooled, *grads]

    check(build)


@pytest.mark.parametrize("width", [4, 3])
def test_joined_lookups(width):
    """Two of three lookups beside other columns, and gradients from a wider tensor: the CPU's bits."""
    rows = [floats(40, dim) for dim in (16, 5, 8)]
    idx = [rng.randint(0, 40, 90).astype(np.int32) for _ in rows]
    splits = [np.arange(0, 91, 3, dtype=np.int32)] * 3
    beside, upstream = floats(30, width), floats(30, width + 24)

    def build():
        lookups = dict(rows=[tf.constant(r) for r in rows], idx=[tf.constant(i) for i in idx], zero_rows=[], weights=[])
        lookups.update(row_splits=[tf.constant(s) for s in splits], combiners=["mean", "sum", "sqrtn"])
        made = ops.tf_booster_joined_pool_lookups(others=[tf.constant(beside)], num_apart=1, order=[2, 3, 0], **lookups)
        grads = [tf.constant(upstream), tf.constant(upstream[:, :5].copy()), tf.constant(upstream)]
        wide = ops.tf_booster_pool_lookups_grad(grads=grads, grad_columns=[8 + width, 0, 0], **lookups)
        return [made.joined, *made.apart, *wide]

    check(build, 0)


def test_a_graph_that_the_passes_rewrote_trains_alike():
    batches = [rng.randint(0, 40, (64, 3)) for _ in range(20)]

    def losses(fused):
        with tf.Graph().as_default() as graph, tf.device(DEVICE):
            tf.compat.v1.set_random_seed(1)
            ids = tf.compat.v1.placeholder(tf.int64, [None, 3])
            sparse = tf.sparse.from_dense(ids + 1)
            sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
            tables = [tf.compat.v1.get_variable(f"t{i}", [40, 8], use_resource=True) for i in range(3)]
            pooled = [tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean") for table in tables]
            loss = tf.reduce_mean(tf.square(tf.concat(pooled, 1) - 0.5))
            train = tf.compat.v1.train.AdamOptimizer(0.05).minimize(loss)
            initialize = tf.compat.v1.global_variables_initializer()
            if fused:
                tf_booster.rewrite_graph(graph)
                types = {op.type for op in graph.get_operations()}
                assert {"TfBoosterPoolLookups", "TfBoosterMultiSparseApplyAdam"} <= types
        with tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(allow_soft_placement=True)) as session:
            session.run(initialize)
            return [session.run([loss, train], {ids: batch})[0] for batch in batches]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-4)


def deepfm(vectors):
    weights, v = tf.split(tf.stack(vectors, 1), [1, 7], 2)
    pairs = tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1)
    deep = tf.sin(tf.concat([tf.reshape(v, [-1, 42]), tf.reduce_sum(weights, 1)], 1))
    return tf.reduce_sum(pairs, 1) + tf.reduce_sum(deep, 1)


def dlrm(vectors):
    stacked = tf.stack(vectors, 1)
    dots = tf.reshape(tf.matmul(stacked, stacked, transpose_b=True), [-1, 36])
    return tf.reduce_sum(tf.sin(tf.concat([vectors[0], tf.gather(dots, [6, 12, 13, 20], axis=1)], 1)), 1)


def wide_and_deep(vectors):
    return tf.reduce_sum(tf.sin(tf.concat(vectors, 1)), 1)


@pytest.mark.parametrize(
    "model, types",
    [
        (deepfm, "JoinedPoolLookups FieldSums FieldSumsGrad PoolLookupsGrad MultiSparseApplyAdagrad"),
        (dlrm, "PoolLookups JoinedPairDots PairDotsGrad PoolLookupsGrad MultiSparseApplyAdagrad"),
        (wide_and_deep, "JoinedPoolLookups PoolLookupsGrad MultiSparseApplyAdagrad"),
    ],
)
def test_models_train_alike_by_ops_on_the_card(model, types):
    """Each of these ops runs on the card, and nothing is joined or taken apart by an op of its own."""
    ids, batches = rng.randint(0, 30, (3, 20, 6)), 3

    def losses(fused):
        with tf.Graph().as_default() as graph, tf.device(DEVICE):
            tf.compat.v1.set_random_seed(1)
            fed = tf.compat.v1.placeholder(tf.int64, [None, 6])
            vectors = []
            for i in range(6):
                table = tf.compat.v1.get_variable(f"t{i}", [30, 8], use_resource=True)
                sparse = tf.sparse.from_dense(fed[:, i : i + 1] + 1)
                sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
                pooled = tf.nn.safe_embedding_lookup_sparse(table, sparse)
                pooled.set_shape([None, 8])
                vectors.append(pooled)
            loss = tf.reduce_mean(tf.square(model(vectors) - 1.0))
            train = tf.compat.v1.train.AdagradOptimizer(0.05).minimize(loss)
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TRAIN_OP, train)
            initialize = tf.compat.v1.global_variables_initializer()
            if fused:
                tf_booster.rewrite_graph(graph)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            session.run(initialize)
            options = tf.compat.v1.RunOptions(output_partition_graphs=True)
            found = tf.compat.v1.RunMetadata()
            values = [session.run([loss, train], {fed: ids[i]}, options, found)[0] for i in range(batches)]
        nodes = [node for part in found.partition_graphs for node in part.node]
        return values, {
            node.op[len("TfBooster") :] for node in nodes if "GPU" in node.device and "TfBooster" in node.op
        }

    (got, on_card), (want, _) = losses(True), losses(False)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert set(types.split()) <= on_card and not on_card & {"ConcatColumns", "SplitColumns"}
