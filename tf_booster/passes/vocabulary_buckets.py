"""What vocabulary columns with num_oov_buckets, and tf.lookup.StaticVocabularyTable, make of what a static table has found:

SelectV2(NotEqual(ids, default), ids, AddV2(StringToHashBucketFast([AsString] keys), LookupTableSizeV2(table)))
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.matching import Bind, Op, match, same
from tf_booster.passes.sparse_source import hash_input

_HASH = "StringToHashBucketFast"
_PATTERN = Op(
    "SelectV2",
    Op("NotEqual", Bind("ids"), Bind("default")),
    Bind("ids"),
    Op("AddV2", Op(_HASH, Bind("text")), Op("LookupTableSizeV2", Bind("table"))),
)


def find_in_buckets(find: tf.Operation) -> Optional[Tuple[tf.Operation, ...]]:
    """The ops from a LookupTableFindV2 to the SelectV2, if nothing else reads what they compute; None: there are no buckets behind it."""
    select = next((op for op in find.outputs[0].consumers() if op.type == "SelectV2"), None)
    found = match(_PATTERN, select.outputs[0]) if select is not None else None
    if found is None:
        return None
    table, keys, default = find.inputs
    differs, _, placed = (tensor.op for tensor in select.inputs)
    hashed, size = (tensor.op for tensor in placed.inputs)
    inside = {find, differs, placed, hashed, size, found["text"].op} - {keys.op}
    if not (
        found["ids"] is find.outputs[0]
        and same(found["default"], default)
        and same(found["table"], table)
        and same(hash_input(hashed), keys)
        and all(reader in {*inside, select} for op in inside for reader in op.outputs[0].consumers())
    ):
        return None
    return (find, *sorted(inside - {find}, key=lambda op: op.name), select)


def buckets_of(ops: Sequence[tf.Operation]) -> int:
    """How many buckets those ops have; 0 for a LookupTableFindV2 alone."""
    return next((op.get_attr("num_buckets") for op in ops if op.type == _HASH), 0)
