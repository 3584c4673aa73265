"""Counts, for the watchdog, the collectives that a graph runs: marks around each, and what this process has counted."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.parallel.collectives import HOST_TYPES
from tf_booster.passes.dataset_functions import rename
from tf_booster.passes.graph_view import GraphView, update_input

_TYPES = (
    "HorovodAllreduce",
    "HorovodAllgather",
    "HorovodAlltoall",
    "HorovodBroadcast",
    "HorovodGroupedAllgather",
    "HorovodGroupedAllreduce",
    "HorovodGroupedReducescatter",
    "HorovodReducescatter",
    *HOST_TYPES,
)

_MARK = "TfBoosterCollectiveMark"

tf.no_gradient(_MARK)


def collectives(graph: tf.Graph) -> List[tf.Operation]:
    """All collectives of all ranks in the graph, tf_booster's and the program's own, in the order in which they were made."""
    return [op for op in graph.get_operations() if op.type in _TYPES and not _is_of_some(op)]


def _is_of_some(op: tf.Operation) -> bool:
    """Whether the program has it made by the ranks of a process set: the others may not have it, and nobody waits for them."""
    return "process_set_id" in op.node_def.attr and op.get_attr("process_set_id") != 0


def mark_collectives(view: GraphView) -> int:
    """Puts marks around all collectives that have none; returns around how many."""
    marked = 0
    for op in collectives(view.graph):
        if op.inputs[0].op.type == _MARK:
            continue
        with view.inserting(op.device):
            before = _mark(op.inputs[0], op.name, True)
            after = _mark(op.outputs[0], op.name, False)
        update_input(op, 0, before)
        view.redirect(op.outputs[0], after)
        marked += 1
    return marked


def _mark(tensor: tf.Tensor, collective: str, entering: bool) -> tf.Tensor:
    name = f"tf_booster/marks/{collective}/{'enter' if entering else 'leave'}"
    return _native.ops().tf_booster_collective_mark(tensor, collective=collective, entering=entering, name=name)


def mark_in_function(definition: Any, node: Any, collective: str) -> None:
    """Puts marks around a collective in a FunctionDef, unless it is of a process set."""
    output = _compat.first_output_of_type(node.op, "T")
    if node.op not in _TYPES or output is None or node.attr["process_set_id"].i != 0:
        return
    given, before, after = f"{node.name}:{output}:0", f"{node.name}_enter", f"{node.name}_leave"
    rename(definition, {given: f"{after}:y:0"})
    for name, tensor, entering in ((before, node.input[0], True), (after, given, False)):
        mark = definition.node_def.add(name=name, op=_MARK, input=[tensor], device=node.device)
        mark.attr["T"].type = node.attr["T"].type
        mark.attr["collective"].s = collective.encode()
        mark.attr["entering"].b = entering
    node.input[0] = f"{before}:y:0"


def counts() -> Dict[str, Tuple[int, int]]:
    """Collective -> how often this process has entered and left it. Needs no session, and may be called from any thread."""
    library = ctypes.CDLL(_native.shared_object())
    read = library.tf_booster_collective_progress
    read.restype, read.argtypes = ctypes.c_int64, [ctypes.c_char_p, ctypes.c_int64]
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        wanted = read(buffer, size)
        if wanted <= size:
            break
        size = wanted
    found = {}
    for line in buffer.raw[:wanted].decode().splitlines():
        entered, left, name = line.split(" ", 2)
        found[name] = (int(entered), int(left))
    return found
