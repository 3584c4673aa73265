"""One table's part of the rewrite: its lookups, its update, and what else is done with its stand-in."""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

import tensorflow as tf

from tf_booster.embedding import registry
from tf_booster.embedding.table_spec import TableSpec
from tf_booster.passes.optimizer_matching import SparseUpdate
from tf_booster.passes.table_placement import IN_HOST_MEMORY, Placement
from tf_booster.passes.variable_uses import VariableUses

# What a program asks of a table that changes it.
_EDITS = tuple(f"TfBoosterTable{name}" for name in ("FindOrInsert", "InsertOrAssign", "Erase", "Clear"))


@dataclasses.dataclass(frozen=True)
class Lookup:
    """A gather on the stand-in by codes of `stand_in` (a StandInIds op)."""

    gather: tf.Operation
    stand_in: tf.Operation


@dataclasses.dataclass
class TablePlan:
    """One table's part of the rewrite.

    handle_op: VarHandleOp of the stand-in Variable; None for a table that nothing looks up.
    groups: the StandInIds ops whose ids are looked up in this table, those of the update first.
    update_sources: the StandInIds ops whose codes are among the update's indices.
    existing: the table, where an earlier rewrite of this graph has made it.
    placement: where it lives.
    """

    spec: TableSpec
    handle_op: Optional[tf.Operation]
    lookups: List[Lookup] = dataclasses.field(default_factory=list)
    groups: Tuple[tf.Operation, ...] = ()
    update: Optional[SparseUpdate] = None
    update_sources: Tuple[tf.Operation, ...] = ()
    uses: VariableUses = dataclasses.field(default_factory=VariableUses)
    handle_requests: List[tf.Operation] = dataclasses.field(default_factory=list)
    existing: Optional[registry.RewrittenTable] = None
    placement: Placement = IN_HOST_MEMORY

    @property
    def name(self) -> str:
        """The table's name in the graph and in checkpoints."""
        return self.spec.name

    @property
    def is_edited(self) -> bool:
        """Whether the program changes it otherwise than by training."""
        return any(op.type in _EDITS for request in self.handle_requests for op in request.outputs[0].consumers())
