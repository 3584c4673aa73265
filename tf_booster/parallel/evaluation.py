"""Evaluation over ranks: each updates metrics with its part, then the metrics' Variables are summed, and all ranks have the same values."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow as tf

from tf_booster import log
from tf_booster.parallel import host_exchange, loss_reduction, metric_updates, ranks, row_weights

_reduction = loss_reduction.AVERAGE


def set_reduction(option: str) -> None:
    """The option gradient_reduction."""
    global _reduction
    _reduction = option


class MergeMetricsHook(tf.compat.v1.train.SessionRunHook):
    """Sums what ranks added to metrics' Variables, or takes the largest or smallest of what they have, as each is updated; in front of the
    hook that reads the final values.

    Batches that come again on a rank that has run dry are updated with like others; the Variables are read before.
    """

    def __init__(self, live: tf.Tensor, has_next: tf.Tensor) -> None:
        """`live`, `has_next`: this rank's, float32 scalars; see RepeatLast."""
        self._flags = (live, has_next)
        self._variables: Dict[str, Any] = {}
        self._kinds: Dict[str, str] = {}
        self._first: Dict[str, np.ndarray] = {}
        self._last: Optional[Dict[str, np.ndarray]] = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Reads what Variables have before the first batch. Raises ValueError for one whose values on ranks cannot be merged."""
        del coord
        # Estimator keeps those of Keras metrics in a set: their order differs between ranks.
        self._variables = {v.op.name: v for v in metric_updates.variables_of_metrics(session.graph)}
        self._kinds = metric_updates.how_merged(self._variables)
        self._first = session.run(self._variables)
        self._last = None

    def before_run(self, run_context: Any) -> Any:
        return tf.compat.v1.train.SessionRunArgs(self._flags)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        live, has_next = run_values.results
        if self._last is None and not has_next:
            self._last = run_context.session.run(self._variables) if live else self._first

    def end(self, session: Any) -> None:
        """Gives the values of all ranks together to the Variables."""
        last = session.run(self._variables) if self._last is None else self._last
        told = host_exchange.all_gather(last, "metrics of an evaluation")
        _check_same_names(told)
        feeds: Dict[Any, np.ndarray] = {}
        for name, variable in self._variables.items():
            of_ranks = [np.asarray(each[name]) for each in told]
            feeds[variable.initializer.inputs[1]] = _merged(self._kinds[name], self._first[name], of_ranks)
        if feeds:
            session.run([variable.initializer for variable in self._variables.values()], feeds)


def tell_differences(results: List[Dict[str, Any]]) -> None:
    """Warns where ranks have found different values, as those do that evaluate what is not divided for them, and not the same everywhere."""
    for rank, result in enumerate(results):
        for name, value in result.items():
            first = results[0].get(name)
            if not isinstance(value, np.number) or np.isclose(value, first, rtol=1e-3, atol=1e-6, equal_nan=True):
                continue
            log.warning(
                f"evaluations differ between ranks: '{name}' is {first} on rank 0 and {value} on rank {rank}, each of what its own input "
                "function gives. Give all ranks the whole input, and each evaluates all of it; or return a tf.data.Dataset, which is divided"
            )
            return


def _merged(kind: str, first: np.ndarray, of_ranks: List[np.ndarray]) -> np.ndarray:
    """What a Variable would have that was `first` and was then updated as those of all ranks were."""
    if kind != metric_updates.SUM:
        return functools.reduce(np.maximum if kind == metric_updates.MAX else np.minimum, of_ranks)
    if not np.issubdtype(first.dtype, np.number):  # Nothing has updated it.
        return first
    wide = np.float64 if np.issubdtype(first.dtype, np.floating) else first.dtype
    return (first + sum(np.asarray(each - first, wide) for each in of_ranks)).astype(first.dtype)


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
        if ranks.current().size > 1 and distribution is None:
            metric_updates.note_read(graph, metrics)
        if weights is None or distribution is not None:
            return metrics
        if loss_reduction.loss_reduction(graph, _reduction).kind == loss_reduction.SUM:
            metrics["loss"] = tf.compat.v1.metrics.mean(loss * ranks.current().size)  # Of the ranks' joined batches.
        else:
            metrics["loss"] = tf.compat.v1.metrics.mean(loss, weights=weights.rows)
        return metrics

    return _verify_and_create_loss_metric
