"""Which other processes of a cluster have the library's ops: a parameter server that never imported tf_booster has none.

A graph with an op that one of its processes does not know cannot run at all, so nothing of the library is placed there unless
the process has said that it has the same ops. It is asked once a session, through the master that the session will have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional

import tensorflow as tf

from tf_booster import _native, log

_sessions = threading.local()
_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> {task: why not}.
_LOCAL = ("", "localhost")


@dataclasses.dataclass(frozen=True)
class Master:
    """What the session of the graph that is being finished will be made with."""

    target: str
    config: Optional[Any]


@contextlib.contextmanager
def session_of(master: Master) -> Iterator[None]:
    """Graphs that are rewritten inside, on this thread, will run in a session on `master`."""
    before = getattr(_sessions, "master", None)
    _sessions.master = master
    try:
        yield
    finally:
        _sessions.master = before


def is_of_cluster() -> bool:
    """Whether the graph that is being finished will run in a process that other sessions may use."""
    master = getattr(_sessions, "master", None)
    return master is not None and bool(master.target)


def task_of(op: tf.Operation) -> str:
    """The process that the device of `op` names, as '/job:ps/task:0'; "" for this one or whichever TensorFlow takes."""
    return _task_of(op.device or "")


@functools.lru_cache(maxsize=1024)
def _task_of(device: str) -> str:
    spec = tf.DeviceSpec.from_string(device)
    if (spec.job or "") in _LOCAL:
        return ""
    return tf.DeviceSpec(job=spec.job, replica=spec.replica or None, task=spec.task).to_string()


def why_not(op: tf.Operation) -> str:
    """Why no op of the library can be where `op` is: its process does not have them. "" if it can."""
    task = task_of(op)
    if not task:
        return ""
    known = _known.setdefault(op.graph, {})
    if task not in known:
        tasks = dict.fromkeys([task, *(task_of(other) for other in op.graph.get_operations())])
        known.update(_ask([task for task in tasks if task and task not in known]))
        for other, reason in known.items():
            if reason:
                log.once(f"what runs on {other} stays TensorFlow's: {reason}")
    return known[task]


def _ask(tasks: List[str]) -> Dict[str, str]:
    master = getattr(_sessions, "master", None)
    if master is None or not master.target:
        reason = (
            "nothing tells whether {} has tf_booster's ops; an Estimator, a MonitoredTrainingSession with its master and "
            "rewrite_graph(master=...) ask it"
        )
        return {task: reason.format(task) for task in tasks}
    ours = _fingerprints([""], Master("", None))[0]
    try:
        answers: Dict[str, Any] = dict(zip(tasks, _fingerprints(tasks, master)))
    except tf.errors.OpError as error:
        if len(tasks) > 1:  # One that lacks the op fails the session for all.
            return {task: reason for one in tasks for task, reason in _ask([one]).items()}
        answers = {tasks[0]: error}
    return {task: _reason(task, answer, ours) for task, answer in answers.items()}


def _reason(task: str, answer: Any, ours: int) -> str:
    if isinstance(answer, tf.errors.OpError):
        if "not registered" in answer.message:
            return f"the server {task} does not have tf_booster's ops, or older ones: import tf_booster and call tf.enable_gpu_booster() there"
        return f"the server {task} did not tell whether it has tf_booster's ops: {_first_line(answer.message)}"
    if answer != ours:
        return f"the server {task} has another version of tf_booster's ops: install this one there"
    return ""


def _fingerprints(tasks: List[str], master: Master) -> List[int]:
    fetches = []
    with tf.Graph().as_default() as graph:
        for task in tasks:
            with tf.device(task or None):
                fetches.append(_native.ops().tf_booster_ops_fingerprint())
        with tf.compat.v1.Session(master.target, graph=graph, config=master.config) as session:
            return [int(answer) for answer in session.run(fetches)]


def _first_line(message: str) -> str:
    return re.split(r"\n", message.strip(), maxsplit=1)[0]


def known_of(graph: tf.Graph) -> Dict[str, str]:
    """The processes that were asked for `graph`, and why nothing of the library can be there ("" if it can)."""
    return dict(_known.get(graph, {}))
