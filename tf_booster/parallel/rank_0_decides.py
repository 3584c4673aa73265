"""What one rank decides or does for all: which checkpoint is evaluated, whether it is time to, and exports."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import calls, evaluation, host_exchange, rank_input, ranks


def evaluate(original: Any) -> Any:
    """Estimator.evaluate; where all ranks call it, they take the checkpoint that rank 0 finds, and return the same."""

    @functools.wraps(original)
    def evaluate(
        self: Any, input_fn: Any, steps: Any = None, hooks: Any = None, checkpoint_path: Any = None, name: Any = None
    ) -> Any:
        found = checkpoint_path or tf.train.latest_checkpoint(self.model_dir)
        about = checkpoint_path or (self.model_dir if found else "")
        if rank_input.trains_by_itself() or calls.is_alone(f"{calls.EVALUATION} '{name or ''}'", about):
            with ranks.alone():
                return original(self, input_fn, steps=steps, hooks=hooks, checkpoint_path=checkpoint_path, name=name)
        with calls.of_all():
            path = host_exchange.from_rank_0(found, "checkpoint", _compat.session_config(self))
            found = original(self, input_fn, steps=steps, hooks=hooks, checkpoint_path=path, name=name)
            evaluation.tell_differences(host_exchange.all_gather(found, "results of an evaluation"))
            return found

    return evaluate


def begin_listener(original: Any) -> Any:
    """begin() of train_and_evaluate's listener: rank 0's clock tells when EvalSpec.throttle_secs are over."""

    @functools.wraps(original)
    @calls.by_listener
    def begin(self: Any) -> None:
        original(self)
        if calls.is_alone(calls.EVALUATION):
            return
        timer = _compat.timer_of(self)
        own = timer.should_trigger_for_step

        def should_trigger_for_step(step: int) -> bool:
            return host_exchange.from_rank_0(bool(own(step)), "whether to evaluate")

        timer.should_trigger_for_step = should_trigger_for_step

    return begin


def export(original: Any) -> Any:
    """A method that writes SavedModels: rank 0 does, as a process of its own; all ranks that call it return what it returns, and raise if
    it fails."""

    @functools.wraps(original)
    def export(self: Any, *args: Any, **kwargs: Any) -> Any:
        if calls.is_alone(calls.EXPORT):  # Inside of another export, too.
            with ranks.alone():
                return original(self, *args, **kwargs)
        result, failure = None, None
        if ranks.current().rank == 0:
            try:
                with ranks.alone():
                    result = original(self, *args, **kwargs)
            except Exception as error:  # The others must not wait for it. pylint: disable=broad-except
                failure = error
        said = None if failure is None else f"{type(failure).__name__}: {failure}"
        result, said = host_exchange.from_rank_0((result, said), "export")
        if failure is not None:
            raise failure
        if said is not None:
            raise RuntimeError(f"tf_booster: rank 0 could not export: {said}")
        return result

    return export
