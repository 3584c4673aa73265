"""Runs that are no steps as the graph is split: they are fed what the embedding graph computes with, or look at the input before training.

They are served as TensorFlow would: what crosses is computed by the program's own ops, from its feeds and from the batch, and fed. Three
runs for one, and copies of the values, for what programs do rarely.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import numpy as np
import tensorflow as tf

from tf_booster.pipeline.needs import ByHand, Needs, Run
from tf_booster.pipeline.split import Split


class RunsByHand:
    """Of one session on a split graph. `do_run`: its own `_do_run`."""

    def __init__(self, needs: Needs, split: Split, do_run: Callable[..., Any]):
        self._needs, self._split, self._do_run = needs, split, do_run
        self._sent = split.dequeue.outputs
        # What is not needed is passed on all the same.
        self._nothing = {t.ref(): np.zeros([0], t.dtype.as_numpy_dtype) for t in self._sent}

    def take_input(self, wanted: ByHand, from_queue: bool, feeds: Dict[Any, Any]) -> Dict[Any, Any]:
        """Feeds of the input's tensors that are wanted, of the next batch. `feeds`: what a run that takes one from the queue is fed."""
        own = [self._needs.own[number] for number in wanted.inputs]
        taken = self._split.dequeue if from_queue else self._split.source
        fetches = [self._sent[number] for number in wanted.inputs] if from_queue else own
        values = self._do_run(None, [taken], fetches, feeds if from_queue else {}, None, None)
        return self._as_feeds(wanted.inputs, values)

    def run(self, run: Run, wanted: ByHand, given: Dict[Any, Any], feeds: Dict[Any, Any], *rest: Any) -> Any:
        """The results of `run`. given: feeds of the input. feeds: the program's. rest: options and metadata of `_do_run`."""
        feeds = run.fed(feeds)
        given = {**self._nothing, **given}
        if wanted.computed or wanted.checks:
            own: List[tf.Tensor] = [self._needs.own[number] for number in wanted.computed]
            values = self._do_run(None, wanted.checks, own, {**given, **feeds}, None, None)
            given = {**given, **self._as_feeds(wanted.computed, values)}
        return self._do_run(None, run.targets, run.fetches, {**given, **feeds}, *rest)

    def _as_feeds(self, numbers: List[int], values: List[Any]) -> Dict[Any, Any]:
        found = {}
        for number, value in zip(numbers, values):
            tensor = self._sent[number]
            found[tensor.ref()] = as_feed(tensor, value)
        return found


def as_feed(tensor: tf.Tensor, value: Any) -> np.ndarray:
    """The value of `tensor` that a run has fetched, to be fed."""
    # A scalar string is fetched as bytes, of which numpy would make another type.
    return np.array(value, object) if tensor.dtype == tf.string else np.asarray(value)
