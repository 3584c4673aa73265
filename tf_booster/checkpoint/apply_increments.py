"""Bringing a served model up to date."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import tensorflow as tf

from tf_booster.arguments import checked_path
from tf_booster.checkpoint import increments
from tf_booster.estimator import updatable_exports

_done: weakref.WeakKeyDictionary = (
    weakref.WeakKeyDictionary()
)  # Served model -> directory -> the last increment that it has.


def apply_increments(served: Any, directory: str) -> int:
    """Applies to a served model the increments in `directory`, by tf_booster.IncrementHook, that it does not have yet.

    Call it again and again, as they come. Predictions may run meanwhile; each sees a row before or after.

    Args:
      served: what tf.saved_model.load gave of an export by enable_gpu_booster(updatable_exports=True), or the tf.compat.v1.Session
        into which tf.compat.v1.saved_model.load loaded it.
      directory: the hook's.

    Returns:
      The number of the newest increment that the model has; 0 for none.

    Raises:
      ValueError: the model was not exported so.
      TypeError: `directory` is no path.
      tf.errors.FailedPreconditionError: increments that the model needs are gone; load a newer export.
      tf.errors.OpError: an increment cannot be read; the model has what came before it.
    """
    directory = checked_path("apply_increments", "directory", directory)
    apply = _apply_of(served)
    done = _done.setdefault(served, {})
    last = done.get(directory, 0)
    for number in increments.numbers_in(directory):
        if number <= last:
            continue
        try:
            apply(increments.prefix_of(directory, number))
        except tf.errors.AlreadyExistsError:  # The export is of a later step.
            pass
        last = done[directory] = number
    return last


def _apply_of(served: Any) -> Callable[[str], Any]:
    """Applies the increment of a path."""
    if isinstance(served, tf.compat.v1.Session):
        try:
            path, rows = (
                served.graph.get_tensor_by_name(name) for name in (updatable_exports.PATH, updatable_exports.ROWS)
            )
        except KeyError:
            raise ValueError(_NOT_UPDATABLE) from None
        return lambda prefix: served.run(rows, {path: prefix})
    signature = getattr(served, "signatures", {}).get(updatable_exports.SIGNATURE)
    if signature is None:
        raise ValueError(_NOT_UPDATABLE)
    return lambda prefix: signature(path=tf.constant(prefix))


_NOT_UPDATABLE = (
    f"apply_increments: the model has no signature '{updatable_exports.SIGNATURE}'; export it with hash tables, and "
    "tf.enable_gpu_booster(updatable_exports=True)"
)
