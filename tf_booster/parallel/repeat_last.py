"""The dataset that a rank goes on with when its part of the input has ended."""

from __future__ import annotations

from typing import Any, List

import tensorflow as tf

from tf_booster import _compat, _native


class RepeatLast(tf.data.Dataset):
    """Elements (element, (live, has_next)): those of `dataset`, with live = 1.0, then its last one for ever, with live = 0.0.

    has_next is 1.0 if a live element follows. A dataset without elements repeats the first one of `fallback`, which has
    the same components; if there is none either, this is empty.
    """

    def __init__(self, dataset: tf.data.Dataset, fallback: tf.data.Dataset) -> None:
        self._datasets = [dataset, fallback]
        flag = tf.TensorSpec([], tf.float32)
        self._element_spec = (dataset.element_spec, (flag, flag))
        types, shapes = _compat.flat_types_and_shapes(self._element_spec)
        variants = [_compat.variant_of_dataset(each) for each in self._datasets]
        super().__init__(
            _native.ops().tf_booster_repeat_last_dataset(*variants, output_types=types, output_shapes=shapes)
        )

    def _inputs(self) -> List[tf.data.Dataset]:
        return self._datasets

    @property
    def element_spec(self) -> Any:
        return self._element_spec


def made_up(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """One element as those of `dataset`: a row of zeros and empty strings, or of no values where the number may vary.

    Raises:
      TypeError: elements have other parts than tensors, sparse and ragged ones.
    """
    return tf.data.Dataset.from_tensors(tf.nest.map_structure(_made_up, dataset.element_spec))


def _made_up(spec: Any) -> Any:
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros(_one_row(spec.shape), spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        shape = tf.constant(_one_row(spec.shape), tf.int64)
        return tf.SparseTensor(tf.zeros([0, spec.shape.rank or 1], tf.int64), tf.zeros([0], spec.dtype), shape)
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = [1 if size is None else size for size in spec.shape.as_list()[spec.ragged_rank + 1 :]]
        splits = [tf.zeros([2 if depth == 0 else 1], spec.row_splits_dtype) for depth in range(spec.ragged_rank)]
        return tf.RaggedTensor.from_nested_row_splits(tf.zeros([0, *inner], spec.dtype), splits)
    raise TypeError(
        f"tf_booster: this rank's input is empty, and a batch of {spec} cannot be made up; give each rank a part of the input"
    )


def _one_row(shape: tf.TensorShape) -> List[int]:
    return [1] if shape.rank is None else [1 if size is None else size for size in shape.as_list()]
