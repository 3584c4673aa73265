"""A categorical column whose ids need no vocabulary, for use below TensorFlow's own embedding_column and the like.

TensorFlow makes the Variable, of shape [1, dimension] since the column has one bucket; the rewrite puts a hash table in
its place, with the settings that the column leaves in the graph.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.embedding.hash_table import KEY_DTYPES, check_building_graph, to_int64_keys
from tf_booster.embedding.lookup import to_codes
from tf_booster.embedding.table_spec import EvictionSpec, check_settings

_CategoricalColumn, _CategoricalColumnV1 = _compat.categorical_column_bases()
_shape_was_asked = False


def may_have_variables() -> bool:
    """Whether TensorFlow has asked a column of hash tables in this process for the shape of its Variable: it does before it makes one."""
    return _shape_was_asked


def categorical_column_with_hash_table(
    key: str,
    dtype: tf.DType = tf.int64,
    min_frequency: int = 0,
    eviction: Optional[Mapping[str, Any]] = None,
    max_rows: Optional[int] = None,
    seed: Optional[int] = None,
) -> HashTableCategoricalColumn:
    """A column of ids without a vocabulary; wrap it in TensorFlow's embedding_column, or give it to a linear model.

    Each Variable that TensorFlow makes for the column (one an embedding_column, one for the columns of
    shared_embeddings, one in a linear model) becomes a hash table of its own, which takes these settings and the
    Variable's initializer.

    Every int64 is a valid id in a sparse feature. In a dense one, -1 and "" stand for a missing value and are dropped,
    as in TensorFlow's own columns. Strings are hashed by tf.strings.to_hash_bucket_fast into [0, 2^63 - 1).

    Args:
      key: of the feature, a Tensor or SparseTensor.
      dtype: of the feature: tf.int64, tf.int32 or tf.string.
      min_frequency, eviction, max_rows, seed: as in get_hash_table.

    Raises:
      TypeError, ValueError: an argument is wrong.
    """
    what = f"categorical_column_with_hash_table {key!r}"
    if not isinstance(key, str):
        raise TypeError(f"{what}: key is {key!r}, wanted a string")
    dtype = tf.as_dtype(dtype)
    if dtype not in KEY_DTYPES:
        raise ValueError(f"{what}: dtype is {dtype.name}, wanted int64, int32 or string")
    seed, min_frequency, eviction, max_rows = check_settings(what, seed, min_frequency, eviction, max_rows)
    return HashTableCategoricalColumn(
        key=key, dtype=dtype, min_frequency=min_frequency, eviction=eviction, max_rows=max_rows, seed=seed
    )


class _Fields(NamedTuple):
    key: str
    dtype: tf.DType
    min_frequency: int
    eviction: EvictionSpec
    max_rows: Optional[int]
    seed: Optional[int]


# The methods below are what TensorFlow's CategoricalColumn asks for; those with an underscore are v1's.
@_compat.register_feature_column
class HashTableCategoricalColumn(_CategoricalColumn, _CategoricalColumnV1, _Fields):
    """See categorical_column_with_hash_table."""

    @property
    def _is_v2_column(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> Dict[str, tf.io.VarLenFeature]:
        # An Example has no int32.
        return {self.key: tf.io.VarLenFeature(tf.string if self.dtype == tf.string else tf.int64)}

    @property
    def _parse_example_spec(self) -> Dict[str, tf.io.VarLenFeature]:
        return self.parse_example_spec

    @property
    def num_buckets(self) -> int:
        global _shape_was_asked
        _shape_was_asked = True
        return 1

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    @property
    def parents(self) -> List[str]:
        return [self.key]

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> tf.SparseTensor:
        return self._to_codes(transformation_cache.get(self.key, state_manager))

    def _transform_feature(self, inputs: Any) -> tf.SparseTensor:
        return self._to_codes(inputs.get(self.key))

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Tuple[tf.SparseTensor, None]:
        return _CategoricalColumn.IdWeightPair(transformation_cache.get(self, state_manager), None)

    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Tuple[tf.SparseTensor, None]:
        return _CategoricalColumn.IdWeightPair(inputs.get(self), None)

    def get_config(self) -> Dict[str, Any]:
        config = self._asdict()
        config.update(dtype=self.dtype.name, eviction=self.eviction.to_dict())
        return config

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Any = None, columns_by_name: Any = None
    ) -> HashTableCategoricalColumn:
        return categorical_column_with_hash_table(**config)

    def _to_codes(self, feature: Any) -> tf.SparseTensor:
        what = f"categorical_column_with_hash_table {self.key!r}"
        check_building_graph(what)
        sparse = _to_sparse(feature)
        if sparse.dtype not in KEY_DTYPES or (sparse.dtype == tf.string) != (self.dtype == tf.string):
            raise ValueError(
                f"{what}: the feature is {sparse.dtype.name}, but the column's dtype is {self.dtype.name}; make "
                "them agree"
            )
        codes = to_codes(self.key, to_int64_keys(sparse.values), "categorical_column_with_hash_table")
        registry.add_column(
            codes.graph,
            registry.ColumnSettings(
                op_name=codes.op.name,
                key=self.key,
                seed=self.seed,
                min_frequency=self.min_frequency,
                eviction=self.eviction,
                max_rows=self.max_rows,
            ),
        )
        return tf.SparseTensor(sparse.indices, codes, sparse.dense_shape)


def _to_sparse(feature: Any) -> tf.SparseTensor:
    """A dense feature as TensorFlow's columns read it: without the cells that are -1 or ""."""
    if isinstance(feature, tf.SparseTensor):
        return feature
    feature = tf.convert_to_tensor(feature)
    missing = tf.constant("" if feature.dtype == tf.string else -1, feature.dtype)
    indices = tf.where(tf.not_equal(feature, missing))
    return tf.SparseTensor(indices, tf.gather_nd(feature, indices), tf.shape(feature, tf.int64))
