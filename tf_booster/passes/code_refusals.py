"""What is wrong with an op that takes the codes of a lookup, in words that lead to a remedy."""

from __future__ import annotations

from typing import Iterable

import tensorflow as tf

from tf_booster.parallel import ranks
from tf_booster.passes.base import RewriteError
from tf_booster.passes.code_flow import CodeFlow, Use
from tf_booster.passes.variable_uses import is_call

# What tf.convert_to_tensor makes of tf.IndexedSlices: rows summed up at the places that the codes would name.
DENSIFIES = ("UnsortedSegmentSum", "ScatterNd")


def table_name_attr(op: tf.Operation) -> str:
    """The table that a stand-in op names."""
    return tf.compat.as_str(op.get_attr("table_name"))


def names_of(flow: CodeFlow, tensors: Iterable[tf.Tensor]) -> str:
    """The tables whose codes `tensors` hold, for a message."""
    sources = {op for tensor in tensors for op in flow.sources(tensor)}
    return "', '".join(sorted({table_name_attr(op) for op in sources}))


def refused_use(use: Use, flow: CodeFlow) -> RewriteError:
    """For an op that does something else with codes than to move them, gather by them or update by them."""
    op, tensor = use.op, use.op.inputs[use.index]
    start = f"Table '{names_of(flow, [tensor])}': op '{op.name}' ({op.type})"
    if is_call(op):
        return RewriteError(
            f"{start} takes the looked-up ids into a tf.cond, a tf.while_loop or a tf.function; look ids up outside, and pass the "
            "embeddings in."
        )
    if op.type in DENSIFIES:
        horovods = (
            " hvd.DistributedOptimizer does it by sparse_as_dense=True: leave it False, and backward_passes_per_step at 1, which wants it; the "
            "tables' exchange reduces their gradients."
            if ranks.has_horovod()
            else ""
        )
        return RewriteError(
            f"{start} turns the table's sparse gradient into a dense tensor, and a table has no fixed rows. Adding an l2_loss of "
            "the whole table does this: regularise the looked-up embeddings. So does tf.convert_to_tensor: keep tf.IndexedSlices, "
            f"as tf.clip_by_norm and tf.clip_by_global_norm do.{horovods}"
        )
    if not tf.compat.v1.resource_variables_enabled():
        return RewriteError(
            f"{start} takes the looked-up ids to what is probably a reference Variable, which cannot stand for a table; call "
            "tf.compat.v1.enable_resource_variables() at the start of the program (after disable_v2_behavior)."
        )
    columns = op.type in ("OneHot", "SparseReorder") or op.type.startswith("SparseCross")
    return RewriteError(
        f"{start} computes with looked-up ids, which before the rewrite only stand for them; compute with the ids before they go "
        "into the lookup or the column."
        + (" An indicator_column or crossed_column wants a categorical_column_with_hash_bucket." if columns else "")
    )


def inside_control_flow(table: str, op_name: str) -> RewriteError:
    """For a lookup that may run any number of times in a step."""
    return RewriteError(
        f"Table '{table}': the lookup '{op_name}' is inside a tf.cond, a tf.while_loop or a tf.function; look ids up outside, and pass "
        "the embeddings in."
    )
