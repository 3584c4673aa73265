"""Ops that are useful on their own."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import tensorflow as tf

from tf_booster import _native

tf.no_gradient("TfBoosterUnique")
tf.no_gradient("TfBoosterUniqueWithCounts")


class Unique(NamedTuple):
    y: tf.Tensor
    idx: tf.Tensor


def unique(x: Any, out_idx: tf.DType = tf.int32, name: Optional[str] = None) -> Unique:
    """The distinct values of x, in no promised order. Faster than tf.unique, which keeps the order of first sight.

    Args:
      x: int32 or int64, of any shape.
      out_idx: dtype of idx: tf.int32 or tf.int64.
      name: of the op.

    Returns:
      (y, idx): y [u] holds each value of x once, and idx, of x's shape, has y[idx] == x.

    Raises:
      TypeError: x or out_idx is of another dtype.
    """
    x = tf.convert_to_tensor(x)
    out_idx = tf.as_dtype(out_idx)
    for argument, dtype in (("x", x.dtype), ("out_idx", out_idx)):
        if dtype not in (tf.int32, tf.int64):
            raise TypeError(f"unique: {argument} is {dtype.name}, wanted int32 or int64")
    return Unique(*_native.ops().tf_booster_unique(x, out_idx=out_idx, name=name))
