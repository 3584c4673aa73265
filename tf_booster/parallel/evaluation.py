"""Evaluation over ranks: each updates metrics with its part, then the metrics' Variables are summed, and all ranks have the same values."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional

import numpy as np
import tensorflow as tf

from tf_booster.parallel import host_exchange, loss_reduction, ranks, row_weights

_reduction = loss_reduction.AVERAGE


def set_reduction(option: str) -> None:
    """The option gradient_reduction."""
    global _reduction
    _reduction = option


class MergeMetricsHook(tf.compat.v1.train.SessionRunHook):
    """Sums what ranks added to METRIC_VARIABLES, in front of the hook that reads the final values.

    Batches that come again on a rank that has run dry are updated with like others; the Variables are read before.
    """

    def __init__(self, live: tf.Tensor, has_next: tf.Tensor) -> None:
        """`live`, `has_next`: this rank's, float32 scalars; see RepeatLast."""
        self._flags = (live, has_next)
        self._variables: Dict[str, Any] = {}
        self._first: Dict[str, np.ndarray] = {}
        self._last: Optional[Dict[str, np.ndarray]] = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Reads what Variables have before the first batch."""
        del coord
        found = session.graph.get_collection(tf.compat.v1.GraphKeys.METRIC_VARIABLES)
        # Estimator keeps those of Keras metrics in a set: their order differs between ranks.
        self._variables = {v.op.name: v for v in found if v.dtype.is_floating or v.dtype.is_integer}
        self._first = session.run(self._variables)
        self._last = None

    def before_run(self, run_context: Any) -> Any:
        return tf.compat.v1.train.SessionRunArgs(self._flags)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        live, has_next = run_values.results
        if self._last is None and not has_next:
            self._last = run_context.session.run(self._variables) if live else self._first

    def end(self, session: Any) -> None:
        """Gives all ranks' sums to the Variables."""
        last = session.run(self._variables) if self._last is None else self._last
        added = {name: (value.dtype.name, value - self._first[name]) for name, value in last.items()}
        told = host_exchange.all_gather(added, "metrics of an evaluation")
        _check_same_names(told)
        feeds: Dict[Any, np.ndarray] = {}
        for name, variable in self._variables.items():
            total = sum(np.asarray(each[name][1], _wide(each[name][1].dtype)) for each in told)
            feeds[variable.initializer.inputs[1]] = (self._first[name] + total).astype(self._first[name].dtype)
        if feeds:
            session.run([variable.initializer for variable in self._variables.values()], feeds)


def _wide(dtype: Any) -> Any:
    return np.float64 if np.issubdtype(dtype, np.floating) else dtype


def _check_same_names(told: Any) -> None:
    for rank, names in enumerate(told):
        if set(names) != set(told[0]):
            other = sorted(set(names) ^ set(told[0]))
            raise RuntimeError(
                f"tf_booster: ranks 0 and {rank} evaluate other metrics: only one of them has {', '.join(other[:5])}; build "
                "the same graph on all ranks"
            )


def loss_metric(original: Any) -> Any:
    """Estimator's _verify_and_create_loss_metric: the mean of batches' losses, weighted by their rows unless each is a sum over rows."""

    @functools.wraps(original)
    def _verify_and_create_loss_metric(eval_metric_ops: Any, loss: Any, distribution: Any = None) -> Any:
        graph = tf.compat.v1.get_default_graph()
        weights = row_weights.row_weights(graph)
        metrics = original(eval_metric_ops, loss, distribution)
        if weights is None or distribution is not None:
            return metrics
        if loss_reduction.loss_reduction(graph, _reduction).kind == loss_reduction.SUM:
            metrics["loss"] = tf.compat.v1.metrics.mean(loss * ranks.current().size)  # Of the ranks' joined batches.
        else:
            metrics["loss"] = tf.compat.v1.metrics.mean(loss, weights=weights.rows)
        return metrics

    return _verify_and_create_loss_metric
