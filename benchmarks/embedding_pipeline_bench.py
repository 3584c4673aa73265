"""Training steps with the embedding pipeline off, exact and async: stage times, and how much of what could overlap does.

Overlap efficiency is (off − pipelined) / (off − longest stage): 1 where the shorter half costs nothing. One thread each half, so that
two cores are enough; on one core the figures are what a pipeline costs that cannot win. Stages are measured by themselves, one after
the other.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import waiting_halves
from benchmarks.harness import OURS, Result, contest
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.worth import AHEAD

v1 = tf.compat.v1
STEPS = 20  # In one turn.
MODES = ("exact", "off", "async")
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


class Model(NamedTuple):
    """rows of a batch, features with `bag` words each that are hashed, looked up and summed, and dense layers on top."""

    rows: int
    features: int
    bag: int
    hidden: int
    layers: int


MODELS = {
    "equal halves": Model(rows=1024, features=16, bag=4, hidden=176, layers=2),
    "mostly dense": Model(rows=512, features=8, bag=4, hidden=512, layers=3),
    "3 ms": Model(rows=512, features=8, bag=2, hidden=96, layers=2),
    "1 ms": Model(rows=128, features=8, bag=2, hidden=96, layers=2),
    "small step": Model(rows=16, features=2, bag=1, hidden=8, layers=1),
}
WAITING = Model(rows=32, features=4, bag=1, hidden=8, layers=1)


def run(threads: int) -> Iterator[Result]:
    """threads: of cores. On one nothing can overlap, and the figures are what the pipeline costs there."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for name, model in MODELS.items():
        yield dataclasses.replace(contest_of(name, model), threads=threads)
    yield from waiting_halves.run(threads, _waiting_graph)


def contest_of(name: str, model: Model) -> Result:
    """Steps per second of the three modes; exact and off are made to agree first."""
    graphs = {mode: _graph(model, mode) for mode in MODES}
    tf.enable_gpu_booster()
    try:
        steps = {mode: Steps(*graphs[mode]) for mode in MODES}
        for _ in range(3):
            losses = {mode: of.step() for mode, of in steps.items()}
            assert losses["exact"] == losses["off"], losses
        for _ in range(3):  # Until the pipeline has decided how it runs.
            steps["exact"].turn(0), steps["async"].turn(0)
        halves = {f"{mode} apart": Halves(*graphs[mode]) for mode in ("exact", "async")}
        contestants = {**steps, **halves}
        rates = contest({mode: of.turn for mode, of in contestants.items()}, STEPS * 1e6, seconds=12.0)
        for of in contestants.values():
            of.session.close()
    finally:
        tf_booster.disable_gpu_booster()
    off = 1e3 / rates["off"]
    facts: Dict[str, Any] = {"off ms": round(off, 2)}
    for mode in ("exact", "async"):
        pipelined, (embedding, main) = 1e3 / rates[mode], halves[f"{mode} apart"].milliseconds()
        facts[f"{mode} ms"] = f"{pipelined:.2f} (EG {embedding:.2f}, MG {main:.2f})"
        facts[f"{mode} efficiency"] = round((off - pipelined) / (off - max(embedding, main)), 2)
    rates = {OURS: rates["exact"], "off": rates["off"], "async": rates["async"]}
    return Result("embedding_pipeline", name, 16, "zipf", 1, "steps/s", rates, facts)


def _graph(model: Model, mode: str, waits: bool = False) -> Tuple[tf.Graph, tf.Tensor, tf.Operation]:
    """A rewritten graph, its loss and its train op. The input costs next to nothing: batches lie ready. waits: both halves wait, too."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        loss, train = step_of(model, waits)
        pipelines.rewrite(graph, Options(pipeline=mode))
    return graph, loss, train


def step_of(model: Model, waits: bool = False) -> Tuple[tf.Tensor, tf.Operation]:
    """Loss and train op, in the default graph."""
    random = np.random.RandomState(0)
    words = random.zipf(1.2, [8, model.rows, model.features, model.bag]).astype(np.int64)
    # Text is made in the graph: as the input it would be copied string by string, on a third thread, and as a constant for
    # tens of seconds with each session.
    dataset = tf.data.Dataset.from_tensor_slices(words).repeat()
    batches = v1.data.make_one_shot_iterator(waiting_halves.waiting_input(dataset) if waits else dataset).get_next()
    batches = tf.strings.as_string(batches)
    tables = [tf_booster.get_hash_table(f"t{i}", 16) for i in range(model.features)]
    parts = [tf.reduce_sum(tf_booster.embedding_lookup(table, batches[:, i]), 1) for i, table in enumerate(tables)]
    hidden = tf.concat(parts, 1)
    for layer in range(model.layers):
        weights = v1.get_variable(f"w{layer}", [hidden.shape[1], model.hidden])
        hidden = tf.nn.relu(hidden @ weights)
    loss = tf.reduce_mean(tf.square(hidden - 1.0))
    if waits:
        loss = waiting_halves.waiting_loss(loss)
    return loss, v1.train.AdagradOptimizer(0.01).minimize(loss, v1.train.get_or_create_global_step())


def _waiting_graph(mode: str) -> Tuple[tf.Graph, tf.Tensor, tf.Operation]:
    return _graph(WAITING, mode, waits=True)


class Steps:
    """Training steps in a session of their own."""

    def __init__(self, graph: tf.Graph, loss: tf.Tensor, train: tf.Operation):
        self._loss, self._train = loss, train
        self.session = v1.Session(graph=graph, config=CONFIG)
        with graph.as_default():
            self.session.run(v1.global_variables_initializer())

    def step(self) -> float:
        """The loss of one step."""
        return self.session.run([self._loss, self._train])[0]

    def turn(self, _: int) -> None:
        """STEPS steps, without fetching anything."""
        for _ in range(STEPS):
            self.session.run(self._train)


class Halves(Steps):
    """The halves of a split graph one after the other, each timed by the driver."""

    def __init__(self, graph: tf.Graph, loss: tf.Tensor, train: tf.Operation):
        super().__init__(graph, loss, train)
        self._driver = driver_of(self.session)
        self._driver.always(AHEAD, depth=0)
        self._seconds: List[Tuple[float, float]] = []

    def turn(self, _: int) -> None:
        for _ in range(STEPS):
            timing = self._driver.timing
            before = timing.embedding, timing.main
            self.session.run(self._train)
            self._seconds.append((timing.embedding - before[0], timing.main - before[1]))

    def milliseconds(self) -> Tuple[float, float]:
        """Medians of EG and MG."""
        embedding, main = (1e3 * statistics.median(half) for half in zip(*self._seconds))
        return embedding, main


if __name__ == "__main__":
    waiting_halves.be_a_rank(sys.argv[sys.argv.index("--rank") + 1], _waiting_graph)
