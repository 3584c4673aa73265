"""Saver.save on several ranks: every rank writes the rows that it owns, rank 0 the Variables too, and one checkpoint comes of it.

What a Saver saves is in its ops, so a rank above 0 gets one more SaveV2 beside them, of the tables alone. Ranks meet in the store, not in
collectives: a rank that cannot write tells the others why, instead of leaving them in a collective.
"""

from __future__ import annotations

import functools
import secrets
import weakref
from typing import Any, Dict, List, Optional

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.checkpoint import publishing
from tf_booster.parallel import shared_graphs
from tf_booster.parallel.store import StoreError, store

_TABLE_SAVE = "_tf_booster_table_save"
_FAILURE_SECONDS = 30
_ALONE_SECONDS = 60
_counter: List[int] = [0]  # Saves so far, the same on all ranks.
_built: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of its Savers.


def prepare(saver: Any, graph: tf.Graph) -> None:
    """Adds to a built Saver of a shared graph the op that saves tables alone; does nothing where it is there, or there are none."""
    place = shared_graphs.place(graph)
    if place.size == 1 or not saver.saver_def or hasattr(saver, _TABLE_SAVE):
        return
    entries: Dict[str, tf.Tensor] = {}
    for op in _save_ops(saver, graph):
        for name, tensor in zip(tf.get_static_value(op.inputs[1]), list(op.inputs)[3:]):
            if tensor.op.type == "TfBoosterTableExport":
                entries[tf.compat.as_str(name)] = tensor
    save: Optional[tf.Operation] = None
    if entries:
        prefix = graph.get_tensor_by_name(saver.saver_def.filename_tensor_name)
        with graph.as_default(), tf.control_dependencies(None), tf.device("/CPU:0"):
            save = tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(entries),
                shape_and_slices=[""] * len(entries),
                tensors=list(entries.values()),
                name=f"{prefix.op.name}_save_tables",
            )
    setattr(saver, _TABLE_SAVE, save)


def prepare_all(graph: tf.Graph) -> None:
    """Prepares the Savers of a graph that is about to be finalized: also those that hooks have made for themselves."""
    for saver in [*_built.get(graph, ()), *graph.get_collection(tf.compat.v1.GraphKeys.SAVERS)]:
        if isinstance(saver, tf.compat.v1.train.Saver):
            prepare(saver, graph)


def wrap_build(original: Any) -> Any:
    """Wraps Saver._build: a Saver that is built when its graph is shared already is prepared at once, others by prepare_all()."""

    @functools.wraps(original)
    def _build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not tf.executing_eagerly():
            graph = tf.compat.v1.get_default_graph()
            _built.setdefault(graph, weakref.WeakSet()).add(self)
            prepare(self, graph)

    return _build


def wrap_save(original: Any) -> Any:
    """Wraps Saver.save: of a shared graph, all ranks must call it for the same path. In one process, a checkpoint that is there already
    is replaced at once."""

    @functools.wraps(original)
    def save(self: Any, sess: Any, save_path: str, *args: Any, **kwargs: Any) -> Any:
        graph = getattr(sess, "graph", None)
        if graph is None or not self.saver_def or tf.executing_eagerly():
            return original(self, sess, save_path, *args, **kwargs)
        if shared_graphs.place(graph).size == 1:
            if self.saver_def.version == tf.compat.v1.train.SaverDef.V2:
                sess = _compat.session_with_run(
                    sess, self.saver_def.save_tensor_name, functools.partial(_write_alone, self)
                )
            return original(self, sess, save_path, *args, **kwargs)
        prepare(self, graph)
        job = _Save(self, graph)
        if job.place.rank > 0:
            # By keywords: global_step, latest_filename and meta_graph_suffix may come by position.
            kwargs.update(zip(("global_step", "latest_filename", "meta_graph_suffix"), args), write_meta_graph=False)
            kwargs["write_state"] = False
            args = ()
        session = _compat.session_with_run(sess, self.saver_def.save_tensor_name, job.write)
        try:
            path = original(self, session, save_path, *args, **kwargs)
        except BaseException as error:
            job.failed(error)
            raise
        job.finished()
        return path

    return save


def _write_alone(saver: Any, session: Any, prefix: str) -> bytes:
    """In place of the save of `prefix` by a process of its own: TensorFlow renames data files and rewrites an index in place."""
    op, file = saver.saver_def.save_tensor_name, saver.saver_def.filename_tensor_name
    if not tf.io.gfile.exists(f"{prefix}.index"):
        return session.run(op, {file: prefix})
    folder = publishing.make_folder(prefix, secrets.token_hex(4))
    shard = publishing.shard_prefix(folder, 0)
    try:
        session.run(op, {file: shard})
        publishing.at("shard written")
        publishing.publish(folder, [shard], prefix)
    except tf.errors.OpError:
        if tf.io.gfile.exists(folder):  # A full disk gets its room back.
            tf.io.gfile.rmtree(folder)
        raise
    return tf.compat.as_bytes(prefix)


class _Save:
    """One save of one rank. Keys in the store begin with its number."""

    def __init__(self, saver: Any, graph: tf.Graph):
        _counter[0] += 1
        self._saver, self._key = saver, f"save-{_counter[0]}"
        self._folder = ""
        self._tables: Optional[tf.Operation] = getattr(saver, _TABLE_SAVE)  # None: only rank 0 has something to save.
        self.place = shared_graphs.place(graph)

    def write(self, session: Any, prefix: str) -> bytes:
        """In place of the Saver's own save of `prefix`."""
        if self._tables is None and self.place.rank > 0:
            return tf.compat.as_bytes(prefix)
        if self.place.rank == 0:
            self._folder = publishing.make_folder(prefix, secrets.token_hex(4))
            store().put(f"{self._key}-begin", {"prefix": prefix, "folder": self._folder})
        else:
            self._join(prefix)
        publishing.at("begun")
        shard = publishing.shard_prefix(self._folder, self.place.rank)
        op = self._saver.saver_def.save_tensor_name if self.place.rank == 0 else self._tables
        session.run(op, {self._saver.saver_def.filename_tensor_name: shard})
        publishing.at("shard written")
        if self.place.rank > 0:
            store().put(f"{self._key}-{self.place.rank}", {"shard": shard})
            return tf.compat.as_bytes(prefix)
        others = [self._shard_of(rank) for rank in range(1, self.place.size)] if self._tables is not None else []
        publishing.publish(self._folder, [shard, *others], prefix)
        return tf.compat.as_bytes(prefix)

    def finished(self) -> None:
        """This rank is done; rank 0 has written the state file too, and tells the others, who wait for it."""
        if self.place.rank == 0:
            store().put(f"{self._key}-end", {})
            return
        what = "rank 0 to put the checkpoint in its place"
        if self._tables is not None:
            self._raise_failure(store().wait(f"{self._key}-end", what), 0)
            return
        # Without tables a program may well save on rank 0 alone, or more often elsewhere.
        try:
            self._raise_failure(store().wait(f"{self._key}-end", what, _ALONE_SECONDS), 0)
        except StoreError as error:
            log.once(f"{error}; it goes on, since rank 0 alone writes checkpoints of graphs without tables")

    def failed(self, error: BaseException) -> None:
        """Tells the other ranks why this one could not save."""
        mine = {"error": _brief(error), "rank": getattr(error, "failed_rank", self.place.rank)}
        for key in [str(self.place.rank), *(["begin", "end"] if self.place.rank == 0 else [])]:
            try:
                store().put(f"{self._key}-{key}", mine)
            except RuntimeError:
                return  # Without a store the others learn of it by Horovod's end.
        if self.place.rank == 0 and self._folder:
            self._remove_folder()

    def _remove_folder(self) -> None:
        """A full disk gets its room back, once no rank writes any more; what remains goes at the next save."""
        try:
            for rank in range(1, self.place.size if self._tables is not None else 1):
                store().wait(f"{self._key}-{rank}", f"rank {rank} to end its save", _FAILURE_SECONDS)
            tf.io.gfile.rmtree(self._folder)
        except (StoreError, tf.errors.OpError):
            pass

    def _join(self, prefix: str) -> None:
        begun = store().wait(f"{self._key}-begin", f"rank 0 to save '{prefix}'")
        self._raise_failure(begun, 0)
        if begun["prefix"].rpartition("/")[2] != prefix.rpartition("/")[2]:
            raise RankSaveError(
                f"rank {self.place.rank} saves '{prefix}', but rank 0 '{begun['prefix']}'; let all ranks save alike", 0
            )
        self._folder = (
            f"{prefix.rpartition('/')[0]}/{begun['folder'].rpartition('/')[2]}" if "/" in prefix else begun["folder"]
        )
        if not tf.io.gfile.exists(self._folder):
            raise RankSaveError(
                f"rank {self.place.rank} does not see the folder '{self._folder}' that rank 0 made; give all ranks one shared model_dir",
                self.place.rank,
            )

    def _shard_of(self, rank: int) -> str:
        """The shard that another rank has written, as this one sees it."""
        found = store().wait(f"{self._key}-{rank}", f"rank {rank} to save its shard")
        self._raise_failure(found, rank)
        shard = publishing.shard_prefix(self._folder, rank)
        if not tf.io.gfile.exists(f"{shard}.index"):
            raise RankSaveError(
                f"rank 0 does not see the shard that rank {rank} wrote to '{found['shard']}'; give all ranks one shared model_dir",
                0,
            )
        return shard

    @staticmethod
    def _raise_failure(found: Dict[str, Any], rank: int) -> None:
        if "error" in found:
            failed = found.get("rank", rank)
            raise RankSaveError(
                f"the checkpoint could not be saved, because rank {failed} failed: {found['error']}", failed
            )


class RankSaveError(RuntimeError):
    """A checkpoint was not written because a rank failed; the one before it is whole. `failed_rank` says which."""

    def __init__(self, message: str, failed_rank: int):
        super().__init__(message)
        self.failed_rank = failed_rank


def _brief(error: BaseException) -> str:
    """One line: of a session's error the kernel's message, without the places in Python that TensorFlow puts around it."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines()]
    places = [i for i, line in enumerate(lines) if line.startswith("Node: '")]
    lines = lines[places[-1] + 1 :] if places else lines
    # Beside a card there may be two: of the op, and of who waited for its output.
    if lines and lines[0].endswith("root error(s) found."):
        del lines[0]
    return f"{type(error).__name__}: {''.join(lines[:1])}"


def _save_ops(saver: Any, graph: tf.Graph) -> List[tf.Operation]:
    """The SaveV2 ops that the Saver runs."""
    todo = [graph.get_tensor_by_name(saver.saver_def.save_tensor_name).op]
    seen, found = set(todo), []
    while todo:
        op = todo.pop()
        if op.type == "SaveV2":
            found.append(op)
            continue
        for before in [*op.control_inputs, *(tensor.op for tensor in op.inputs)]:
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return found
