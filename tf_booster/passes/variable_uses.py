"""Judges what else is done with a table's stand-in Variable, beside lookups and updates.

Initializing, saving and being asked for readiness go with the Variable. A read that only feeds summaries (the canned Linear
models tell the fraction of zero weights) is answered with NaN: the honest value of "the whole table as one dense tensor".
Everything else needs the whole table as a tensor, or writes it, and is refused.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Iterator, List

import tensorflow as tf

from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity

_CALLS = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall",
          "Switch", "RefSwitch", "Enter", "RefEnter", "SymbolicGradient", "RemoteCall", "MapDefun")  # fmt: skip


@dataclasses.dataclass
class VariableUses:
    """What the rewrite does with them: `readiness` becomes true, `shapes` a constant, `summary_reads` NaN."""

    initializers: List[tf.Operation] = dataclasses.field(default_factory=list)
    readiness: List[tf.Operation] = dataclasses.field(default_factory=list)
    shapes: List[tf.Operation] = dataclasses.field(default_factory=list)
    summary_reads: List[tf.Operation] = dataclasses.field(default_factory=list)


def variable_uses(table: str, handle_op: tf.Operation, known: AbstractSet[tf.Operation]) -> VariableUses:
    """Sorts the consumers of the stand-in `handle_op` that are not in `known`, the lookups and updates.

    Raises RewriteError for a use that a table cannot serve, naming the op and the remedy.
    """
    uses = VariableUses()
    for op in dict.fromkeys(handle_op.outputs[0].consumers()):
        if op in known:
            continue
        if op.type == "VarIsInitializedOp":
            uses.readiness.append(op)
        elif op.type == "VariableShape":
            uses.shapes.append(op)
        elif op.type == "AssignVariableOp":
            _judge_assign(table, handle_op, op, uses)
        elif op.type == "ReadVariableOp":
            _judge_read(table, op, uses)
        else:
            raise _refusal(table, op)
    return uses


def is_call(op: tf.Operation) -> bool:
    """Whether `op` takes its inputs into a branch, a loop body or a function."""
    return op.type in _CALLS


def _judge_assign(table: str, handle_op: tf.Operation, op: tf.Operation, uses: VariableUses) -> None:
    if op.name == f"{handle_op.name}/Assign":
        uses.initializers.append(op)
    elif skip_identity(op.inputs[1]).op.type != "RestoreV2":
        raise RewriteError(
            f"Table '{table}': op '{op.name}' assigns to the whole table, which has no fixed rows to assign to; "
            "take the assign out, or set rows by key with tf_booster's insert_or_assign."
        )


def _judge_read(table: str, op: tf.Operation, uses: VariableUses) -> None:
    ends = [end for end in _ends(op) if end.type not in ("Identity", "ReadVariableOp", "SaveV2", "SaveSlices", "Save")]
    if not ends:
        return
    for end in ends:
        if "Summary" not in end.type:
            raise RewriteError(
                f"Table '{table}': op '{op.name}' reads the whole table as one tensor, for op '{end.name}' ({end.type}); a table "
                "has no fixed rows. Regularise, average or print the looked-up embeddings instead, or use t.export()."
            )
    uses.summary_reads.append(op)


def _refusal(table: str, op: tf.Operation) -> RewriteError:
    if is_call(op):
        return RewriteError(
            f"Table '{table}': op '{op.name}' ({op.type}) takes the table into a tf.cond, a tf.while_loop or a tf.function; look "
            "ids up outside, and pass the embeddings in."
        )
    if op.type == "ResourceGather":
        return RewriteError(
            f"Table '{table}': op '{op.name}' gathers rows of the table's stand-in by ids that did not come through "
            "tf_booster; look them up with tf_booster.embedding_lookup or embedding_lookup_sparse."
        )
    return RewriteError(
        f"Table '{table}': op '{op.name}' ({op.type}) uses the table as a Variable in a way that a hash table cannot serve; use "
        "tf_booster.embedding_lookup, embedding_lookup_sparse or a feature column."
    )


def _ends(op: tf.Operation) -> Iterator[tf.Operation]:
    """The ops that follow from `op` and that nothing follows from."""
    for follower in GraphView.downstream([op]):
        if not any(output.consumers() for output in follower.outputs) and not GraphView.control_outputs(follower):
            yield follower
