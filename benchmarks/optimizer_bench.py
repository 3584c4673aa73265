"""Adagrad and Adam.

apply: distinct rows in the order of a batch, located already, and a gradient for each. TensorFlow: ResourceSparseApplyAdagrad
on a Variable; it has no sparse Adam kernel, so there it is lazy Adam written with ops, as people do, and Adagrad beside it.
step: ids with duplicates, four batches one after another in a turn; lookup, and update with the gradient of each occurrence. TensorFlow: the same kernels on a Variable,
with tf.unique and a segment sum in front. TFRA: its embedding_lookup_unique and DynamicEmbeddingOptimizer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import data, floors, peers, tables
from benchmarks.find_bench import OUTPUT_FLOATS, TABLE_BYTES
from benchmarks.harness import Result, contest

v1 = tf.compat.v1
LR = 0.05
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
HYPER = {"adagrad": [LR], "adam": [BETA1, BETA2, LR, BETA1, BETA2, EPSILON]}


class Variables:
    """A Variable of all rows with its slots: what the ids of a vocabulary train on in plain TensorFlow."""

    def __init__(self, optimizer: str, values: np.ndarray):
        self.optimizer = optimizer
        start = [values] + [np.full_like(values, tables.SLOT_START[s]) for s in tables.SLOTS[optimizer]]
        self.handles = [v1.Variable(s, use_resource=True, trainable=False).handle for s in start]

    def gather(self, which: int, indices):
        return tf.raw_ops.ResourceGather(resource=self.handles[which], indices=indices, dtype=tf.float32)

    def apply_adagrad(self, indices, grad):
        """TensorFlow's kernel, whatever the last slot was for."""
        var, accum = self.handles[0], self.handles[-1]
        return tf.raw_ops.ResourceSparseApplyAdagrad(var=var, accum=accum, lr=LR, grad=grad, indices=indices)

    def apply(self, indices, grad):
        """Distinct indices."""
        if self.optimizer == "adagrad":
            return self.apply_adagrad(indices, grad)
        m = self.gather(1, indices) * BETA1 + grad * (1 - BETA1)
        v = self.gather(2, indices) * BETA2 + grad * grad * (1 - BETA2)
        alpha = np.float32(LR * np.sqrt(1 - BETA2) / (1 - BETA1))
        value = self.gather(0, indices) - alpha * m / (tf.sqrt(v) + EPSILON)
        return tf.group(
            *[
                tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=indices, updates=new)
                for handle, new in zip(self.handles, [value, m, v])
            ]
        )

    def step(self, indices, grad):
        lookup = self.gather(0, indices)
        distinct, places = tf.unique(indices)
        return tf.group(lookup, self.apply(distinct, tf.math.unsorted_segment_sum(grad, places, tf.size(distinct))))


def our_step(table: tables.OurTable, ids, grad):
    probe = table.probe(ids)
    with tf.control_dependencies([table.gather(probe)]):  # The lookup is before the update, as in training.
        found = (probe.keys, probe.key_fields, probe.counts, probe.handles)
        return table.apply(*found, probe.codes[0], grad, HYPER[table.optimizer])


def tfra_step(tfra: Any, table: tables.TfraTable, optimizer: str, ids, grad):
    # Its plain embedding_lookup keeps one gradient of each key and drops the others.
    lookup, trainable = tfra.embedding_lookup_unique(
        table.variable, ids, grad.shape[1], return_trainable=True, name="lookup"
    )
    if optimizer == "adagrad":
        wrapped = v1.train.AdagradOptimizer(LR, initial_accumulator_value=tables.SLOT_START["accumulator"])
    else:
        wrapped = v1.train.AdamOptimizer(LR, BETA1, BETA2, EPSILON)
    loss = tf.reduce_sum(lookup * grad)  # Its gradient is `grad`.
    return tfra.DynamicEmbeddingOptimizer(wrapped).minimize(loss, var_list=[trainable])


def check(session: v1.Session, find: Dict[str, Any], ids: np.ndarray) -> None:
    """All contestants hold nearly the same rows after the same number of steps."""
    wanted, *others = session.run(list(find.values()))
    assert len(np.unique(wanted[:, 0])) > min(100, len(np.unique(ids)) // 2)
    for name, other in zip(list(find)[1:], others):
        np.testing.assert_allclose(other, wanted, rtol=1e-3, atol=1e-4, err_msg=name)


def distinct_rows(distribution: str, rows: int, batch: int, seed: int) -> np.ndarray:
    """Those of a batch, in the order of their first occurrence: so a training step's unique ids reach the update."""
    ranks = data.ranks(distribution, rows, batch, seed)
    _, first = np.unique(ranks, return_index=True)
    return ranks[np.sort(first)]


def apply_contest(session, ours, variables, distribution, rows, batch, grad, threads) -> Tuple[Dict[str, float], int]:
    """The rates, and how many rows an op updates: as many as the fewest of a batch, for each op of a turn has its own."""
    draws = [distinct_rows(distribution, rows, batch, seed=ours.dim + i) for i in range(tables.OPS_IN_A_TURN)]
    count = min(len(ranks) for ranks in draws)
    known = len(v1.global_variables())
    places, grads = tables.held(np.arange(count) + 1), tables.held(grad[:count])
    ones, fields = tables.held(np.ones(count, np.int64)), tables.held(np.zeros(count, np.int32))
    indices = [tables.held(ranks[:count]) for ranks in draws]
    keys = [tables.held(data.keys_of(ranks[:count])) for ranks in draws]
    session.run(v1.variables_initializer(v1.global_variables()[known:]))
    known = len(v1.global_variables())
    handles = [tables.held(session.run(ours.probe(k).handles)) for k in keys]  # In order: the keys are distinct.
    session.run(v1.variables_initializer(v1.global_variables()[known:]))

    def apply_ours(k, h):
        return ours.apply(k, fields, ones, h, places, grads, HYPER[ours.optimizer])

    ops = {
        ours.name: [partial(apply_ours, k, h) for k, h in zip(keys, handles)],
        "TensorFlow": [partial(variables.apply, i, grads) for i in indices],
    }
    if ours.optimizer == "adam":
        ops["TF Adagrad"] = [partial(variables.apply_adagrad, i, grads) for i in indices]
    runners = {name: tables.runner(session, tables.chain(builds)) for name, builds in ops.items()}
    places_of_rows = [ranks[:count] for ranks in draws]
    runners.update(floors.update(ours.optimizer, rows, ours.dim, places_of_rows, grad, threads))
    return contest(runners, count * len(draws)), count


def step_contest(session, steps: Dict[str, Any], which, find: Dict[str, Callable], ids, batch: int) -> Dict[str, float]:
    """A turn is a step on each of the batches; `which` is fed with a batch's number."""

    calls = {name: session.make_callable(tf.group(op), feed_list=[which]) for name, op in steps.items()}

    def runner(step) -> Callable[[int], None]:
        def run(_: int) -> None:
            for i in range(tables.OPS_IN_A_TURN):
                step(i)

        return run

    runners = {name: runner(step) for name, step in calls.items()}
    for step in calls.values():
        step(0)  # One only: from the second on TFRA corrects Adam's bias by another factor than ours here.
    check(session, {name: op() for name, op in find.items()}, ids)
    return contest(runners, batch * tables.OPS_IN_A_TURN)


def run_optimizer(optimizer: str, threads: int) -> Iterator[Result]:
    tfra = peers.tfra()
    for dim in (16, 64, 128):
        rows, batch = TABLE_BYTES // (4 * dim) // 2, OUTPUT_FLOATS // dim
        for distribution in data.DISTRIBUTIONS:
            with tf.Graph().as_default(), tables.session(threads) as session:
                yield from contests(tfra, session, optimizer, dim, distribution, rows, batch, threads)


def contests(tfra, session, optimizer, dim, distribution, rows, batch, threads) -> List[Result]:
    ours = tables.OurTable(dim, optimizer)
    theirs = tables.TfraTable(tfra, dim, rows) if tfra else None
    ranks = np.stack([data.ranks(distribution, rows, batch, seed=dim + i) for i in range(tables.OPS_IN_A_TURN)])
    ids = data.keys_of(ranks)
    which = v1.placeholder(tf.int32, [])
    grad = np.random.default_rng(dim).normal(size=(batch, dim)).astype(np.float32)
    all_keys = data.keys_of(np.arange(rows))
    start = (all_keys % 1000).astype(np.float32)[:, None] * 1e-3 + np.arange(dim, dtype=np.float32)
    variables = Variables(optimizer, start)
    fed_ids, fed_rows, fed_grad = tables.held(ids)[which], tables.held(ranks)[which], tables.held(grad)
    first_ids, first_rows = tables.held(ids[0]), tables.held(ranks[0])
    steps = {ours.name: our_step(ours, fed_ids, fed_grad), "TensorFlow": variables.step(fed_rows, fed_grad)}
    find = {ours.name: lambda: ours.find(first_ids), "TensorFlow": lambda: variables.gather(0, first_rows)}
    if theirs:
        steps["TFRA"] = tfra_step(tfra, theirs, optimizer, fed_ids, fed_grad)
        find["TFRA"] = lambda: theirs.find(first_ids)
    session.run(v1.global_variables_initializer())
    tables.fill(session, [t for t in (ours, theirs) if t], all_keys, dim)
    step_rates = step_contest(session, steps, which, find, ids[0], batch)
    apply_rates, distinct = apply_contest(session, ours, variables, distribution, rows, batch, grad, threads)
    facts = {"rows": rows, "batch": batch, "unique": f"{distinct / batch:.0%}", "load": ours.load_factor(session)}
    return [
        Result(optimizer, "apply", dim, distribution, threads, "M rows/s", apply_rates, facts),
        Result(optimizer, "step", dim, distribution, threads, "M ids/s", step_rates, facts),
    ]
