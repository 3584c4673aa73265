"""Batches of strings that one op makes of files: of lines, or of TFRecords as they are."""

from __future__ import annotations

import dataclasses
from typing import Sequence

import tensorflow as tf

from tf_booster.data.record_batches import Batching, Reading, line_batches_op, serialized_batches_op
from tf_booster.passes import record_steps
from tf_booster.passes.dataset_functions import Refused
from tf_booster.passes.dataset_steps import FILTER, MAPS


@dataclasses.dataclass(frozen=True)
class BatchesOfFiles:
    """Batches of what is in files, strings of static shape `shape`."""

    files: tf.Tensor
    reading: Reading
    batching: Batching
    shape: tf.TensorShape
    of_lines: bool

    def describe(self) -> str:
        """The steps that become one op."""
        steps = ["files", *(stage.name for stage in self.reading.stages)]
        op = "TextLineBatchDataset" if self.of_lines else "TFRecordBatchDataset"
        return f"{', '.join(steps)} and batch are one op, {op}"

    def make(self) -> tf.Tensor:
        """The dataset as a variant, by a new op."""
        make_op = line_batches_op if self.of_lines else serialized_batches_op
        return make_op(self.files, self.reading, self.batching, self.shape)


def of_files(
    batch: tf.Operation, records: record_steps.Records, steps: Sequence[tf.Operation], of_lines: bool
) -> BatchesOfFiles:
    """What `batch` makes of `records` if `steps` are done to them before. Raises Refused for a map or a filter among these."""
    for op in steps:
        if op.type in (*MAPS, FILTER):
            does = "makes something else of" if op.type in MAPS else "chooses among"
            raise Refused(f"'{op.name}' {does} records one by one before they are batched; batch them first")
    stages = tuple(stage for op in steps for stage in record_steps.stages(op))
    reading = dataclasses.replace(records.reading, stages=stages)
    shape = tf.TensorShape(batch.get_attr("output_shapes")[0])[:1]
    return BatchesOfFiles(records.files, reading, record_steps.batching(batch), shape, of_lines)
