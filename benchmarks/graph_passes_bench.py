"""How long the passes take on large graphs, and whether that grows linearly: 500 tables and 2,500 Variables beside twice that.

`M ops/s` are ops of the graph over the processor time of all passes together, the report's counts included; linear growth keeps the rate.
"""

from __future__ import annotations

import time
from typing import Any, Iterator

import tensorflow as tf

import tf_booster
from benchmarks import graph_models
from benchmarks.graph_models import Shape
from benchmarks.harness import OURS, Result

v1 = tf.compat.v1
SHAPES = (Shape(500, 2500), Shape(1000, 5000))


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for kind in ("vars", "tables"):
        for shape in SHAPES:
            yield passes_of(kind, shape, threads)


def passes_of(kind: str, shape: Shape, threads: int) -> Result:
    """All passes on one graph of that size."""
    with tf.Graph().as_default() as graph:
        build_large(kind, shape)
        num_ops = len(graph.get_operations())
        start, cpu_start = time.perf_counter(), time.process_time()
        report = tf_booster.rewrite_graph(graph)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    before, after = report.before.num_ops, report.after.num_ops
    facts = {"tables": shape.tables, "Variables": shape.variables, "ops": num_ops, "in a step": f"{before} -> {after}"}
    facts["passes"] = f"{seconds:.1f} s, {cpu_seconds:.1f} s of processor time"
    rates = {OURS: num_ops / cpu_seconds / 1e6}
    return Result("graph_passes", kind, 0, f"{shape.tables} tables", threads, "M ops/s", rates, facts)


def build_large(kind: str, shape: Shape) -> None:
    """The model with ordinary Variables ("vars") or hash tables ("tables"), without feature columns, which take minutes to build."""
    features = graph_models.input_of(graph_models.batches(shape, 2, 1))
    graph_models.build(shape, features, _of_variables if kind == "vars" else _of_tables, v1.train.AdamOptimizer(0.002))


def _of_variables(shape: Shape, name: str, dim: int, ids: Any) -> tf.Tensor:
    table = v1.get_variable(name, [shape.rows, dim])
    if isinstance(ids, tf.SparseTensor):
        return v1.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean")
    return tf.nn.embedding_lookup(table, tf.reshape(ids, [-1]))


def _of_tables(shape: Shape, name: str, dim: int, ids: Any) -> tf.Tensor:
    table = tf_booster.get_hash_table(name, dim)
    if isinstance(ids, tf.SparseTensor):
        return tf_booster.embedding_lookup_sparse(table, ids)
    return tf_booster.embedding_lookup(table, tf.reshape(ids, [-1]))
