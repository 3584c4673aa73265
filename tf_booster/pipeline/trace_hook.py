"""A hook that draws chosen steps of a pipeline: both halves on one time line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any, Optional, Union

import tensorflow as tf

from tf_booster import _compat
from tf_booster.arguments import checked_int, checked_path
from tf_booster.pipeline import trace_drawing
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.driver import Driver

AHEAD = "embedding graphs of the next steps"


class PipelineTraceHook(tf.compat.v1.train.SessionRunHook):
    """Writes a picture, a Chrome trace and TensorBoard's run metadata of chosen steps.

    `trace-<step>.json` opens in chrome://tracing or ui.perfetto.dev: the ops of the step, and below them, under the name
    AHEAD, those of the embedding graphs that were begun in it and in the step before. Without a pipeline it has the step alone.
    `trace-<step>.svg` draws the same for a browser, with the time in which both halves ran.

    Args:
      steps: which steps of each session to trace, from 0 on; at least one. In a later session of the same hook they are written anew.
      output_dir: where to; made as needed.

    Raises:
      TypeError, ValueError: steps that no session has, or what is no path.
    """

    def __init__(self, steps: Iterable[int], output_dir: Union[str, os.PathLike]):
        if isinstance(steps, str) or not isinstance(steps, Iterable):
            raise TypeError(f"PipelineTraceHook: steps is {steps!r}, wanted a list of integers")
        self._steps = frozenset(checked_int("PipelineTraceHook", "a step", step, 0) for step in steps)
        if not self._steps:
            raise ValueError("PipelineTraceHook: steps is empty, wanted at least one integer")
        self._folder = checked_path("PipelineTraceHook", "output_dir", output_dir)
        self._step = 0
        self._driver: Optional[Driver] = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See SessionRunHook."""
        self._step, self._driver = 0, None

    def before_run(self, run_context: Any) -> Any:
        """Asks for the times of all ops in a chosen step."""
        if (
            self._step in self._steps or self._step + 1 in self._steps
        ):  # What runs beside a step may have begun in the one before.
            self._driver = driver_of(run_context.session)
            if self._driver is not None:
                self._driver.trace_next()
        if self._step not in self._steps:
            return None
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the files of a chosen step; waits for the embedding graph that was begun in it."""
        step, self._step = self._step, self._step + 1
        if step not in self._steps:
            return
        metadata = run_values.run_metadata
        driver = self._driver or driver_of(run_context.session)  # A session's first run makes its driver.
        ahead = [] if driver is None else [traced.step_stats for traced in driver.take_traces()]
        os.makedirs(self._folder, exist_ok=True)
        self._write(f"trace-{step}.svg", trace_drawing.svg(metadata.step_stats, ahead, f"Step {step}"))
        for device in (device for stats in ahead for device in stats.dev_stats):
            joined = metadata.step_stats.dev_stats.add()
            joined.CopyFrom(device)
            joined.device = f"{AHEAD}, {device.device}"
        self._write(f"trace-{step}.json", _compat.chrome_trace(metadata.step_stats))
        writer = tf.compat.v1.summary.FileWriterCache.get(self._folder)
        for number in range(1, 1000):
            with contextlib.suppress(ValueError):  # The writer, which is one for the folder, takes a name once.
                writer.add_run_metadata(metadata, f"step_{step}" if number == 1 else f"step_{step}_again_{number}")
                break
        writer.flush()

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
            file.write(text)
