"""Judges what else is done with a table's stand-in Variable, beside lookups and updates.

Initializing, saving and being asked for readiness go with the Variable. A read that only feeds summaries (the canned Linear
models tell the fraction of zero weights) is answered with NaN: the honest value of "the whole table as one dense tensor".
Everything else needs the whole table as a tensor, or writes it, and is refused.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, List

import tensorflow as tf

from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView, is_superseded
from tf_booster.passes.matching import skip_identity

_CALLS = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall",
          "Switch", "RefSwitch", "Enter", "RefEnter", "SymbolicGradient", "RemoteCall", "MapDefun")  # fmt: skip

# Ends of reads that are not computations: saving, and reads that nothing uses (every Variable has one).
_IDLE = ("Identity", "ReadVariableOp", "SaveV2", "SaveSlices", "Save")

# Questions whether the Variable is ready, and a hint that Savers give before they read.
_WITHOUT_A_RESULT = ("VarIsInitializedOp", "DisableCopyOnRead")


@dataclasses.dataclass(frozen=True)
class SummaryInput:
    """Input `index` of the summary op `op` is computed from the whole table."""

    op: tf.Operation
    index: int


@dataclasses.dataclass
class VariableUses:
    """What the rewrite does with them: `initializers` fill the table from a checkpoint where init_from_checkpoint asked for
    it, `shapes` become a constant, `summary_inputs` NaN."""

    initializers: List[tf.Operation] = dataclasses.field(default_factory=list)
    shapes: List[tf.Operation] = dataclasses.field(default_factory=list)
    summary_inputs: List[SummaryInput] = dataclasses.field(default_factory=list)


def variable_uses(table: str, handle_op: tf.Operation, known: AbstractSet[tf.Operation]) -> VariableUses:
    """Sorts the consumers of the stand-in `handle_op` that are not in `known`, the lookups and updates.

    Raises RewriteError for a use that a table cannot serve, naming the op and the remedy.
    """
    uses = VariableUses()
    # Reads first: a moving average is a read and a tf.cond, and the read says better what is wrong.
    for op in sorted(dict.fromkeys(handle_op.outputs[0].consumers()), key=lambda op: op.type != "ReadVariableOp"):
        if op in known or op.type in _WITHOUT_A_RESULT:
            continue
        if op.type == "VariableShape":
            uses.shapes.append(op)
        elif op.type == "AssignVariableOp":
            _judge_assign(table, handle_op, op, uses.initializers)
        elif op.type == "ReadVariableOp":
            ends = follow(op, uses.summary_inputs)
            if ends:
                raise RewriteError(
                    f"Table '{table}': op '{op.name}' reads the whole table as one tensor, for op '{ends[0].name}' "
                    f"({ends[0].type}); a table has no fixed rows. Regularise, average or print the looked-up embeddings "
                    "instead, or use t.export()."
                )
        elif not (op.type in ("If", "StatelessIf", "Switch") and not follow(op, uses.summary_inputs)):
            raise _refusal(table, op)
    uses.summary_inputs[:] = dict.fromkeys(uses.summary_inputs)
    return uses


def is_call(op: tf.Operation) -> bool:
    """Whether `op` takes its inputs into a branch, a loop body or a function."""
    return op.type in _CALLS


def _judge_assign(table: str, handle_op: tf.Operation, op: tf.Operation, initializers: List[tf.Operation]) -> None:
    if op.name == f"{handle_op.name}/Assign":
        initializers.append(op)
    elif not _is_restored(op.inputs[1]):
        raise RewriteError(
            f"Table '{table}': op '{op.name}' assigns to the whole table, which has no fixed rows to assign to; "
            "take the assign out, or set rows by key with the table's insert_or_assign."
        )


def _is_restored(tensor: tf.Tensor) -> bool:
    """Whether a Saver read it from a checkpoint; with reshape=True it is reshaped before the assign."""
    op = skip_identity(tensor).op
    return (skip_identity(op.inputs[0]).op if op.type == "Reshape" else op).type == "RestoreV2"


def follow(start: tf.Operation, summary_inputs: List[SummaryInput]) -> List[tf.Operation]:
    """Notes the summaries that follow from `start`, and returns the other ops at which what follows ends."""
    ends, seen, work = [], {start}, [start]
    while work:
        op = work.pop()
        followers = [(c, i) for t in op.outputs for c in t.consumers() for i, x in enumerate(c.inputs) if x is t]
        followers += [(c, None) for c in GraphView.control_outputs(op)]
        followers = [(c, i) for c, i in followers if not is_superseded(c)]
        if not followers and op.type not in _IDLE:
            ends.append(op)
        for follower, index in followers:
            is_value = index is not None and follower.inputs[index].dtype.is_floating
            if "Summary" in follower.type and (index is None or is_value):
                summary_inputs.extend([SummaryInput(follower, index)] if is_value else [])
            elif follower not in seen:
                seen.add(follower)
                work.append(follower)
    return ends


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
