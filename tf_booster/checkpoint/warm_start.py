"""What a hash table begins with: nothing, or what tf.compat.v1.train.init_from_checkpoint and WarmStartSettings say.

TensorFlow replaces the initializers of Variables by reads of the checkpoint. For a table the request is kept in the graph until
the rewrite, which makes an op that restores the table and places it where initializers run: in the default init op of
Scaffold, in every op that waits on the stand-in's initializer, and in what global_variables_initializer makes after the rewrite.
A session that resumes from a checkpoint runs none of them.

What TensorFlow is asked for Variables that are no tables goes its way unchanged.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.checkpoint import layout
from tf_booster.checkpoint.saveable import restore_op
from tf_booster.embedding import registry
from tf_booster.passes.code_flow import CodeFlow
from tf_booster.passes.fetches import fetches_are_estimators
from tf_booster.passes.graph_view import GraphView, variable_handle_op
from tf_booster.passes.table_placement import HOST

_REQUESTS = ("tf_booster", "warm_starts")
_INITIALIZERS = ("tf_booster", "table_initializers")
_OP = "init_from_checkpoint"


class WarmStart(NamedTuple):
    """A table that is to start with what a checkpoint holds."""

    table: str
    prefix: str  # Of the checkpoint.
    checkpoint_name: str  # Of the table in it.


class _Table(NamedTuple):
    """A table of the graph, before or after its rewrite; `handle` is None before."""

    name: str
    dim: int
    handle: Optional[tf.Tensor]


def init_from_checkpoint(original: Callable[[Any, Any], None], ckpt_dir_or_file: Any, assignment_map: Any) -> None:
    """tf.compat.v1.train.init_from_checkpoint, with tables among the names, scopes and Variables of `assignment_map`.

    A table may stand for its Variable everywhere: as an object, by its name, or in a scope. In the checkpoint it is named
    without the last part, `user_emb`, or as one of its tensors, `user_emb/keys`.

    Args:
      original: TensorFlow's own, for Variables.
      ckpt_dir_or_file, assignment_map: as TensorFlow takes them.

    Raises:
      ValueError: the checkpoint has no such table, or one of another dim or dtype; all that TensorFlow raises.
    """
    graph = tf.compat.v1.get_default_graph()
    tables = _tables(graph)
    if not tables:
        original(ckpt_dir_or_file, assignment_map)
        return
    checkpoint = _Checkpoint(ckpt_dir_or_file)
    pairs = assignment_map.items() if hasattr(assignment_map, "items") else assignment_map
    rest: List[Tuple[str, Any]] = []
    for name, target in pairs:
        for name_there, target_here in _without_scopes(name, target, tables):
            table = _table_named_by(target_here, tables)
            if table is not None:
                _request(graph, table, checkpoint, name_there)
            elif not (_is_slot(target_here, tables) and name_there not in checkpoint.shapes):
                rest.append((name_there, target_here))
    if rest:
        original(ckpt_dir_or_file, rest)


def refuse_vocabulary(variables: Any) -> None:
    """Raises ValueError if a table is among `variables`, the ones that a VocabInfo is for."""
    tables = _tables(tf.compat.v1.get_default_graph())
    for variable in variables if isinstance(variables, (list, tuple)) else [variables]:
        table = _table_named_by(variable, tables)
        if table is not None:
            raise ValueError(
                f"WarmStartSettings: var_name_to_vocab_info has an entry for hash table '{table.name}', which has no vocabulary: its "
                "keys are the ids themselves; take the entry out"
            )


def apply_requests(
    view: GraphView, table: str, handle: tf.Tensor, initializers: Sequence[tf.Operation]
) -> Optional[str]:
    """Makes the ops that empty a table when Variables are initialized, or restore it, where that was asked for; to be called once per table.

    Args:
      table: its name. handle: its resource.
      initializers: ops that initialize the stand-in; what waits on them will wait for the table's restore.

    Returns: a line for the report, or None where nothing was asked for.
    """
    requests = [request for request in view.graph.get_collection(_REQUESTS) if request.table == table]
    if not requests:
        if not fetches_are_estimators(view.graph):  # Those initialize once.
            _begin_anew(view, table, handle, initializers)
        return None
    request = requests[-1]
    with view.inserting(HOST):  # Strings are there, wherever the table is.
        prefix = tf.constant(request.prefix, name=f"{handle.op.name}_warm_start/prefix")
        restored = restore_op(handle, prefix, request.checkpoint_name, f"{handle.op.name}_warm_start/restore")
        # A table is ready for use from the start; what is asked here is whether the session may go on.
        ready = tf.constant(True, name=f"{handle.op.name}_warm_start/ready")
    view.redirect_control(list(initializers), restored)
    view.add_to_collection(_INITIALIZERS, (table, restored))
    with view.graph.as_default():
        _compat.register_shared_resource(handle, restored, ready)
    return f"'{table}' starts with '{request.checkpoint_name}' of checkpoint '{request.prefix}'"


def _begin_anew(view: GraphView, table: str, handle: tf.Tensor, initializers: Sequence[tf.Operation]) -> None:
    """Has a program that initializes its Variables once more, for the next fold or trial, begin with an empty table, too."""
    with view.inserting(handle.op.device):
        cleared = _native.ops().tf_booster_table_clear(handle, name=f"{handle.op.name}_initializer")
    view.redirect_control(list(initializers), cleared)
    view.add_to_collection(_INITIALIZERS, (table, cleared))


def wrap_variables_initializer(original: Callable[..., tf.Operation]) -> Callable[..., tf.Operation]:
    """Wraps what global_variables_initializer calls: the stand-ins are no longer among the Variables of a graph that was rewritten."""

    @functools.wraps(original)
    def variables_initializer(var_list: Sequence[Any], name: str = "init") -> tf.Operation:
        if tf.executing_eagerly():
            return original(var_list, name)
        initializers = dict(tf.compat.v1.get_collection(_INITIALIZERS))  # Of a table the last.
        given = {id(variable) for variable in var_list or ()}
        if not initializers or any(id(variable) not in given for variable in tf.compat.v1.global_variables()):
            return original(var_list, name)
        return tf.group(original(var_list, f"{name}_variables"), *initializers.values(), name=name)

    return variables_initializer


def forget_resources(graph: tf.Graph) -> None:
    """Takes tables out of the collection of resources, once the init op is made.

    The collection has no form in a MetaGraph, so TensorFlow would warn of it at every checkpoint.
    """
    handles = {table.handle.ref() for table in registry.rewritten(graph).values()}
    if graph.get_collection(_REQUESTS):
        view = GraphView(graph)
        view.remove_from_collection(tf.compat.v1.GraphKeys.RESOURCES, lambda item: item.handle.ref() in handles)


class _Checkpoint:
    def __init__(self, ckpt_dir_or_file: Any):
        path = os.fspath(ckpt_dir_or_file)
        self.prefix = (tf.train.latest_checkpoint(path) or path) if tf.io.gfile.isdir(path) else path
        reader = tf.train.load_checkpoint(path)
        self.shapes: Dict[str, List[int]] = reader.get_variable_to_shape_map()
        self.dtypes = reader.get_variable_to_dtype_map()


def _request(graph: tf.Graph, table: _Table, checkpoint: _Checkpoint, name: str) -> None:
    request = WarmStart(table.name, checkpoint.prefix, _find_table(table, checkpoint, name))
    tf.compat.v1.logging.debug("Hash table '%s' starts with '%s' of %s.", *request[:1], request[2], request[1])
    view = GraphView(graph)
    view.add_to_collection(_REQUESTS, request)
    if table.handle is not None:
        apply_requests(view, table.name, table.handle, [])


def _find_table(table: _Table, checkpoint: _Checkpoint, name: str) -> str:
    """The table's name in the checkpoint, which `name` gives with or without one of its tensors'."""
    base = name.rstrip("/")
    for tensor in ("keys", "values"):
        if f"{base}/keys" not in checkpoint.shapes and base.endswith(f"/{tensor}"):
            base = base[: -len(tensor) - 1]
    what = f"{_OP}: hash table '{table.name}'"
    if f"{base}/keys" not in checkpoint.shapes or f"{base}/values" not in checkpoint.shapes:
        if base in checkpoint.shapes:
            raise ValueError(
                f"{what}: '{base}' in checkpoint '{checkpoint.prefix}' is a Variable of shape {checkpoint.shapes[base]}, wanted a "
                "hash table; insert its rows with insert_or_assign instead"
            )
        known = ", ".join(f"'{found}'" for found in layout.tables_among(checkpoint.shapes)) or "none"
        raise ValueError(
            f"{what}: checkpoint '{checkpoint.prefix}' has no table '{base}'; its tables: {known}; give the name of one of them"
        )
    columns = checkpoint.shapes[f"{base}/values"][-1]
    if columns != table.dim:
        raise ValueError(
            f"{what}: dim is {table.dim} but '{base}/values' in checkpoint '{checkpoint.prefix}' has {columns} columns; check "
            "embedding_dim against the checkpoint"
        )
    dtype = checkpoint.dtypes[f"{base}/values"]
    if dtype != tf.float32:
        raise ValueError(
            f"{what}: dtype is float32 but '{base}/values' in checkpoint '{checkpoint.prefix}' is {dtype.name}; convert the "
            "checkpoint"
        )
    return base


def _tables(graph: tf.Graph) -> Dict[str, _Table]:
    """The tables that the graph has so far; those of feature columns from their first lookup on."""
    found = {name: _Table(name, table.embedding_dim, None) for name, table in registry.tables(graph).items()}
    flow = CodeFlow(GraphView(graph).ops("TfBoosterStandInIds"))
    for use in flow.uses:
        handle_op = use.op.inputs[0].op
        if use.op.type == "ResourceGather" and handle_op.type == "VarHandleOp":
            name = _without_part(handle_op.name)
            found[name] = _Table(name, tf.TensorShape(handle_op.get_attr("shape"))[-1], None)
    for name, table in registry.rewritten(graph).items():
        found[name] = _Table(name, layout.dim(table.handle), table.handle)
    return found


def _table_named_by(target: Any, tables: Dict[str, _Table]) -> Optional[_Table]:
    """The table that `target` (a name, a Variable, a list of its parts, or a HashTable) stands for."""
    if isinstance(target, (list, tuple)) and len(target) == 1:
        target = target[0]
    if isinstance(target, str):
        for suffix in ("/keys", "/values"):
            if target not in tables and target.endswith(suffix):
                target = target[: -len(suffix)]
        return tables.get(target)
    handle_op = variable_handle_op(target)
    if handle_op is not None:
        return tables.get(_without_part(handle_op.name))
    return tables.get(getattr(target, "name", None)) if hasattr(target, "embedding_dim") else None


def _is_slot(target: Any, tables: Dict[str, _Table]) -> bool:
    """Whether `target` is an optimizer slot of a table's stand-in: it comes and goes with the table."""
    if isinstance(target, str):
        target = _compat.variables_by_name().get(target)
    if isinstance(target, (list, tuple)) and len(target) == 1:
        target = target[0]
    handle_op = variable_handle_op(target)
    if handle_op is None:
        return False
    name, shape = f"/{handle_op.name}/", tf.TensorShape(handle_op.get_attr("shape")).as_list()
    return any(f"/{table.name}/" in name and shape == [1, table.dim] for table in tables.values())


def _without_scopes(name: str, target: Any, tables: Dict[str, _Table]) -> List[Tuple[str, Any]]:
    """A pair of scopes as pairs of names, as TensorFlow reads it; any other pair, and scopes without a table, as they are."""
    known = _compat.variables_by_name()
    is_scope = isinstance(target, str) and name.endswith("/") and target not in known and target not in tables
    if not is_scope:
        return [(name, target)]
    scope = target[: target.rindex("/")] if "/" in target else ""
    names = sorted({_without_part(v) for v in (*known, *tables) if not scope or v.startswith(f"{scope}/")})
    if not any(v in tables for v in names):
        return [(name, target)]
    pairs = []
    for variable in names:
        inner = variable[len(scope) :] if target == "/" else variable[len(scope) + 1 :]
        pairs.append((inner if name == "/" else name + inner, variable))
    return pairs


def _without_part(name: str) -> str:
    return name[: name.index("/part_")] if "/part_" in name else name
