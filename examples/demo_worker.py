"""One training process of the demo: runs deepfm_estimator.py, in turns with the other process, and says how it goes.

    python demo_worker.py train RESULT.json [arguments of deepfm_estimator.py]
    python demo_worker.py serve EXPORT_DIR RECORDS PREDICTIONS.npy COUNT BOOSTER(0 or 1)
    python -m tf_booster.run -np N demo_worker.py ranks RESULT.json [arguments of deepfm_estimator.py]

`train` writes one JSON object a line to stdout and waits for a line on stdin before each turn, so that of two processes one
computes at a time: their speeds are then measured under the same load. What TensorFlow prints goes to stderr. `ranks` trains the same
model on N ranks at once, without turns; rank 0 appends what it would have said to RESULT.json.events.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from typing import Dict, List, Optional, TextIO

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import deepfm_estimator as deepfm

TURN = 25  # Steps of a turn.
# Steps not measured after a turn begins or a checkpoint was written: the queues of the input pipeline are full then.
WARM_UP = 5
PREDICTIONS = 2048
INPUT_BATCHES = 60  # On which the input pipeline is measured alone.


class Turns(tf.estimator.SessionRunHook):
    """Waits for the word before each turn, times the steps, and tells the parent."""

    def __init__(self, args, channel: TextIO) -> None:
        self.args, self.channel = args, channel
        self._report, self.report_text = None, ""
        self.speeds: List[Dict] = []
        self._skip, self._last, self._seconds, self._measured, self._steps = WARM_UP, 0.0, 0.0, 0, 0
        self._last_processor, self._processor, self._processor_steps = 0.0, 0.0, 0

    @property
    def processor_seconds(self) -> float:
        """Of a step, over all threads, reading ahead included."""
        return self._processor / max(1, self._processor_steps)

    @property
    def report(self) -> Optional[Dict]:
        """Of the training graph; what a pipeline's halves took is in it when training has ended."""
        return self._report and self._report.to_dict()

    def skip(self, steps: int) -> None:
        """Leaves the next `steps` steps out of the measurement."""
        self._skip = steps

    def tell(self, **event) -> None:
        self.channel.write(json.dumps(event) + "\n")
        self.channel.flush()

    def wait(self) -> None:
        if not sys.stdin.readline():
            raise SystemExit("the parent process is gone")
        self._skip, self._last = WARM_UP, time.perf_counter()

    def after_create_session(self, session, coord) -> None:
        if self.args.booster:
            import tf_booster

            self._report = tf_booster.report()
            self.report_text = str(self._report)
        self.tell(event="ready")
        self.wait()

    def after_run(self, run_context, run_values) -> None:
        now, processor = time.perf_counter(), time.process_time()
        if self._skip:
            self._skip -= 1
        else:
            self._seconds += now - self._last
            self._measured += 1
            self._processor += processor - self._last_processor
            self._processor_steps += 1
        self._last, self._last_processor = now, processor
        self._steps += 1
        if self._steps % TURN == 0:
            self._end_turn(self._steps)

    def _end_turn(self, step: int) -> None:
        speed = None
        if self._seconds:
            speed = self._measured * self.args.batch_size / self._seconds
            self.speeds.append({"step": step, "samples_per_second": speed})
        self._seconds, self._measured = 0.0, 0
        self.tell(event="turn", step=step, samples_per_second=speed)
        self.wait()


class NoTurns(Turns):
    """Times the steps of ranks that run at the same time, and waits for nobody."""

    def wait(self) -> None:
        self._skip, self._last = WARM_UP, time.perf_counter()


class Growth(tf.estimator.CheckpointSaverListener):
    """Notes the size of each checkpoint, and keeps checkpoints and evaluations out of the measurement."""

    def __init__(self, model_dir: str, turns: Turns) -> None:
        self.model_dir, self.turns = model_dir, turns
        self.sizes: List[Dict] = []

    def after_save(self, session, global_step_value) -> None:
        self.turns.skip(WARM_UP + 1)  # The step that is running has waited for the checkpoint and the evaluation.
        size = describe_checkpoint(os.path.join(self.model_dir, "model.ckpt-%d" % global_step_value))
        self.sizes.append(dict(size, step=int(global_step_value)))


def describe_checkpoint(prefix: str) -> Dict:
    """Rows of the embeddings and bytes on disk, read from the checkpoint as anyone can.

    A hash table is `<table>/keys` and more; a Variable of an embedding_column is `.../embedding_weights`.
    """
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    tables = {name: shape[0] for name, shape in shapes.items() if name.endswith("/keys")}
    variables = {name: shape[0] for name, shape in shapes.items() if name.endswith("/embedding_weights")}
    return {
        "tables": len(tables) or len(variables),
        "rows": sum((tables or variables).values()),
        "bytes": sum(os.path.getsize(f) for f in glob.glob(prefix + ".data-*") + [prefix + ".index"]),
    }


def read_evaluations(model_dir: str) -> List[Dict]:
    """Step and AUC of every evaluation, from the summaries that Estimator writes."""
    found = {}
    for path in glob.glob(os.path.join(model_dir, "eval", "events*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "auc":
                    found[event.step] = (
                        float(tf.make_ndarray(value.tensor)) if value.HasField("tensor") else value.simple_value
                    )
    return [{"step": step, "auc": found[step]} for step in sorted(found)]


def input_processor_seconds(args) -> float:
    """Processor time of a training batch without the model: read, shuffled, parsed; over all threads."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        dataset = deepfm.input_fn(args.data, args.batch_size, training=True, eval_path=args.eval_data)()
        iterator = v1.data.make_initializable_iterator(dataset)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        _, labels = iterator.get_next()
        # As Estimator runs it: where the booster is on, the session's graph is rewritten.
        with v1.train.MonitoredSession() as session:
            for _ in range(INPUT_BATCHES):  # The shuffle's buffer fills; as much is read ahead then as after the last.
                session.run(labels.op)
            begin = time.process_time()
            for _ in range(INPUT_BATCHES):
                session.run(labels.op)
            return (time.process_time() - begin) / INPUT_BATCHES


def train(result_path: str, argv: List[str], channel: TextIO) -> None:
    """Trains, evaluates, exports, without a pipeline also predicts; writes what it found to `result_path`."""
    args = deepfm.parse_args(argv)
    if args.booster:
        import tf_booster

        tf_booster.enable_gpu_booster(pipeline=args.pipeline)
    estimator = deepfm.make_estimator(args)
    turns = Turns(args, channel)
    growth = Growth(args.model_dir, turns)
    metrics, exports = deepfm.train_and_evaluate(estimator, args, hooks=[turns], listeners=[growth])
    turns.tell(event="trained")
    turns.wait()
    result = describe_training(args, metrics, turns, growth)
    if args.pipeline == "off":  # Only training has a pipeline.
        begin = time.perf_counter()
        predictions = np.asarray(deepfm.predict(estimator, args, PREDICTIONS), np.float32)
        result.update(
            input_processor_seconds=input_processor_seconds(args),
            export=exports[0].decode(),
            predictions=predictions.tolist(),
            predict_seconds=time.perf_counter() - begin,
        )
    with open(result_path, "w") as f:
        json.dump(result, f)
    turns.tell(event="done")


def train_on_ranks(result_path: str, argv: List[str]) -> None:
    """Trains and evaluates on this rank; rank 0 writes what it found to `result_path`."""
    import tf_booster

    args = deepfm.parse_args(argv)
    tf_booster.enable_gpu_booster()
    estimator = deepfm.make_estimator(args)
    first = os.environ["HOROVOD_RANK"] == "0"
    with open(result_path + ".events" if first else os.devnull, "w") as channel:
        turns = NoTurns(args, channel)
        growth = Growth(args.model_dir, turns)
        metrics, _ = deepfm.train_and_evaluate(estimator, args, hooks=[turns], listeners=[growth] if first else [])
        if first:
            result = describe_training(args, metrics, turns, growth)
            with open(result_path, "w") as f:
                json.dump(result, f)


def describe_training(args, metrics: Dict, turns: Turns, growth: Growth) -> Dict:
    return {
        "auc": float(metrics["auc"]),
        "loss": float(metrics["loss"]),
        "evaluations": read_evaluations(args.model_dir),
        "speeds": turns.speeds,
        "step_processor_seconds": turns.processor_seconds,
        "growth": growth.sizes,
        "report": turns.report,
        "report_text": turns.report_text,
        "settings": vars(args),
        "tensorflow": tf.__version__,
    }


def serve(export: str, records: str, out: str, count: int, booster: bool) -> None:
    """Loads an export in this process, scores the first `count` records of the file `records`, saves the probabilities."""
    if booster:
        import tf_booster  # noqa: F401  Loads the op library; nothing is enabled.
    signature = tf.saved_model.load(export).signatures["serving_default"]
    serialized = next(iter(tf.data.TFRecordDataset(records).take(count).batch(count)))
    np.save(out, signature(examples=serialized)["probability"].numpy())


def main() -> int:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print must not come between the JSON lines.
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    if sys.argv[1] == "train":
        train(sys.argv[2], sys.argv[3:], channel)
    elif sys.argv[1] == "ranks":
        train_on_ranks(sys.argv[2], sys.argv[3:])
    else:
        serve(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6] == "1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
