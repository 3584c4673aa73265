"""Feature columns on hash tables; TensorFlow's own embedding_column and its kin take them."""

from tf_booster.embedding.feature_column import categorical_column_with_hash_table

__all__ = ["categorical_column_with_hash_table"]
