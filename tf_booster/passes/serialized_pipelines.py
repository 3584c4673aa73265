"""Finds TFRecord files → records → batch among the ops of datasets, where nothing parses the records before, and says why a batch cannot
be replaced.

Whatever reads such a batch goes on as it did: a map that parses in a way of its own, or the graph behind the iterator.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence

import tensorflow as tf

from tf_booster.passes import file_readers, live_datasets, record_steps, string_batches
from tf_booster.passes.dataset_steps import ALL_BATCHES, BATCHES
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.inlined_functions import runs


@dataclasses.dataclass(frozen=True)
class SerializedPipeline:
    """Batches of records that TFRecordBatchDataset can make. options: OptionsDatasets among the steps, the one nearest to the files first."""

    end: tf.Operation
    batches: string_batches.BatchesOfFiles
    options: Sequence[tf.Operation]

    def describe(self) -> str:
        """What changes."""
        return f"{self.batches.describe()}; what reads its batches stays as it is"


def batches(view: GraphView) -> List[tf.Operation]:
    """The batches that something reads and that are made, by whatever steps, of what a function reads from files."""
    found = [op for op in view.ops(*BATCHES) if steps_before(op)[0].type in file_readers.TYPES]
    return [op for op in found if live_datasets.is_read(op)]


def is_of_records(batch: tf.Operation, functions: Dict[str, Any]) -> bool:
    """Whether TFRecordDataset reads those files."""
    return runs(steps_before(batch)[0], file_readers.READERS, functions)


def steps_before(batch: tf.Operation) -> List[tf.Operation]:
    """The datasets before `batch`, from what reads files on, or from what makes batches already, or is made of no dataset."""
    found = [batch.inputs[0].op]
    while found[0].type not in (*file_readers.TYPES, *ALL_BATCHES):
        sources = [tensor.op for tensor in found[0].inputs[:1] if live_datasets.is_dataset(tensor.op)]
        if not sources:
            break
        found[:0] = sources
    return found


def match(batch: tf.Operation, functions: Dict[str, Any]) -> SerializedPipeline:
    """The pipeline that ends in `batch`. Raises Refused."""
    live_datasets.check_above(batch)
    records = record_steps.records(batch, [], functions)
    made = string_batches.of_files(batch, records, records.steps, of_lines=False)
    return SerializedPipeline(batch, made, records.options)
