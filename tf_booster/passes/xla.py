"""Marks the dense part of a graph for compilation by XLA, as tf.xla.experimental.jit_scope does while a graph is built.

A cluster whose tensors all have static shapes compiles once. Ops with an unknown dimension stay out, most often that of the batch:
XLA compiles anew for each size that it meets and keeps all that it compiled.
"""

from __future__ import annotations

from typing import Dict, List, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.graph_view import GraphView, is_marked_for_compilation
from tf_booster.passes.xla_clusters import clusters, describe, private_constants
from tf_booster.passes.xla_ops import COMPILED, FREE, UNKNOWN_SHAPE, refusal

# TensorFlow's own minimum for a cluster (tf_xla_min_cluster_size): a launch costs some 20 ops' worth of scheduling on the CPU.
MIN_OPS = 4
_SCOPE = "tf_booster_xla_{}"
TOO_OLD = "this TensorFlow also compiles ops beside the marked ones, anew for each size of a batch, and keeps all of it; 2.14 and later do not"
_UNKNOWN = UNKNOWN_SHAPE.split("'")[0]


class Xla(Pass):
    """Clusters of static shape get the attributes _XlaCompile and _XlaScope."""

    name = "xla"
    seeks = "cluster of static shape"

    def requires(self, view: GraphView) -> bool:
        return any(kind in COMPILED for kind in view.index().types())

    def run(self, view: GraphView) -> PassResult:
        result = PassResult(self.name)
        if not _compat.xla_leaves_unmarked_ops():
            result.skipped.append(("the graph", TOO_OLD))
            return result
        candidates, reasons = _judge(view)
        made, too_small = 0, 0
        for cluster in clusters(view.index(), candidates):
            # Marked by the user's own jit_scope, or by an earlier run.
            if any(is_marked_for_compilation(op) for op in cluster):
                continue
            if sum(op.type not in FREE for op in cluster) < MIN_OPS:
                too_small += len(cluster)
                continue
            scope = _SCOPE.format(cluster[0].name)
            constants = private_constants(cluster)
            for op in [*cluster, *constants]:
                view.mark_for_compilation(op, scope)
            count, kinds = describe(cluster)
            result.changes.append(f"cluster {scope}: {count} ops ({kinds}, …), {len(constants)} constants compiled in")
            made += 1
        result.modified = made > 0
        if made:
            result.changes.append(
                f"{made} cluster(s) of static shapes: {made} compilation(s) for each set of fetches that needs them, "
                "whatever sizes the batches have"
            )
        result.skipped += _told(reasons)
        if too_small:
            result.skipped.append((f"{too_small} ops", f"in groups of fewer than {MIN_OPS} ops that compute"))
        return result

    def ensures(self, view: GraphView) -> None:
        """Marks ask TensorFlow for a favour; nothing in the graph must or must not be there after."""


def _judge(view: GraphView) -> Tuple[Set[tf.Operation], Dict[str, List[tf.Operation]]]:
    """The ops that may be compiled; for the others of a kind that XLA takes, reason -> ops."""
    index, initial = view.index(), view.upstream_of_initializers()
    candidates: Set[tf.Operation] = set()
    reasons: Dict[str, List[tf.Operation]] = {}
    for op in view.ops(*COMPILED):
        if index.number[op] in initial:
            continue
        if _compat.in_control_flow(op):
            reason = "inside a tf.cond or a tf.while_loop"
        else:
            reason = refusal(op, on_cpu=view.runs_on_cpu(op))
        if reason is None:
            candidates.add(op)
        elif not (is_marked_for_compilation(op) or view.is_superseded(op)):  # Those xla_padding has made or replaced.
            reasons.setdefault(_UNKNOWN if reason.startswith(_UNKNOWN) else reason.split("'")[0], []).append(op)
    return candidates, reasons


def _told(reasons: Dict[str, List[tf.Operation]]) -> List[Tuple[str, str]]:
    """One line for each reason: a graph of thousands of ops has thousands of ops of unknown shape."""
    told = []
    for reason, ops in reasons.items():
        node = ops[0].name + (f" and {len(ops) - 1} more" if len(ops) > 1 else "")
        if reason == _UNKNOWN:
            text = refusal(ops[0]) + "; dataset.batch(size, drop_remainder=True) makes that of the batch known"
        else:
            text = refusal(ops[0]) or reason
        told.append((node, text))
    return told
