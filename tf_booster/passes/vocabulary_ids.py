"""The pass that makes one op of all lookups in static tables (vocabulary columns, tf.lookup.StaticHashTable), which remembers what it has found.

It also puts what a vocabulary has not into buckets, where num_oov_buckets asks for some.
"""

from __future__ import annotations

from typing import Hashable, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.one_for_many import OneForMany
from tf_booster.passes.vocabulary_buckets import buckets_of, find_in_buckets


class VocabularyIds(OneForMany):
    """Merges lookups of ids in tables that do not change once they are initialized; the same ids."""

    name = "vocabulary_ids"
    seeks = "lookups in vocabularies (vocabulary columns, static lookup tables)"
    op_type, fused_type = "LookupTableFindV2", "TfBoosterVocabularyIds"
    does = "ids of {} from vocabularies"

    def key_of(self, view: GraphView, op: tf.Operation) -> Optional[Hashable]:
        """Leaves tables that programs insert into, other values than int64, control flow, and other devices than a CPU."""
        table, keys, default = op.inputs
        made_by = skip_identity(table).op
        known = made_by.type == "HashTableV2" and made_by.get_attr("value_dtype") == tf.int64
        if not known or keys.dtype not in (tf.int64, tf.string) or default.shape.rank != 0:
            return None
        return (keys.dtype, op.device) if view.is_plain_on_cpu(op) else None

    def whole(self, op: tf.Operation) -> Tuple[tf.Operation, ...]:
        """With what makes buckets of it."""
        return find_in_buckets(op) or (op,)

    def make(self, wholes: Sequence[Tuple[tf.Operation, ...]]) -> Sequence[tf.Tensor]:
        """The ids of all."""
        tables, keys, defaults = zip(*(find.inputs for find, *_ in wholes))
        buckets = [buckets_of(ops) for ops in wholes]
        return _native.ops().tf_booster_vocabulary_ids(
            tables=tables, keys=keys, default_ids=defaults, buckets=buckets, name="tf_booster/vocabulary_ids"
        )
