"""Which ops the passes fuse where TensorFlow would run them on a GPU: asked with a simulated GPU, nothing is run."""

import pytest
import tensorflow as tf

from tf_booster import _compat
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.batch_normalization import BatchNormalization
from tf_booster.passes.columns import Columns
from tf_booster.passes.field_sums import FieldSums
from tf_booster.passes.gather_matmul import GatherMatMul
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_layers import JoinedLayers
from tf_booster.passes.joined_lookups import JoinedLookups
from tf_booster.passes.joined_pair_dots import JoinedPairDots
from tf_booster.passes.known_shapes import KnownShapes
from tf_booster.passes.pair_dots import PairDots
from tf_booster.passes.repeated_features import RepeatedFeatures
from tf_booster.passes.small_matmuls import SmallMatMuls
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.variable_gathers import VariableGathers
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
HOST_ONLY = ("AsString", "StringToHashBucketFast", "Placeholder")
FLOAT = {"T": [tf.float32]}
COLUMNS = ("ConcatColumns", "SplitColumns")
LOOKUPS = {
    "TfBoosterPrepareLookups": {"T": [tf.int64], "Tids": [tf.int64]},
    "TfBoosterPoolLookups": FLOAT,
    "TfBoosterPoolLookupsGrad": FLOAT,
}


@pytest.fixture(name="gpu")
def simulated_gpu(monkeypatch):
    """Every op of TensorFlow has a GPU kernel but HOST_ONLY; of the fused ones those in the dict that this gives."""
    fused = {}

    def kernels(op_type):
        if op_type.startswith("TfBooster"):
            types = fused.get(op_type)
            if types is None:
                return ()
            allowed = tuple((name, frozenset(t.as_datatype_enum for t in some)) for name, some in types.items())
            return (_compat.GpuKernel(allowed, frozenset()),)
        return () if op_type in HOST_ONLY else (_compat.GpuKernel((), frozenset()),)

    monkeypatch.setattr(_compat, "_gpu_kernels", kernels)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["one"])
    return fused


def reasons(result):
    return sorted({reason for _, reason in result.skipped})


def updates(optimizer, dtype=tf.float32):
    with tf.Graph().as_default() as graph:
        variables = [v1.get_variable(f"v{i}", [3, i + 1], dtype, use_resource=True) for i in range(3)]
        optimizer().minimize(tf.add_n([tf.reduce_sum(v * v) for v in variables]))
        return graph, VariableUpdates().run(GraphView(graph))


def count(graph, kind):
    return sum(op.type == kind for op in graph.get_operations())


def test_dense_updates(gpu):
    def adam():
        return v1.train.AdamOptimizer(0.1)

    graph, result = updates(adam)
    assert reasons(result) == ["it is updated on the GPU, where the fused op has no kernel for float32"]
    assert not result.modified and not count(graph, "TfBoosterMultiApplyAdam")
    gpu["TfBoosterMultiApplyAdam"] = {"T": [tf.float32, tf.float64]}
    graph, result = updates(adam)
    assert not result.skipped and count(graph, "TfBoosterMultiApplyAdam") == 1
    _, result = updates(adam, tf.float16)
    assert reasons(result) == ["it is updated on the GPU, where the fused op has no kernel for float16"]
    _, result = updates(lambda: v1.train.AdagradOptimizer(0.1))
    assert reasons(result) == ["it is updated on the GPU, where the fused op has no kernel for float32"]


def sparse_updates(index):
    with tf.Graph().as_default() as graph:
        variables = [v1.get_variable(f"v{i}", [9, 4], use_resource=True) for i in range(2)]
        rows = [tf.gather(v, tf.constant([1, 2, 1], index)) for v in variables]
        v1.train.AdagradOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(r) for r in rows]))
        return graph, VariableUpdates().run(GraphView(graph))


def test_sparse_updates_ask_for_the_type_of_the_indices(gpu):
    gpu["TfBoosterMultiSparseApplyAdagrad"] = {"T": [tf.float32], "Tindices": [tf.int64]}
    graph, result = sparse_updates(tf.int64)
    assert not result.skipped and count(graph, "TfBoosterMultiSparseApplyAdagrad") == 1
    graph, result = sparse_updates(tf.int32)
    assert result.skipped and not count(graph, "TfBoosterMultiSparseApplyAdagrad")


def gathers(dtype):
    with tf.Graph().as_default() as graph:
        variables = [v1.get_variable(f"v{i}", [9, 4], dtype, trainable=False, use_resource=True) for i in range(2)]
        ids = v1.placeholder(tf.int64, [None])
        _ = [tf.identity(tf.gather(v, ids)) for v in variables]
        return graph, VariableGathers().run(GraphView(graph))


def test_gathers(gpu):
    _, result = gathers(tf.float32)
    assert reasons(result) == ["no GPU kernel for rows of float32: it would move from the GPU to the CPU"]
    gpu["TfBoosterMultiGather"] = {"dtype": [tf.float32], "Tindices": [tf.int64]}
    graph, result = gathers(tf.float32)
    assert not result.skipped and count(graph, "TfBoosterMultiGather") == 1
    _, result = gathers(tf.float64)
    assert reasons(result) == ["no GPU kernel for rows of float64: it would move from the GPU to the CPU"]


def sparse_lookups(hashed=None):
    """hashed: the dtype of what is hashed to ids; None for ids as they are."""
    with tf.Graph().as_default() as graph:
        pooled = []
        # One for both lookups: what is fed apart is not merged.
        given = v1.sparse_placeholder(hashed or tf.int64, [None, 5])
        for i in range(2):
            table = v1.get_variable(f"v{i}", [9, 4], use_resource=True)
            values = given.values
            if hashed is not None:
                text = values if hashed == tf.string else tf.strings.as_string(values)
                values = tf.strings.to_hash_bucket_fast(text, 9)
            ids = tf.SparseTensor(given.indices, values, given.dense_shape)
            pooled.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean"))
        v1.train.AdagradOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(p) for p in pooled]))
        return graph, SparseLookups().run(GraphView(graph))


def prepared(graph):
    return [op for op in graph.get_operations() if op.type == "TfBoosterPrepareLookups"]


def test_sparse_lookups(gpu):
    _, result = sparse_lookups()
    assert reasons(result) == ["no GPU kernel of TfBoosterPoolLookups: it would move from the GPU to the CPU"]
    gpu.update(LOOKUPS)
    graph, result = sparse_lookups()
    assert not result.skipped and len(prepared(graph)) == 1 and count(graph, "TfBoosterPoolLookupsGrad") == 1
    del gpu["TfBoosterPrepareLookups"]
    _, result = sparse_lookups()
    assert reasons(result) == ["no GPU kernel for ids of int64: they would move from the GPU to the CPU"]


def test_digits_are_hashed_on_the_host_and_strings_prepared_there(gpu):
    gpu.update(LOOKUPS)
    graph, result = sparse_lookups(tf.int64)
    (op,) = prepared(graph)
    assert not result.skipped and op.get_attr("hash_buckets") == [0, 0]
    assert [t.op.type for t in op.inputs[:2]] == ["StringToHashBucketFast"] * 2
    graph, result = sparse_lookups(tf.string)
    (op,) = prepared(graph)
    # Both lookups are of the same words, which are prepared once.
    assert not result.skipped and op.get_attr("hash_buckets") == [9] and op.get_attr("T") == tf.string


def test_batch_normalization_where_both_ops_have_a_kernel(gpu):
    def fused(device):
        with tf.Graph().as_default() as graph:
            with tf.device(device):
                x = tf.sin(v1.get_variable("w", [8, 5], use_resource=True))
                y = v1.layers.batch_normalization(x, training=True)
                train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.sin(y)))
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
            result = BatchNormalization().run(GraphView(graph))
            return {op.type for op in graph.get_operations() if op.type.startswith("TfBooster")}, result.skipped

    both = {"TfBoosterBatchNorm", "TfBoosterBatchNormGrad"}
    assert fused("/cpu:0") == (both, [])
    for name in sorted(both):
        found, ((_, reason),) = fused(None)
        assert found == set() and "where the library has no kernels" in reason
        gpu[name] = {}
    assert fused(None) == (both, [])


def test_constant_shapes_that_are_in_the_memory_of_the_host(gpu):
    """Of 64 bits they would be on the GPU, and be copied to the host at each step."""
    changed = {}
    for dtype in (tf.int32, tf.int64):
        with tf.Graph().as_default() as graph:
            x = tf.sin(v1.placeholder_with_default([[[1.0, 2.0]]], [None, 1, 2]))
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, tf.reshape(x, [tf.shape(x, dtype)[0], 2]).op)
            changed[dtype] = KnownShapes().run(GraphView(graph)).modified
    assert changed == {tf.int32: True, tf.int64: False}


def test_sums_over_fields_where_both_ops_have_a_kernel(gpu):
    def machine():
        wide = tf.sin(v1.get_variable("w", [8, 5, 17], use_resource=True))
        weights, v = tf.split(wide, [1, 16], 2)
        pairs = tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1)
        beside = v1.placeholder_with_default(tf.ones([8, 3]), [8, 3])
        tower = tf.sin(tf.concat([tf.reshape(v, [-1, 80]), beside], 1))
        loss = tf.reduce_sum(pairs) + tf.reduce_sum(tower) + tf.reduce_sum(weights)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, v1.train.GradientDescentOptimizer(0.1).minimize(loss))

    def fused(device):
        with tf.Graph().as_default() as graph:
            with tf.device(device):
                machine()
            result = FieldSums().run(GraphView(graph))
            assert result.other_bits == (bool(result.changes) and device is None)
            return {op.type for op in graph.get_operations() if op.type.startswith("TfBooster")}, result.changes

    both = {"TfBoosterFieldSums", "TfBoosterFieldSumsGrad"}
    assert fused("/cpu:0")[0] == both
    assert fused(None)[0] == set()
    gpu["TfBoosterFieldSums"] = {}
    assert fused(None)[0] == set()
    gpu["TfBoosterFieldSumsGrad"] = {}
    found, changes = fused(None)
    assert (
        found == both and "and their join" in changes[0]
    )  # A join of two parts is one that the pass columns leaves to TensorFlow.


def test_what_only_the_cpu_has_is_left_where_tensorflow_takes_the_gpu(gpu):
    """Small layers, their joins, and dots of pairs; on the CPU, which a part of the program asks for, each becomes its op."""
    pairs = [i * 5 + j for i in range(5) for j in range(i)]

    def layers():
        x = v1.placeholder_with_default(tf.ones([8, 6]), [8, 6])
        kernels = [v1.get_variable(f"k{i}", [6, 4], use_resource=True) for i in range(5)]
        parts = [tf.nn.relu(tf.matmul(tf.sin(x * (i + 1.0)), kernel)) for i, kernel in enumerate(kernels)]
        stacked = tf.stack(parts, 1)
        dots = tf.matmul(stacked, stacked, transpose_b=True)
        picked = tf.gather(tf.reshape(dots, [-1, 25]), pairs, axis=1)
        beside = tf.concat([tf.ones([8, 2]), picked], 1)
        loss = tf.reduce_sum(tf.sin(beside)) + tf.reduce_sum(tf.concat(parts, 1))
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, v1.train.GradientDescentOptimizer(0.1).minimize(loss))

    def fused(device):
        with tf.Graph().as_default() as graph:
            with tf.device(device):
                layers()
            for a_pass in (PairDots(), JoinedPairDots(), SmallMatMuls(), Columns(), JoinedLayers()):
                a_pass.run(GraphView(graph))
            return {op.type for op in graph.get_operations() if op.type.startswith("TfBooster")}

    assert fused(None) == set() and not gpu
    dots, columns = ({f"TfBooster{name}" for name in names} for names in (("PairDots", "PairDotsGrad"), COLUMNS))
    assert dots | {"TfBoosterConcatColumns", "TfBoosterJoinedPairDots"} < fused("/cpu:0")
    gpu["TfBoosterPairDots"] = {}
    assert fused(None) == set()  # Its gradient would be on the CPU.
    gpu["TfBoosterPairDotsGrad"] = {}
    assert fused(None) == dots
    gpu["TfBoosterConcatColumns"] = {"T": [tf.float32]}
    assert fused(None) == dots
    gpu["TfBoosterSplitColumns"] = {"T": [tf.float32]}
    assert fused(None) == dots | columns
    gpu["TfBoosterJoinedPairDots"] = {}
    assert fused(None) == dots | columns | {"TfBoosterJoinedPairDots"}


def test_lookups_are_joined_where_all_of_it_has_a_kernel(gpu):
    """Of wide parts, too, which TensorFlow copies as fast on the CPU."""

    def joined(device):
        with tf.Graph().as_default() as graph, tf.device(device):
            ids = tf.sparse.from_dense(v1.placeholder(tf.int64, [None, 3]))
            tables = [v1.get_variable(f"t{i}", [40, 80], use_resource=True) for i in range(5)]
            wide = tf.concat([tf.nn.safe_embedding_lookup_sparse(table, ids) for table in tables], 1)
            loss = tf.reduce_sum(tf.sin(wide))
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, v1.train.GradientDescentOptimizer(0.1).minimize(loss))
            for a_pass in (SparseLookups(), Columns(), JoinedLookups()):
                a_pass.run(GraphView(graph))
            return {op.type for op in graph.get_operations() if op.type.startswith("TfBooster")}

    lookups = {"TfBoosterPrepareLookups", "TfBoosterPoolLookups", "TfBoosterPoolLookupsGrad"}
    assert joined("/cpu:0") == lookups  # 80 columns are too many.
    gpu.update(LOOKUPS)
    assert joined(None) == lookups
    gpu.update({f"TfBooster{name}": {"T": [tf.float32]} for name in COLUMNS})
    assert joined(None) == lookups | {f"TfBooster{name}" for name in COLUMNS}
    gpu["TfBoosterJoinedPoolLookups"] = {"T": [tf.float32]}
    assert joined(None) >= lookups | {"TfBoosterJoinedPoolLookups"}


def test_what_is_expanded_stays_on_the_card_and_is_multiplied_there(gpu):
    def expanded(*kernels):
        gpu.clear()
        gpu.update(kernels)
        with tf.Graph().as_default() as graph:
            user, item = (v1.placeholder(tf.int64, [None, 4], name) for name in ("user", "item"))
            tables = [v1.get_variable(name, [9, 8], use_resource=True) for name in ("keys", "queries")]
            keys, queries = (tf.nn.embedding_lookup(table, ids) for table, ids in zip(tables, (user, item)))
            out = tf.matmul(queries, keys, transpose_b=True) + 1
            report = pipelines.rewrite(
                graph, Options(repeated_features=("user",)), only=[RepeatedFeatures(["user"]), GatherMatMul()]
            )
            del out
            return {op.type for op in graph.get_operations() if op.outputs and op.outputs[0].consumers()}, report

    types, report = expanded()
    assert "GatherV2" in types and [p.modified for p in report.passes] == [True, False]
    types, report = expanded(("TfBoosterGatherBatchMatMul", {"Trows": [tf.int32]}))
    assert "TfBoosterGatherBatchMatMul" in types and [p.modified for p in report.passes] == [True, True]
