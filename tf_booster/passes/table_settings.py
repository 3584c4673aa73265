"""The settings of a table: from get_hash_table, or read back from the Variable that a feature column's user made."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

import tensorflow as tf

from tf_booster.embedding import registry
from tf_booster.embedding.initializers import from_initial_value_op
from tf_booster.embedding.table_spec import TableSpec
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView


def table_spec(
    view: GraphView,
    name: str,
    handle_op: Optional[tf.Operation],
    stand_ins: Sequence[tf.Operation],
    default_seed: Optional[int],
) -> TableSpec:
    """The settings of the table `name`, with its seed: its own, else `default_seed`, else the graph's, else 0.

    Args:
      view: of the graph.
      name: of the table.
      handle_op: VarHandleOp of its stand-in; None for a table that nothing looks up.
      stand_ins: the StandInIds ops of its lookups, which know the columns' settings.
      default_seed: the option `seed`.

    Raises:
      RewriteError: nothing made the table, its initial value cannot be continued, or columns want other settings.
    """
    registered = registry.tables(view.graph)
    if name in registered:
        spec = registered[name].spec
    elif handle_op is not None:
        spec = _column_spec(view, name, handle_op, stand_ins)
    else:
        raise RewriteError(f"Table '{name}': nothing in this graph made it; make it with tf_booster.get_hash_table.")
    seed = next(s for s in (spec.seed, default_seed, view.graph.seed, 0) if s is not None)
    return dataclasses.replace(spec, seed=int(seed))


def table_of(handle_op: tf.Operation) -> str:
    """The table's name is the Variable's; partitioners (here always into one part) add /part_0."""
    suffix = "/part_0"
    return handle_op.name[: -len(suffix)] if handle_op.name.endswith(suffix) else handle_op.name


def check_stand_in(table: str, handle_op: tf.Operation) -> None:
    """Raises RewriteError for a Variable that cannot stand for a table."""
    dtype, shape = handle_op.get_attr("dtype"), _shape_of(handle_op)
    job = tf.DeviceSpec.from_string(handle_op.device).job
    if job not in (None, "localhost"):
        raise RewriteError(
            f"Table '{table}': it is placed on job '{job}', but a hash table lives in one process; train without parameter servers "
            "(unset TF_CONFIG)."
        )
    if dtype != tf.float32:
        raise RewriteError(
            f"Table '{table}': its Variable is {tf.as_dtype(dtype).name}; a hash table's rows are float32."
        )
    if len(shape) != 2 or shape[0] != 1 or not shape[1]:
        raise RewriteError(
            f"Table '{table}': its Variable has shape {shape}, wanted [1, dim]; take the partitioner off it."
        )


def _column_spec(view: GraphView, name: str, handle_op: tf.Operation, stand_ins: Sequence[tf.Operation]) -> TableSpec:
    """The spec of a table whose Variable a feature column's user (embedding_column, linear_model) made."""
    what = f"Table '{name}'"
    try:
        read = from_initial_value_op(_initial_value(name, handle_op).op, what)
    except ValueError as error:
        raise RewriteError(str(error)) from error
    columns = registry.columns(view.graph)
    settings = [columns[op.name] for op in stand_ins if op.name in columns]
    first = settings[0] if settings else None
    for other in settings[1:]:
        if _own(other) != _own(first):
            raise RewriteError(
                f"{what}: columns '{first.key}' and '{other.key}' share it, but want other settings: {_own(first)} and "
                f"{_own(other)}; give both the same."
            )
    return TableSpec(
        name=name,
        dim=int(_shape_of(handle_op)[1]),
        initializer=read.spec,
        seed=next((s.seed for s in settings if s.seed is not None), read.seed),
        trainable=view.in_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, handle_op),
        **(_own(first) if first else {}),
    )


def _own(settings: registry.ColumnSettings) -> Dict[str, Any]:
    return {name: getattr(settings, name) for name in ("min_frequency", "eviction", "max_rows")}


def _shape_of(handle_op: tf.Operation) -> List[Optional[int]]:
    return tf.TensorShape(handle_op.get_attr("shape")).as_list()


def _initial_value(table: str, handle_op: tf.Operation) -> tf.Tensor:
    for op in handle_op.outputs[0].consumers():
        if op.type == "AssignVariableOp" and op.name == f"{handle_op.name}/Assign":
            return op.inputs[1]
    raise RewriteError(
        f"Table '{table}': the op that initialises its Variable is not in the graph; make the Variable in it."
    )
