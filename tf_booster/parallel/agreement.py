"""What all ranks must have in common before they train: the graph, the options, the last step, the tables' seeds, the model_dir.

Ranks that build different graphs would hang in their first collective, or take each other's numbers. So each compares its graph with rank 0's
through the store, where nothing hangs, and ends with the difference.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
import zlib
from typing import Any, Dict, List, Mapping, Sequence

import tensorflow as tf

from tf_booster import log
from tf_booster.parallel import end_together, meetings, ranks, shared_graphs
from tf_booster.parallel.collectives import is_users_collective
from tf_booster.parallel.progress import collectives, mark_collectives
from tf_booster.parallel.store import store
from tf_booster.passes.graph_view import GraphView

_SHOWN = 10  # Lines of a difference.
_LATE_SECONDS = 300  # For ranks to come to the same place at the start; some read more before it than others.

_options: Dict[str, str] = {}


class RanksDiffer(RuntimeError):
    """Ranks have different graphs, options or model_dirs; the message has the difference."""


def note_options(options: Mapping[str, Any]) -> None:
    """The options of enable_gpu_booster, which all ranks must give alike, but for those of a process or a machine."""
    _options.clear()
    own = ("watchdog", "watchdog_abort", "table_directory")
    _options.update({name: repr(value) for name, value in options.items() if name not in own})


def agree(graph: tf.Graph) -> None:
    """Compares a shared, rewritten graph with rank 0's, takes over the seeds of rank 0's tables, and marks collectives for the watchdog.

    A graph without tables, in which the library has ranks meet nowhere, is not compared: one rank may have it alone.

    Raises:
      RanksDiffer: rank 0 has another number of tables, features or Variables, other collectives, or other options.
    """
    place = shared_graphs.place(graph)
    if place.size == 1:
        return
    view = GraphView(graph)
    handles = view.ops("TfBoosterHashTable")
    meets = bool(handles) or not all(map(is_users_collective, collectives(graph)))
    mark_collectives(view)
    if not meets:
        shared_graphs.note_apart(graph)
        return
    key = meetings.next_of("graph")
    lines = describe(graph)
    if place.rank == 0:
        seeds = {op.name: list(op.get_attr("seeds")) for op in handles}
        store().put(key, {"seeds": seeds, "lines": _packed(lines)})
        return
    found = store().wait(key, "rank 0 to finish its graph")
    difference = differences(_unpacked(found["lines"]), lines, place.rank)
    if difference:
        raise RanksDiffer(difference)
    for op in handles:
        view.set_ints(op, "seeds", found["seeds"][op.name])


def describe(graph: tf.Graph) -> List[str]:
    """What must be the same on all ranks, a line each: options, tables, the last step, trainable Variables, collectives in their order."""
    lines = [f"option {name}={value}" for name, value in sorted(_options.items())]
    for op in graph.get_operations():
        if op.type == "TfBoosterHashTable":
            names = ", ".join(map(tf.compat.as_str, op.get_attr("field_names")))
            lines.append(
                f"table {names}: dim {op.get_attr('dim')}, optimizer '{tf.compat.as_str(op.get_attr('optimizer'))}'"
            )
    lines += [f"end: {said}" for said in sorted(end_together.ends_by_steps(graph))]
    variables = graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
    lines += sorted(f"Variable {v.op.name}: {v.dtype.base_dtype.name} {v.shape}" for v in variables)
    for i, op in enumerate(collectives(graph)):
        tensor = op.inputs[0]
        lines.append(f"collective {i}: {op.name} ({op.type}) of {tensor.dtype.base_dtype.name} {tensor.shape}")
    return lines


def differences(of_rank_0: Sequence[str], own: Sequence[str], rank: int) -> str:
    """An error's text about two descriptions; empty if they are equal."""
    if list(of_rank_0) == list(own):
        return ""
    text = [
        f"rank {rank} has built another graph than rank 0; all ranks must run the same program with the same options."
    ]
    for whose, lines, others in ((0, of_rank_0, set(own)), (rank, own, set(of_rank_0))):
        only = [line for line in lines if line not in others]
        if only:
            more = f" … and {len(only) - _SHOWN} more" if len(only) > _SHOWN else ""
            text.append(f"Only rank {whose} has: {'; '.join(only[:_SHOWN])}{more}.")
    if len(text) == 1:
        text.append("They have the same tables and collectives, in another order.")
    return " ".join(text)


def check_folder(folder: str) -> None:
    """Checks that `folder`, a model_dir, is one and the same for all ranks: all of them see a file that rank 0 makes in it.

    Raises:
      RanksDiffer: on every rank, and names those that do not see it.
    """
    here = ranks.current()
    key = meetings.next_of("folder")
    if here.rank == 0:
        token = f"tf_booster_shared_{secrets.token_hex(8)}"
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(f"{folder}/{token}", "w") as file:
            file.write("Ranks look for this file to see that they share a model_dir.\n")
        store().put(key, {"token": token, "folder": folder})
        try:
            answers = {
                rank: store().wait(f"{key}-{rank}", f"rank {rank} to look into its model_dir", _LATE_SECONDS)
                for rank in range(1, here.size)
            }
        finally:
            tf.io.gfile.remove(f"{folder}/{token}")
        blind = {rank: answer["folder"] for rank, answer in answers.items() if not answer["seen"]}
        store().put(f"{key}-end", {str(rank): where for rank, where in blind.items()})
    else:
        asked = store().wait(key, "rank 0 to open its model_dir", _LATE_SECONDS)
        store().put(f"{key}-{here.rank}", {"seen": _comes(f"{folder}/{asked['token']}"), "folder": folder})
        blind = store().wait(f"{key}-end", "rank 0 to compare model_dirs", 2 * _LATE_SECONDS)
        folder = asked["folder"]
    if blind:
        who = ", ".join(f"rank {rank} ('{where}')" for rank, where in blind.items())
        raise RanksDiffer(
            f"rank 0's model_dir '{folder}' is not that of {who}: a file that rank 0 made in it is not seen there. Tables are saved by all "
            "ranks; give all of them one model_dir, on a file system that all hosts share."
        )
    log.info_once(f"all {here.size} ranks see rank 0's '{folder}'")


def _comes(path: str, seconds: float = 10) -> bool:
    """Whether the file is there, or comes in a while: network file systems remember for some seconds what was not there."""
    end = time.monotonic() + seconds
    while not tf.io.gfile.exists(path):
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def _packed(lines: Sequence[str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(list(lines)).encode())).decode()


def _unpacked(text: str) -> List[str]:
    return json.loads(zlib.decompress(base64.b64decode(text)))
