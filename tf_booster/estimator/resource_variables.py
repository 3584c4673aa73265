"""Programs that call disable_v2_behavior, as many Estimator programs do, get reference Variables, on which no table can stand.

embedding_column and linear_model make their Variables out of our sight, so while a model function runs, Variables of the shape
that stands for a table, [1, n], become resource Variables in a program with columns of hash tables. In others none does: ops and
optimizers of the program's own may need reference Variables.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, ContextManager, Mapping, Optional, Sequence

import tensorflow as tf

from tf_booster.embedding import feature_column


def for_stand_ins() -> ContextManager[None]:
    """A scope in which Variables of one row are resource Variables, where they may stand for a table."""
    return tf.compat.v1.variable_creator_scope(_make)


def _make(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    shape = _shape(kwargs) if feature_column.may_have_variables() else None
    if shape is not None and not kwargs.get("use_resource"):
        dims = tf.TensorShape(shape)
        if dims.rank == 2 and dims[0] == 1:
            kwargs["use_resource"] = True
    return next_creator(**kwargs)


def _shape(kwargs: Mapping[str, Any]) -> Optional[Sequence[int]]:
    """Of the Variable. get_variable of TensorFlow 2.12 tells it to the initializer alone."""
    initial = kwargs.get("initial_value")
    if kwargs.get("shape") is not None or not isinstance(initial, functools.partial) or not initial.args:
        return kwargs.get("shape")
    shape = initial.args[0]
    return shape if isinstance(shape, list) and all(isinstance(n, int) for n in shape) else None
