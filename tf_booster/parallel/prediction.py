"""Predictions over ranks: each rank predicts every size-th batch, and rank 0 yields those of all, in the order of the input."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, Optional

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import calls, meetings, rank_input, ranks, row_weights
from tf_booster.parallel.end_together import EndTogetherHook
from tf_booster.parallel.host_exchange import Exchange


class _RowsHook(tf.compat.v1.train.SessionRunHook):
    """Knows whether the batch of the last step counts. divided: whether ranks have parts of one input."""

    divided = False
    live = True

    def __init__(self) -> None:
        self._rows: Optional[tf.Tensor] = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        weights = row_weights.row_weights(session.graph)
        self.divided = weights is not None
        self._rows = weights.rows if self.divided else None

    def before_run(self, run_context: Any) -> Any:
        return None if self._rows is None else tf.compat.v1.train.SessionRunArgs(self._rows)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.live = self._rows is None or run_values.results > 0


def predict(original: Any) -> Any:
    """Estimator.predict. Where every rank iterates over what it returns, ranks above 0 get nothing from it; when rank 0 stops in the middle,
    all ranks do.
    """

    @functools.wraps(original)
    def predict(
        self: Any,
        input_fn: Any,
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: Optional[str] = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        found = checkpoint_path or tf.train.latest_checkpoint(self.model_dir)
        about = checkpoint_path or (self.model_dir if found else "")
        if rank_input.trains_by_itself() or calls.is_alone(calls.PREDICTION, about):
            yield from _alone(original(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples))
            return
        rows, end = _RowsHook(), EndTogetherHook()
        with calls.of_all() as call, Exchange(_compat.session_config(self)) as exchange:
            path = exchange.all_gather(found, "checkpoint")[0]
            batches = original(self, input_fn, predict_keys, [*(hooks or []), rows, end], path, False)
            for batch in batches:
                meetings.end(call)  # The program goes on between two of them.
                try:
                    for each in _of_all_ranks(batch, rows, exchange):
                        yield from _examples(self, each) if yield_single_examples else [each]
                except GeneratorExit:
                    end.ask()
                    for _ in batches:  # One step more, in which the others learn of it.
                        _of_all_ranks(None, rows, exchange)
                    raise

    return predict


def _alone(predictions: Any) -> Iterator[Any]:
    """The same; between two of them the program goes on as one rank of several."""
    with contextlib.closing(predictions):
        while True:
            with ranks.alone():
                try:
                    prediction = next(predictions)
                except StopIteration:
                    return
            yield prediction


def _of_all_ranks(batch: Any, rows: _RowsHook, exchange: Exchange) -> Any:
    if not rows.divided:
        return [batch] if ranks.current().rank == 0 else []
    told = exchange.gather(batch if rows.live else None, "predictions")
    return [each for each in told if each is not None]


def _examples(estimator: Any, batch: Any) -> Iterator[Any]:
    if not isinstance(batch, dict):
        yield from batch
        return
    for i in range(_compat.batch_length(estimator, batch)):
        yield {name: values[i] for name, values in batch.items()}
