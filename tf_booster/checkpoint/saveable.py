"""A hash table as an entry of TensorFlow's Saver.

Every Saver that is built from the graph's collections contains what stands in SAVEABLE_OBJECTS, Estimator's own, deferred
and sharded one too. It saves the tensors that an object lists, and to restore reads all of them with one RestoreV2, then
hands them to `SaveableObject.restore`. That does not do for a table: a checkpoint that was written under another optimizer has no
tensors for this one's slots, and n rows need not pass through the graph. So TableRestore reads the checkpoint by itself,
and the RestoreV2 is told to read something small in place of the table.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, Dict, List, Optional, Sequence

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.checkpoint import layout
from tf_booster.parallel import shared_graphs
from tf_booster.passes import graph_view

_READ_DTYPE = tf.int64  # The seed's.
_saveables: weakref.WeakSet = weakref.WeakSet()  # All there are.
_reads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # RestoreV2 -> the names that it has been told to read.


class TableSaveable(_compat.SaveableObject):
    """The whole of one table: keys, values, slots, frequencies, last-use steps, pending counts, step, seed.

    Args:
      table: the rewritten table; its `handle` is the output of a TfBoosterHashTable or TfBoosterTableField op.
      checkpoint_name: what the names in the checkpoint begin with; the table's name by default.
      exported: what is saved, where one TableExport serves several tables; None makes one of this table alone.
    """

    def __init__(self, table: Any, checkpoint_name: Optional[str] = None, exported: Optional[layout.Exported] = None):
        handle = table.handle
        self.checkpoint_name = checkpoint_name or layout.table_name(handle)
        # What a Saver does with each tensor on the way in. RestoreV2 is asked for the dtypes that the specs tell, so each
        # spec tells the dtype of what is read in its place: the seed's, int64.
        specs = [
            _compat.SaveSpec(lambda tensor=tensor: tensor, "", name, dtype=_READ_DTYPE, device=handle.device)
            for name, tensor in layout.named_tensors(self.checkpoint_name, handle, exported or _export(handle))
        ]
        # The name of an op of the graph: MetaGraphs keep the collection as names, and read it back as ops.
        super().__init__(handle, specs, handle.op.name)
        _saveables.add(self)

    @property
    def handle(self) -> tf.Tensor:
        """The table's resource."""
        return self.op

    def restore(self, restored_tensors: Sequence[tf.Tensor], restored_shapes: Optional[list]) -> tf.Operation:
        """The op that restores the table; called by the Saver with the outputs of its RestoreV2, which are not used.

        Raises:
          ValueError: the Saver writes the V1 format, or reads with another op than RestoreV2, which gives no checkpoint's name.
        """
        del restored_shapes  # A table takes as many rows as there are.
        for op in self.specs[0].tensor.consumers():
            if op.type in ("Save", "SaveSlices"):
                raise ValueError(
                    f"TableSaveable '{self.checkpoint_name}': op '{op.name}' ({op.type}) writes the V1 format, wanted V2; leave "
                    "`write_version` of tf.compat.v1.train.Saver at its default"
                )
        readers = list(dict.fromkeys(tensor.op for tensor in restored_tensors))
        for reader in readers:
            if reader.type != "RestoreV2":
                raise ValueError(
                    f"TableSaveable '{self.checkpoint_name}': the Saver restores with op '{reader.name}' ({reader.type}), "
                    "wanted RestoreV2; leave `builder` of tf.compat.v1.train.Saver at its default"
                )
        restored = restore_op(self.handle, readers[0].inputs[0], self.checkpoint_name)
        for reader in readers:
            self._read_little(reader, [tensor.value_index for tensor in restored_tensors if tensor.op is reader])
            # The table first: its errors name what is wrong, and nothing is assigned before they are raised.
            graph_view.add_control_input(reader, restored)
        return restored

    @property
    def _little(self) -> str:
        return layout.seed_name(self.checkpoint_name)

    def _read_little(self, reader: tf.Operation, own: Sequence[int]) -> None:
        """Tells the reader, whose outputs `own` are this table's, to read something small in place of them.

        In place of other tables' too, if it reads any: were it told once a table, the graph would grow with the square of their number,
        as it has a constant for each time.
        """
        if reader not in _reads:
            _reads[reader] = [tf.compat.as_str(name) for name in tf.get_static_value(reader.inputs[1])]
        names = _reads[reader]
        if all(names[i] == self._little for i in own):
            return
        _replace_whole_tables(names, reader)
        for i in own:
            names[i] = self._little
        # Not on the table's device, which may be a card: those have no strings.
        with tf.device(None), tf.device(reader.inputs[1].device):
            graph_view.update_input(reader, 1, tf.constant(names, name="tensor_names"))


def _replace_whole_tables(names: List[str], reader: tf.Operation) -> None:
    """Replaces, in what the reader reads, the tensors of every table: all that it lists, in its order, read as this module's specs
    tell, which other things of these names would not be."""
    dtypes = reader.get_attr("dtypes")
    starts: Dict[str, int] = {name: i for i, name in enumerate(names)}
    for saveable in _saveables:
        listed = [spec.name for spec in saveable.specs]
        start = starts.get(listed[0])
        if saveable.handle.graph is not reader.graph or start is None:
            continue
        whole = slice(start, start + len(listed))
        if names[whole] == listed and set(dtypes[whole]) == {_READ_DTYPE}:
            names[whole] = [saveable._little] * len(listed)  # pylint: disable=protected-access


def restore_op(handle: tf.Tensor, prefix: tf.Tensor, checkpoint_name: str, name: Optional[str] = None) -> tf.Operation:
    """An op that replaces the table by the one under `checkpoint_name` in the V2 checkpoint `prefix` (string scalar).

    In a graph that several ranks share, by the part of it that this rank owns.
    """
    part = dataclasses.asdict(shared_graphs.place(handle.graph))
    with handle.graph.as_default(), tf.device(None), tf.device(handle.device):
        return _native.ops().tf_booster_table_restore(
            handle, prefix, checkpoint_names=[checkpoint_name], **part, name=name
        )


def export_fields(resource: tf.Tensor, fields: Sequence[int]) -> List[layout.Exported]:
    """One picture of these fields of a fused table, table by table; `resource` is the output of a TfBoosterHashTable op."""
    return _export_tables(resource, list(fields))


def _export(handle: tf.Tensor) -> layout.Exported:
    return _export_tables(handle, [])[0]


def _export_tables(handle: tf.Tensor, fields: List[int]) -> List[layout.Exported]:
    tables = len(fields) or 1
    with handle.graph.as_default(), tf.control_dependencies(None), tf.device(None), tf.device(handle.device):
        exported = _native.ops().tf_booster_table_export(
            handle,
            N=tables,
            S=tables * len(layout.slot_names(handle)),
            dim=layout.dim(handle),
            fields=fields,
            name=f"{handle.op.name}_export",
        )
    return layout.tables_of(exported)
