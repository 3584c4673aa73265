"""Saver.save of graphs with tables, and on several ranks: every rank writes the rows that it owns, rank 0 the Variables too, and one
checkpoint comes of it.

What a Saver saves is in its ops, so it gets others beside them, of the tables alone (table_saves.py). Ranks meet in the store, not in
collectives: a rank that cannot write tells the others why, instead of leaving them in a collective.
"""

from __future__ import annotations

import functools
import os
import secrets
import weakref
from typing import Any, Dict, List, Optional

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.checkpoint import lending, lent_variables, publishing, rank_0_saves, savers, table_saves
from tf_booster.parallel import meetings, own_folders, shared_graphs
from tf_booster.parallel.store import StoreError, store

_TABLE_SAVES = "_tf_booster_table_saves"
_FAILURE_SECONDS = 30
_built: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of its Savers.


def prepare(saver: Any, graph: tf.Graph) -> None:
    """Adds to a built Saver the ops that save its tables, and those that lend its Variables or borrow them; does nothing where it has none, yet,
    or no op can be added any more."""
    if saver.saver_def and not _compat.is_finalized(graph):
        if _tables_of(saver) is None:
            setattr(saver, _TABLE_SAVES, table_saves.make(saver, graph))
        lent_variables.prepare(saver, graph)


def set_tables(saver: Any, saves: table_saves.TableSaves) -> None:
    """What a Saver saves of tables, where it is not what its own ops save."""
    setattr(saver, _TABLE_SAVES, saves)


def _tables_of(saver: Any) -> Optional[table_saves.TableSaves]:
    return getattr(saver, _TABLE_SAVES, None)


def prepare_all(graph: tf.Graph) -> None:
    """Prepares the Savers of a graph that is about to be finalized: also those that hooks have made for themselves."""
    for saver in [*_built.get(graph, ()), *graph.get_collection(tf.compat.v1.GraphKeys.SAVERS)]:
        if isinstance(saver, tf.compat.v1.train.Saver):
            prepare(saver, graph)


def wrap_build(original: Any) -> Any:
    """Wraps Saver._build: a Saver that is built when its graph is rewritten already gets its tables and is prepared at once, others by the
    rewrite and prepare_all()."""

    @functools.wraps(original)
    def _build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not tf.executing_eagerly():
            graph = tf.compat.v1.get_default_graph()
            savers.rewrite_later_savers(graph)
            _built.setdefault(graph, weakref.WeakSet()).add(self)
            prepare(self, graph)

    return _build


def wrap_save(original: Any) -> Any:
    """Wraps Saver.save: tables are written piece by piece, and a checkpoint that is there already is replaced at once. Of a shared graph,
    all ranks must call it for the same path."""

    @functools.wraps(original)
    def save(self: Any, sess: Any, save_path: str, *args: Any, **kwargs: Any) -> Any:
        graph = getattr(sess, "graph", None)
        if graph is None or not self.saver_def or tf.executing_eagerly():
            return original(self, sess, save_path, *args, **kwargs)
        if self.saver_def.version == tf.compat.v1.train.SaverDef.V2:
            prepare(self, graph)
        writer = savers.own_writer(self, graph)
        if writer is not None:
            if _tables_of(self) is not None:
                raise ValueError(
                    f"Saver.save: op '{writer.name}' ({writer.type}) of the program's is given the checkpoint's name, by a Saver that has hash tables, which writes "
                    "to another place first; wanted: a Saver of its own for what that op writes"
                )
            return original(self, sess, save_path, *args, **kwargs)  # On all ranks, and in place.
        in_own = own_folders.has(save_path) and _tables_of(self) is None
        if in_own:
            _make_folder_of(save_path)
        if in_own or shared_graphs.place(graph).size == 1:
            if self.saver_def.version == tf.compat.v1.train.SaverDef.V2:
                saving = _compat.session_with_run(
                    sess, self.saver_def.save_tensor_name, functools.partial(_write_alone, self)
                )
                path = original(self, saving, save_path, *args, **kwargs)
                lent_variables.lend(self, sess, path)
                return path
            return original(self, sess, save_path, *args, **kwargs)
        job = _Save(self, graph)
        # By keywords: global_step, latest_filename and meta_graph_suffix may come by position.
        kwargs.update(zip(("global_step", "latest_filename", "meta_graph_suffix"), args))
        quiet = {"write_meta_graph": False, "write_state": False} if job.place.rank > 0 else {}
        session = _compat.session_with_run(sess, self.saver_def.save_tensor_name, job.write)
        try:
            path = original(self, session, save_path, **{**kwargs, **quiet})
        except BaseException as error:
            job.failed(error)
            raise
        if not job.finished():
            _make_folder_of(save_path)
            return original(self, sess, save_path, **kwargs)
        # Each rank has averages of its own batches, and the checkpoint has rank 0's.
        if job.place.rank == 0:
            lent_variables.lend(self, sess, path)
        else:
            _note_checkpoint(self, path)
        return path

    return save


def _note_checkpoint(saver: Any, path: str) -> None:
    """Has last_checkpoints of a Saver end with what rank 0 has saved; rank 0 also removes what is too old."""
    kept = [other for other in saver.last_checkpoints if other != path] + [path]
    saver.set_last_checkpoints(kept[-saver.saver_def.max_to_keep :])


def _write_alone(saver: Any, session: Any, prefix: str) -> bytes:
    """In place of the save of `prefix` by a process of its own: TensorFlow renames data files and rewrites an index in place."""
    tables = _tables_of(saver)
    if tables is None and not tf.io.gfile.exists(f"{prefix}.index"):
        _write_shards(saver, session, prefix, None)
        lending.note_save(session, prefix, [])
        return tf.compat.as_bytes(prefix)
    folder = publishing.make_folder(prefix, secrets.token_hex(4))
    try:
        shards = _write_shards(saver, session, publishing.shard_prefix(folder, 0), tables)
        publishing.at("shard written")
        publishing.publish(folder, shards, prefix)
        lending.note_save(session, prefix, shards)
    except tf.errors.OpError:
        if tf.io.gfile.exists(folder):  # A full disk gets its room back.
            tf.io.gfile.rmtree(folder)
        raise
    return tf.compat.as_bytes(prefix)


def _write_shards(saver: Any, session: Any, prefix: str, tables: Optional[table_saves.TableSaves]) -> List[str]:
    """Writes all that the Saver saves, and says where; `prefix` is that of the rest beside the tables."""
    file = {saver.saver_def.filename_tensor_name: prefix}
    if tables is None:
        session.run(saver.saver_def.save_tensor_name, file)
        return [prefix]
    session.run([saver.saver_def.save_tensor_name, *tables.ops], {**file, **tables.feeds, **tables.inputs})
    return [*tables.shards(prefix), prefix]  # Of a scalar the first one counts, and the last was fed.


class _Save:
    """One save of one rank. Keys in the store begin with its number, where there are tables."""

    def __init__(self, saver: Any, graph: tf.Graph):
        self._saver = saver
        self._folder = self._prefix = self._key = ""
        self._tables = _tables_of(saver)  # None: rank 0 saves for all.
        self._graph, self.place = graph, shared_graphs.place(graph)
        if self._tables is not None:
            self._key = meetings.next_of("save")

    def write(self, session: Any, prefix: str) -> bytes:
        """In place of the Saver's own save of `prefix`."""
        self._prefix = prefix
        if self._tables is None and self.place.rank > 0:
            return tf.compat.as_bytes(prefix)
        if self._tables is None:
            rank_0_saves.begin()
        if self._saver.saver_def.version != tf.compat.v1.train.SaverDef.V2:  # It is written in place.
            _write_shards(self._saver, session, prefix, None)
            return tf.compat.as_bytes(prefix)
        if self.place.rank == 0:
            self._folder = publishing.make_folder(prefix, secrets.token_hex(4))
            if self._tables is not None:
                store().put(f"{self._key}-begin", {"prefix": prefix, "folder": self._folder})
        else:
            self._join(prefix)
        publishing.at("begun")
        shard = publishing.shard_prefix(self._folder, self.place.rank)
        if self.place.rank > 0:
            assert self._tables is not None
            session.run(self._tables.ops, {self._saver.saver_def.filename_tensor_name: shard, **self._tables.inputs})
            publishing.at("shard written")
            store().put(f"{self._key}-{self.place.rank}", {"shard": shard})
            lending.note_save(session, prefix, self._tables.shards(shard))
            return tf.compat.as_bytes(prefix)
        shards = _write_shards(self._saver, session, shard, self._tables)
        publishing.at("shard written")
        lending.note_save(session, prefix, shards)
        for rank in range(1, self.place.size) if self._tables is not None else ():
            shards += self._shards_of(rank)
        publishing.publish(self._folder, shards, prefix)
        return tf.compat.as_bytes(prefix)

    def finished(self) -> bool:
        """This rank is done; rank 0 has written the state file too, and tells the others, who wait for it. Returns whether the checkpoint is there; False
        where rank 0 does not save it."""
        if self.place.rank == 0:
            self._tell({"prefix": os.path.abspath(self._prefix)})
            return True
        if self._tables is None:
            outcome = rank_0_saves.wait_for(self._prefix, shared_graphs.are_apart(self._graph))
        else:
            outcome = store().wait(f"{self._key}-end", "rank 0 to put the checkpoint in its place")
        self._raise_failure(outcome or {}, 0)
        return outcome is not None

    def _tell(self, outcome: Dict[str, Any]) -> None:
        if self._tables is None:
            rank_0_saves.tell(outcome)
        else:
            store().put(f"{self._key}-end", outcome)

    def failed(self, error: BaseException) -> None:
        """Tells the other ranks why this one could not save."""
        mine = {
            "error": log.brief(error),
            "rank": getattr(error, "failed_rank", self.place.rank),
            "prefix": self._prefix,
        }
        try:
            if self._tables is not None:
                for key in (str(self.place.rank), *(["begin"] if self.place.rank == 0 else [])):
                    store().put(f"{self._key}-{key}", mine)
            if self.place.rank == 0:
                self._tell(mine)
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

    def _shards_of(self, rank: int) -> List[str]:
        """The shards that another rank has written, as this one sees them."""
        found = store().wait(f"{self._key}-{rank}", f"rank {rank} to save its shard")
        self._raise_failure(found, rank)
        assert self._tables is not None
        shards = self._tables.shards(publishing.shard_prefix(self._folder, rank))
        if not all(tf.io.gfile.exists(f"{shard}.index") for shard in shards):
            raise RankSaveError(
                f"rank 0 does not see the shard that rank {rank} wrote to '{found['shard']}'; give all ranks one shared model_dir",
                0,
            )
        return shards

    @staticmethod
    def _raise_failure(found: Dict[str, Any], rank: int) -> None:
        if "error" in found:
            failed = found.get("rank", rank)
            raise RankSaveError(
                f"the checkpoint could not be saved, because rank {failed} failed: {found['error']}", failed
            )


def _make_folder_of(prefix: str) -> None:
    """The writer of events makes it where there is one; ranks above 0 have none."""
    tf.io.gfile.makedirs(os.path.dirname(prefix) or ".")


class RankSaveError(RuntimeError):
    """A checkpoint was not written because a rank failed; the one before it is whole. `failed_rank` says which."""

    def __init__(self, message: str, failed_rank: int):
        super().__init__(message)
        self.failed_rank = failed_rank
