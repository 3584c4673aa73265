"""The pass that makes one op of all lookups in static tables (vocabulary columns, tf.lookup.StaticHashTable), which remembers what it has found."""

from __future__ import annotations

from typing import List, Optional

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.merging import Unit, merge_groups

_MADE = "TfBoosterVocabularyIds"
_FIND = "LookupTableFindV2"


class VocabularyIds(Pass):
    """Merges lookups of ids in tables that do not change once they are initialized; the same ids."""

    name = "vocabulary_ids"
    seeks = "lookups in vocabularies (vocabulary columns, static lookup tables)"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is looked up."""
        return any(op.outputs[0].consumers() for op in view.ops(_FIND))

    def run(self, view: GraphView) -> PassResult:
        """Leaves tables that programs insert into, other values than int64, control flow, and other devices than a CPU."""
        result = PassResult(self.name)
        live = executed_ops(view)
        units = [unit for op in view.ops(_FIND) if op in live for unit in [_unit(view, op)] if unit is not None]
        groups, refused = merge_groups(view, units)
        result.skipped += [(unit.ops[0].name, reason) for unit, reason in refused]
        for group in groups:
            _merge(view, [unit.ops[0] for unit in group])
        if groups:
            count = sum(map(len, groups))
            features = f"{count} feature{'s' * (count > 1)}"
            result.changes.append(f"ids of {features} from vocabularies by {len(groups)} op{'s' * (len(groups) > 1)}")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _unit(view: GraphView, op: tf.Operation) -> Optional[Unit]:
    table, keys, default = op.inputs
    made_by = skip_identity(table).op
    known = made_by.type == "HashTableV2" and made_by.get_attr("value_dtype") == tf.int64
    if not known or keys.dtype not in (tf.int64, tf.string) or default.shape.rank != 0:
        return None
    if not op.outputs[0].consumers() or not view.is_plain_on_cpu(op):
        return None
    return Unit((op,), (keys.dtype, op.device))


def _merge(view: GraphView, ops: List[tf.Operation]) -> None:
    controls = list(dict.fromkeys(other for op in ops for other in op.control_inputs))
    with view.inserting(ops[0].device, controls):
        tables, keys, defaults = zip(*(op.inputs for op in ops))
        made = _native.ops().tf_booster_vocabulary_ids(
            tables=tables, keys=keys, default_ids=defaults, name="tf_booster/vocabulary_ids"
        )
    view.redirect_all([(op.outputs[0], new) for op, new in zip(ops, made)])
    view.redirect_control(ops, made[0].op)
    view.note_originals(made[0].op, ops)
    view.supersede(ops)
