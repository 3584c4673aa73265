"""Trains a program twice from one seed, plain and boosted, and compares losses and every entry of the final checkpoint.

Both runs happen in one process, each in a graph of its own, on one thread: TensorFlow sums in another order with another
number of threads. Four bounds:

- EXACT: losses and entries are equal bit for bit. Holds where passes change the layout of the work, and nothing else.
- CLOSE: per entry the norm of the difference is at most 1e-5 of the norm of the plain entry, losses are within 1e-5.
- XLA: as CLOSE with 1e-4. XLA has exponentials of its own, a few ulp from TensorFlow's.
- like_reordered: as CLOSE, or four times what the plain program shows against itself when the rows of each batch come in other
  orders, so that only the order of its sums changes, whichever is larger. Four times, for a few other orders are a few draws of many:
  of DeepCTR's DeepFM four orders were 2.6 times apart, and one of them alone was too low a bound on Zen 3.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

import tf_booster
from tf_booster.report import report_of

v1 = tf.compat.v1
BOUND = 1e-5
EXACT, CLOSE, XLA = "exact", "close", "xla"


@dataclasses.dataclass
class Outcome:
    """What a training run left: the loss of each step, and the entries of its last checkpoint by name."""

    losses: np.ndarray
    entries: Dict[str, np.ndarray]
    report: Optional[Dict[str, Any]] = None


class LossRecorder(v1.train.SessionRunHook):
    """Notes what Estimator calls the loss, at every step. Fetches it by name, as users' hooks do."""

    def __init__(self) -> None:
        self.losses: List[float] = []

    def begin(self) -> None:
        self.graph = v1.get_default_graph()
        self._name = v1.get_collection(v1.GraphKeys.LOSSES)[-1].name

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs(self._name)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(run_values.results)


@contextlib.contextmanager
def boosted(enabled: bool = True, **options: Any):
    """tf_booster on inside, off after; does nothing if not `enabled`."""
    if enabled:
        tf.enable_gpu_booster(**options)
    try:
        yield
    finally:
        tf_booster.disable_gpu_booster()


def session_config(threads: int = 1) -> Any:
    """A ConfigProto with which plain TensorFlow gives the same bits at every run."""
    return v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)


def run_config(model_dir: Any, **kwargs: Any) -> tf.estimator.RunConfig:
    """One seed, one thread, a checkpoint at the end."""
    settings = {"tf_random_seed": 7, "session_config": session_config(), "save_summary_steps": 100}
    settings.update(kwargs)
    return tf.estimator.RunConfig(str(model_dir), **settings)


def entries_of(model_dir: Any) -> Dict[str, np.ndarray]:
    """All entries of the latest checkpoint; those of object-based checkpoints by their full names."""
    reader = tf.train.load_checkpoint(str(model_dir))
    names = [name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {name: reader.get_tensor(name) for name in names}


def train_estimator(
    make: Callable[[Any], tf.estimator.Estimator], input_fn: Callable, model_dir: Any, steps: int, **config: Any
) -> Outcome:
    """Trains `make(config)` for `steps` steps."""
    recorder = LossRecorder()
    tf.keras.utils.set_random_seed(
        7
    )  # Keras's initializers take their seeds from Python's `random`, not from the graph.
    make(run_config(model_dir, **config)).train(input_fn, steps=steps, hooks=[recorder])
    report = report_of(recorder.graph)
    return Outcome(np.array(recorder.losses), entries_of(model_dir), report.to_dict() if report else None)


def compare_estimators(
    make: Callable[[Any], tf.estimator.Estimator],
    input_fn: Callable,
    tmp_path: Any,
    steps: int = 100,
    bound: str = CLOSE,
    reordered: Sequence[Callable] = (),
    options: Optional[Dict[str, Any]] = None,
    **config: Any,
) -> Outcome:
    """Trains plain and boosted, and asserts that both are the same. Returns the boosted outcome, with its report.

    Args:
      make: from a RunConfig to an Estimator.
      input_fn: the records.
      bound: EXACT, CLOSE or XLA.
      reordered: the same records with the rows of each batch in other orders; sets the bound to like_reordered.
      options: of enable_gpu_booster.
    """
    plain = train_estimator(make, input_fn, tmp_path / "plain", steps, **config)
    with boosted(**(options or {})):
        mine = train_estimator(make, input_fn, tmp_path / "boosted", steps, **config)
    assert_no_pass_failed(mine.report)
    assert len(plain.losses) == steps and len(set(plain.losses.tolist())) > 1, plain.losses
    noise = [train_estimator(make, fn, tmp_path / f"reordered{i}", steps, **config) for i, fn in enumerate(reordered)]
    assert_same(plain, mine, bound, noise)
    return mine


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The norm of a − b over the norm of b; 0 where they are equal, as zeros are to zeros."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    difference = np.linalg.norm(a - b)
    return 0.0 if difference == 0 else difference / max(np.linalg.norm(b), 1e-30)


def assert_same(plain: Outcome, mine: Outcome, bound: str = CLOSE, noise: Sequence[Outcome] = ()) -> None:
    """Asserts that `mine` is `plain`, within the bound; `noise` is the plain program with its sums in other orders."""
    assert sorted(mine.entries) == sorted(plain.entries)
    least = 10 * BOUND if bound == XLA else BOUND
    for name, want in plain.entries.items():
        have = mine.entries[name]
        assert (have.shape, have.dtype) == (want.shape, want.dtype), name
        if bound == EXACT or not np.issubdtype(want.dtype, np.floating):
            np.testing.assert_array_equal(have, want, err_msg=name)
            continue
        assert np.isfinite(want).all() and np.isfinite(have).all(), name
        allowed = max([least, *(4 * distance(other.entries[name], want) for other in noise)])
        assert distance(have, want) <= allowed, f"{name}: {distance(have, want):.2e}, allowed are {allowed:.2e}"
    assert mine.losses.shape == plain.losses.shape
    if bound == EXACT:
        np.testing.assert_array_equal(mine.losses, plain.losses)
        return
    # A SUM over the batch is a large number; a loss of 20 cannot be known to 1e-5 in float32 after 100 steps.
    scale = max(1.0, float(np.abs(plain.losses).max()))
    allowed = max([least * scale, *(np.abs(other.losses - plain.losses).max() for other in noise)])
    worst = np.abs(mine.losses - plain.losses).max()
    assert worst <= allowed, f"losses: {worst:.2e}, allowed are {allowed:.2e}"


def assert_no_pass_failed(report: Dict[str, Any]) -> None:
    """A pass that fails is undone, and training goes on: the same numbers say nothing of it."""
    failed = [skip for p in report["passes"] for skip in p["skipped"] if "failed and is undone" in skip["reason"]]
    assert failed == []


def changed_by(report: Dict[str, Any]) -> List[str]:
    """Names of the passes that changed the graph."""
    return [p["name"] for p in report["passes"] if p["modified"]]
