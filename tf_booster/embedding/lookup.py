"""Lookups in hash tables, built of TensorFlow's own ops on the table's stand-in, so that gradients flow as ever.

Ids pass one op, StandInIds, whose output is codes: small positive numbers that name the keys of one probe, 0 for
"no id". docs/design/tables_in_graphs.md says why.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.embedding.hash_table import HashTable

tf.no_gradient("TfBoosterStandInIds")

COMBINERS = ("sum", "mean", "sqrtn")


def embedding_lookup(
    table: HashTable, ids: Any, max_norm: Optional[float] = None, name: Optional[str] = None
) -> Union[tf.Tensor, tf.RaggedTensor]:
    """Looks up the embeddings of ids.

    Args:
      table: from get_hash_table.
      ids: int64, int32 or string, of any shape; or a RaggedTensor of them. Every id is valid, negative ones too.
      max_norm: embeddings of a larger l2 norm are scaled down to it.
      name: of the ops.

    Returns:
      float32, ids.shape + [embedding_dim]; ragged if the ids are. A key that the table does not have gives the value
      that its row would start with.

    Raises:
      TypeError: the ids are sparse or of another dtype.
    """
    _check_table("embedding_lookup", table)
    if isinstance(ids, tf.RaggedTensor):
        return tf.ragged.map_flat_values(lambda flat: embedding_lookup(table, flat, max_norm, name), ids)
    if isinstance(ids, tf.SparseTensor):
        raise TypeError(
            f"embedding_lookup {table.name!r}: ids are a SparseTensor; use embedding_lookup_sparse, which combines "
            "the embeddings of a row"
        )
    table.check_graph("embedding_lookup")
    with tf.compat.v1.name_scope(name, "embedding_lookup"):
        codes = to_codes(table.name, table.to_keys(ids, "embedding_lookup"), "embedding_lookup")
        return tf.nn.embedding_lookup(table.variable, codes, max_norm=max_norm)


def embedding_lookup_sparse(
    table: HashTable,
    sp_ids: Union[tf.SparseTensor, tf.RaggedTensor],
    sp_weights: Union[None, tf.SparseTensor, tf.RaggedTensor] = None,
    combiner: str = "mean",
    max_norm: Optional[float] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Looks up the embeddings of each row's ids and combines them, as tf.nn.embedding_lookup_sparse does.

    Rows without ids give zeros, trailing ones too. Every id is valid, negative ones too.

    Args:
      table: from get_hash_table.
      sp_ids: SparseTensor [d0, …, dn] or RaggedTensor of int64, int32 or string; the last dimension is combined.
      sp_weights: None for ones, or float32 of the same kind, shape and indices as sp_ids.
      combiner: "sum" (weighted), "mean" (that divided by the sum of the weights) or "sqrtn" (divided by the root of the
        sum of their squares).
      max_norm: embeddings of a larger l2 norm are scaled down to it before they are combined.
      name: of the ops.

    Returns:
      float32 [d0, …, dn-1, embedding_dim].

    Raises:
      TypeError: sp_ids is not sparse or ragged, sp_weights is of another kind, or a dtype is wrong.
      ValueError: combiner is unknown, sp_ids has fewer than 2 dimensions, or the shapes of weights and ids differ; when
        it runs, InvalidArgumentError where their indices differ.
    """
    _check_table("embedding_lookup_sparse", table)
    what = f"embedding_lookup_sparse {table.name!r}"
    if combiner not in COMBINERS:
        raise ValueError(f"{what}: combiner is {combiner!r}, wanted 'sum', 'mean' or 'sqrtn'")
    table.check_graph("embedding_lookup_sparse")
    with tf.compat.v1.name_scope(name, "embedding_lookup_sparse"):
        sp_ids, sp_weights = _checked_sparse(what, sp_ids, sp_weights)
        codes = to_codes(table.name, table.to_keys(sp_ids.values, "embedding_lookup_sparse"), "embedding_lookup_sparse")
        rows, outer_shape = _as_matrix(sp_ids)
        # Code 0 in an empty row reads as zeros and trains nothing; the Select keeps its gradient out of global norms.
        ids, row_is_empty = tf.sparse.fill_empty_rows(tf.SparseTensor(rows.indices, codes, rows.dense_shape), 0)
        weights = None
        if sp_weights is not None:
            weights, _ = tf.sparse.fill_empty_rows(
                tf.SparseTensor(rows.indices, sp_weights.values, rows.dense_shape), 1.0
            )
        combined = tf.nn.embedding_lookup_sparse(table.variable, ids, weights, combiner=combiner, max_norm=max_norm)
        combined = tf.where(row_is_empty[:, tf.newaxis], tf.zeros_like(combined), combined)
        if outer_shape is not None:
            combined = tf.reshape(combined, tf.concat([outer_shape, [table.embedding_dim]], 0))
        combined.set_shape(sp_ids.shape[:-1].concatenate([table.embedding_dim]))
        return combined


def to_codes(table_name: str, keys: tf.Tensor, what: str) -> tf.Tensor:
    """Passes int64 keys of any shape through the op that stands for the table's probe; the codes have their shape."""
    codes = _native.ops().tf_booster_stand_in_ids(keys, table_name=table_name)
    if _compat.in_control_flow(codes.op):
        raise RuntimeError(
            f"{what} {table_name!r}: this is the body of a tf.cond or a tf.while_loop; look the ids up outside of "
            "it and pass the embeddings in"
        )
    return codes


def _check_table(what: str, table: HashTable) -> None:
    if not isinstance(table, HashTable):
        raise TypeError(
            f"{what}: table is {table!r}, wanted what tf_booster.get_hash_table returns; for a Variable use "
            f"tf.nn.{what}"
        )


def _checked_sparse(what: str, sp_ids: Any, sp_weights: Any) -> Tuple[tf.SparseTensor, Optional[tf.SparseTensor]]:
    """Both as SparseTensors with equal indices."""
    if not isinstance(sp_ids, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(
            f"{what}: sp_ids is {sp_ids!r}, wanted a SparseTensor or a RaggedTensor; for a dense tensor use "
            "embedding_lookup, or tf.sparse.from_dense"
        )
    if sp_weights is not None and type(sp_weights) is not type(sp_ids):
        raise TypeError(
            f"{what}: sp_weights is {type(sp_weights).__name__} and sp_ids {type(sp_ids).__name__}, wanted the "
            "same kind"
        )
    if sp_weights is not None and sp_weights.dtype != tf.float32:
        raise TypeError(f"{what}: sp_weights are {sp_weights.dtype.name}, wanted float32; cast them with tf.cast")
    if isinstance(sp_ids, tf.RaggedTensor):
        sp_ids = sp_ids.to_sparse()
        sp_weights = None if sp_weights is None else sp_weights.to_sparse()
    if sp_ids.shape.rank is not None and sp_ids.shape.rank < 2:
        raise ValueError(f"{what}: sp_ids has shape {sp_ids.shape}, wanted at least 2 dimensions: rows and their ids")
    if sp_weights is None:
        return sp_ids, None
    if not sp_ids.shape.is_compatible_with(sp_weights.shape):
        raise ValueError(f"{what}: sp_weights has shape {sp_weights.shape} and sp_ids {sp_ids.shape}, wanted the same")
    if not sp_ids.values.shape.is_compatible_with(sp_weights.values.shape):
        found = f"{sp_weights.values.shape[0]} sp_weights and {sp_ids.values.shape[0]} sp_ids"
        raise ValueError(f"{what}: there are {found}, wanted one weight an id")
    if sp_weights.indices is not sp_ids.indices:
        # TensorFlow's assert_equal would put a tf.cond into every step.
        equal = tf.reduce_all(tf.raw_ops.Equal(x=sp_weights.indices, y=sp_ids.indices, incompatible_shape_error=False))
        message = f"{what}: sp_weights and sp_ids have other indices, wanted one weight an id"
        same = tf.raw_ops.Assert(condition=equal, data=[message])
        with tf.control_dependencies([same]):
            sp_weights = tf.SparseTensor(sp_ids.indices, tf.identity(sp_weights.values), sp_ids.dense_shape)
    return sp_ids, sp_weights


def _as_matrix(sparse: tf.SparseTensor) -> Tuple[tf.SparseTensor, Optional[tf.Tensor]]:
    """(the same values as a matrix whose rows are combined, the dimensions that its rows were; None for a matrix)."""
    if sparse.shape.rank == 2:
        return sparse, None
    outer = sparse.dense_shape[:-1]
    return tf.sparse.reshape(sparse, tf.stack([tf.reduce_prod(outer), sparse.dense_shape[-1]])), outer
