"""The pass that keeps rows of queues in blocks.

`tf.compat.v1.estimator.inputs.numpy_input_fn` and `pandas_input_fn`, and `tf.compat.v1.train.batch` and `shuffle_batch`, hand rows over in a queue,
of which TensorFlow makes a tensor for each component of each row.
"""

from __future__ import annotations

from typing import Any, List

import tensorflow as tf

from tf_booster.passes import servers
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.dataset_functions import Refused
from tf_booster.passes.graph_view import GraphView

_SHUFFLE = "RandomShuffleQueueV2"
_QUEUES = ("FIFOQueueV2", _SHUFFLE)
_OWN = "TfBoosterRowQueue"
_BATCHES = ("QueueDequeueManyV2", "QueueDequeueUpToV2")
# Ops that ask a queue by its interface; others might want to know what it is.
_SERVED = (*_BATCHES, "QueueDequeueV2", "QueueEnqueueV2", "QueueEnqueueManyV2", "QueueCloseV2", "QueueSizeV2", "QueueIsClosedV2")  # fmt: skip
_COPIED = ("component_types", "shapes", "capacity")
_OF_SHUFFLES = ("min_after_dequeue", "seed", "seed2")


class InputQueues(Pass):
    """Puts a queue of rows in the place of a FIFOQueue or RandomShuffleQueue that batches are taken of."""

    name = "input_queues"
    seeks = "queues of rows of several tensors, as numpy_input_fn and pandas_input_fn have them"

    def requires(self, view: GraphView) -> bool:
        return bool(_queues(view))

    def run(self, view: GraphView) -> PassResult:
        result = PassResult(self.name)
        for op in _queues(view):
            try:
                _check(op)
            except Refused as refusal:
                result.skipped.append((op.name, str(refusal)))
                continue
            with view.inserting(op.device), tf.name_scope("tf_booster/input_queues/"):
                queue = _row_queue(view, op)
            view.stand_in(queue, [op])
            view.redirect(op.outputs[0], queue.outputs[0])
            # Who makes an op of the queue later makes it of `op`, which gives the same queue then.
            view.set_string(op, "shared_name", queue.get_attr("shared_name").decode())
            rows = f"{len(op.get_attr('component_types'))} tensors a row"
            result.changes.append(f"{op.name}: rows are kept in blocks ({rows})")
        result.modified = bool(result.changes)
        return result

    def ensures(self, view: GraphView) -> None:
        check_read(view, _OWN)


def _queues(view: GraphView) -> List[tf.Operation]:
    """The queues that batches are taken of, rows of more than one tensor: of one there is little to gain."""
    return [
        op
        for op in view.ops(*_QUEUES)
        if len(op.get_attr("component_types")) > 1 and any(r.type in _BATCHES for r in op.outputs[0].consumers())
    ]


def _check(op: tf.Operation) -> None:
    """Raises Refused for a queue that has to stay."""
    other = next((reader for reader in op.outputs[0].consumers() if reader.type not in _SERVED), None)
    if other is not None:
        raise Refused(f"{other.type} ('{other.name}') takes it")
    if op.get_attr("shared_name") or op.get_attr("container"):
        raise Refused("other graphs or processes may share it by its name")
    if servers.task_of(op) or servers.is_of_cluster():
        raise Refused("it may outlive its session in a process of a cluster")
    if not op.get_attr("shapes"):
        raise Refused("its rows have no shapes, and no batches can be made of them")
    for dtype in op.get_attr("component_types"):
        if dtype in (tf.variant, tf.resource):
            raise Refused(f"its rows hold {dtype.name}")


def _row_queue(view: GraphView, op: tf.Operation) -> tf.Operation:
    node: Any = tf.compat.v1.NodeDef(name="row_queue", op=_OWN)
    old = op.node_def
    for name in (*_COPIED, *(_OF_SHUFFLES if op.type == _SHUFFLE else ())):
        node.attr[name].CopyFrom(old.attr[name])
    node.attr["shuffle"].b = op.type == _SHUFFLE
    node.attr["shared_name"].s = op.name.encode()
    return view.add_nodes([node], [], [], "queue")[0]
