"""Evaluations within a training share the values of its Variables, in place of reading a copy from the checkpoint.

What is lent are the values as they were saved: who updates a Variable while somebody else has its value copies it first. So that nobody has to, it is
given back before the next step. An evaluation borrows all that its Saver restores, or nothing.
Exports restore: they need no op of tf_booster where they are served.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.checkpoint import lending, savers, table_saves
from tf_booster.passes import graph_view

_LENDER, _BORROWS = "_tf_booster_lender", "_tf_booster_borrows"

Entry = Tuple[str, str]  # Name and slice in a checkpoint.

_GATHERS = (
    "ResourceGather",
    "ResourceGatherNd",
    "TfBoosterMultiGather",
    "TfBoosterPartitionedGather",
    "TfBoosterPoolVariables",
)
# What only reads, or gives the Variable a value of its own.
_HARMLESS = (
    "ReadVariableOp",
    "VariableShape",
    "VarIsInitializedOp",
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
)


class _Lender(NamedTuple):
    """What lends the Variables of a Saver: an op, its name for it, and their handles."""

    op: tf.Operation
    name: str
    handles: Dict[Entry, tf.Operation]


class _Restored(NamedTuple):
    """What a Saver restores: tables, and for each Variable the ops that assign what is read."""

    tables: List[tf.Operation]
    assigns: Dict[Entry, List[tf.Operation]]


class _Borrows(NamedTuple):
    """In place of a Saver's restore. borrowed: of each Variable whether it was lent, when that is run; assigns: what reads it if it was not."""

    tables: List[tf.Operation]
    borrowed: List[tf.Tensor]
    assigns: List[List[tf.Operation]]

    def run(self, session: Any, feeds: Dict[str, str]) -> None:
        """Those that TensorFlow has placed on another device than the training's are read after all."""
        _, borrowed = session.run([self.tables, self.borrowed], feeds)
        left = [assign for lent, assigns in zip(borrowed, self.assigns) if not lent for assign in assigns]
        if left:
            session.run(left, feeds)


_listened: weakref.WeakSet = weakref.WeakSet()  # Graphs whose checkpoints somebody waits for.
_finished: weakref.WeakSet = weakref.WeakSet()  # Graphs in which no pass looks any more.
_lent: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> (checkpoint, who lends it).
_numbers = itertools.count(1)


def wrap_begin(original: Any) -> Any:
    """Wraps CheckpointSaverHook.begin."""

    @functools.wraps(original)
    def begin(self: Any) -> None:
        original(self)
        if _compat.has_listeners(self):
            _listened.add(tf.compat.v1.get_default_graph())

    return begin


class GiveBackHook(tf.compat.v1.train.SessionRunHook):
    """Gives back what a training has lent, before its next step and when all hooks have ended, which may evaluate what was saved after the last one."""

    def __init__(self) -> None:
        """In place of the base's, at which TensorFlow warns of `object.__init__` in the name of whoever made the hook."""

    def before_run(self, run_context: Any) -> None:
        """Not in CheckpointSaverHook.before_run, which programs override."""
        _give_back(run_context.session.graph)

    def end(self, session: Any) -> None:
        """Hooks end in their order, and this one is among the last."""
        _give_back(session.graph)


def rewritten(graph: tf.Graph) -> None:
    """Says that all passes have seen `graph`: Savers that are prepared from now on lend and borrow."""
    _finished.add(graph)


def prepare(saver: Any, graph: tf.Graph) -> None:
    """Adds to the graph of a training what lends the Variables of a built Saver, and to that of an evaluation what borrows them."""
    if graph not in _finished:
        return
    if graph in _listened and not hasattr(saver, _LENDER):
        handles = _saved_variables(saver, graph)
        name = f"training {next(_numbers)}"
        ops = _native.ops()
        with graph.as_default(), tf.control_dependencies(None):
            lends = [_beside(h, ops.tf_booster_lend_variable, name, entry) for entry, h in handles.items()]
            setattr(saver, _LENDER, _Lender(tf.group(*lends), name, handles))
        weakref.finalize(graph, _return, name).atexit = False  # Of a training that ended with an error.
    saved = lending.current()
    if saved is not None and not lending.is_for_export() and not hasattr(saver, _BORROWS):
        checkpoint, lender = _lent.get(saved.graph(), ("", None))
        setattr(saver, _BORROWS, _borrows(saver, graph, lender) if checkpoint == saved.prefix else None)


def lend(saver: Any, session: Any, checkpoint: str) -> None:
    """Lends what `saver` has just saved as `checkpoint`, while the session's training waits."""
    lender = getattr(saver, _LENDER, None)
    if lender is None or not lending.is_waiting(session.graph) or session.sess_str:
        return
    _give_back(session.graph)
    session.run(lender.op)
    _lent[session.graph] = (checkpoint, lender)


def _give_back(graph: tf.Graph) -> None:
    if graph in _lent:
        _, lender = _lent.pop(graph)
        _return(lender.name)


def _return(name: str) -> None:
    call = ctypes.CDLL(_native.shared_object()).tf_booster_return_variables  # The library that TensorFlow has loaded.
    call.argtypes, call.restype = [ctypes.c_char_p], None
    call(name.encode())


def wrap_restore(original: Any) -> Any:
    """Wraps Saver.restore."""

    @functools.wraps(original)
    def restore(self: Any, sess: Any, save_path: str) -> None:
        borrows, saved = getattr(self, _BORROWS, None), lending.current()
        lent = None if borrows is None or saved is None or sess.sess_str else _lent.get(saved.graph())
        if lent is not None and lent[0] == save_path:
            borrows.run(sess, {self.saver_def.filename_tensor_name: save_path})
            tf.compat.v1.logging.info("Parameters of %s are read where the training has them", save_path)
            return
        original(self, sess, save_path)

    return restore


def _saved_variables(saver: Any, graph: tf.Graph) -> Dict[Entry, tf.Operation]:
    found = {}
    for op in table_saves.save_ops(saver, graph):
        save = savers.SavedTensors(op)
        entries = zip(zip(save.names, save.slices), save.handles)
        found.update({entry: handle for entry, handle in entries if handle is not None})
    return found


def _borrows(saver: Any, graph: tf.Graph, lender: Optional[_Lender]) -> Optional[_Borrows]:
    """What borrows the Variables which the Saver restores; None where one is not known to the lender, or other things are restored."""
    restored = None if lender is None else _restored(graph.get_operation_by_name(saver.saver_def.restore_op_name))
    if lender is None or restored is None:
        return None
    made: List[tf.Tensor] = []
    with graph.as_default(), tf.control_dependencies(None):
        for entry, assigns in restored.assigns.items():
            handle, own = assigns[0].inputs[0].op, lender.handles.get(entry)
            alike = own is not None and all(own.get_attr(n) == handle.get_attr(n) for n in ("dtype", "shape"))
            if not alike or any(assign.inputs[0].op is not handle for assign in assigns):
                return None
            made.append(_borrow(handle, lender.name, entry))
    return _Borrows(restored.tables, made, list(restored.assigns.values()))


def _borrow(handle: tf.Operation, lender: str, entry: Entry) -> tf.Tensor:
    """A gather makes sure first that nobody shares the Variable, for the sake of what updates rows in place: by a copy. Here that is left to the
    updates, which an evaluation seldom has, and does not run."""
    users, dtype = handle.outputs[0].consumers(), handle.get_attr("dtype")
    gathered = any(op.type in _GATHERS for op in users)
    others = [op for op in users if op.type not in _GATHERS + _HARMLESS]
    if gathered and others:
        with tf.device(None), tf.device(handle.device):
            own = _native.ops().tf_booster_own_variable(handle.outputs[0], dtype=dtype)
        for op in others:
            graph_view.add_control_input(op, own)
    return _beside(handle, _native.ops().tf_booster_borrow_variable, lender, entry, dtype=dtype, gathered=gathered)


def _restored(op: tf.Operation) -> Optional[_Restored]:
    """Of a Saver's restore op; None if it does anything else."""
    found = _Restored([], {})
    todo, seen = [op], {op}
    while todo:
        op = todo.pop()
        before = list(op.control_inputs)
        if op.type == "TfBoosterTableRestore":
            found.tables.append(op)
            continue
        if op.type == "RestoreV2":
            for entry, output in zip(zip(*map(savers.strings, op.inputs[1:3])), op.outputs):
                assigns = savers.assigns_of(output)
                if output.consumers() and not assigns:
                    return None
                if assigns:
                    found.assigns.setdefault(entry, []).extend(assigns)
        elif op.type in ("AssignVariableOp", "Identity", "Reshape"):
            before += [tensor.op for tensor in op.inputs if tensor.op.type not in ("VarHandleOp", "Const")]
        elif op.type != "NoOp":
            return None
        todo += [other for other in dict.fromkeys(before) if other not in seen]
        seen.update(before)
    return found


def _beside(handle: tf.Operation, make: Any, lender: str, entry: Entry, **attributes: Any) -> Any:
    name, part = entry
    with tf.device(None), tf.device(handle.device):
        return make(handle.outputs[0], lender=lender, variable_name=f"{name} {part}".rstrip(), **attributes)
