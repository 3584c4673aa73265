"""The demo: the same DeepFM plain and boosted, side by side, on generated Criteo-shaped data.

    make demo                    (or: .venv/bin/python examples/demo.py [--quick])

Generates data whose best reachable AUC is known; trains and evaluates TensorFlow alone on hashed-bucket feature columns, and
tf_booster on hash tables of the same width, without and with its pipeline, in processes that take turns; then the same again on two
ranks by Horovod, with half the batch each; predicts, exports, reloads the exports in fresh processes and compares; prints a table, and writes demo/report.html
with plots.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Dict, Iterator, List, Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tqdm import tqdm

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "demo_worker.py")
RUNS = {
    "plain": ["--no-booster", "--embeddings", "variable"],
    "boosted": ["--booster", "--embeddings", "hash"],
    "exact": ["--booster", "--embeddings", "hash", "--pipeline", "exact"],
    "async": ["--booster", "--embeddings", "hash", "--pipeline", "async"],
}
RANKS = 2
TOLERANCE = (
    1e-5  # Between a prediction of the Estimator and of its export: other batch sizes, other order of additions.
)


class DemoError(Exception):
    """Something that the user must know; shown without a traceback."""


class Worker:
    """A training process: events come as JSON lines, `go` lets it run on."""

    def __init__(self, name: str, argv: List[str], log: str) -> None:
        self.name, self.log = name, log
        with open(log, "w") as f:
            # Its own session: Ctrl-C reaches only this process, which ends the others in order.
            self.process = subprocess.Popen(
                [sys.executable, WORKER] + argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=f,
                text=True,
                start_new_session=True,
            )

    def go(self) -> None:
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()

    def event(self) -> Dict:
        line = self.process.stdout.readline()
        if not line:
            self.fail()
        return json.loads(line)

    def fail(self) -> None:
        code = self.process.wait()
        raise DemoError(
            "the %s process ended with status %d; the end of %s:\n%s" % (self.name, code, self.log, tail(self.log))
        )

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """An interrupt inside comes at the end, so that no process begins of which nobody knows."""
    caught: List[int] = []
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {n: signal.signal(n, lambda number, _: caught.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise KeyboardInterrupt


def tail(path: str, lines: int = 12) -> str:
    with open(path, errors="replace") as f:
        return "".join("    " + line for line in f.readlines()[-lines:]).rstrip()


def train_in_turns(workers: Dict[str, Worker], bars: Dict[str, tqdm]) -> None:
    """Lets one worker compute at a time, turn by turn, until all have trained; then each finishes alone."""
    for worker in workers.values():
        worker.event()  # "ready": graphs are built and sessions made, for both at once.
    running = dict(workers)
    while running:
        for name, worker in list(running.items()):
            worker.go()
            event = worker.event()
            if event["event"] == "trained":
                del running[name]
                bars[name].update(bars[name].total - bars[name].n)
                continue
            bars[name].update(event["step"] - bars[name].n)
            if event["samples_per_second"]:
                bars[name].set_postfix_str("%6.0f samples/s" % event["samples_per_second"], refresh=False)
    for name, worker in workers.items():
        bars[name].set_description_str("%-7s predict" % name, refresh=False)
        worker.go()
        worker.event()  # "done"
        if worker.process.wait():
            worker.fail()


def train_on_ranks(out: str, common: List[str], batch_size: int, bar: tqdm) -> Optional[Dict]:
    """The boosted training on RANKS ranks of one thread, which share each batch; None, with a line, where there is no Horovod."""
    result, log = os.path.join(out, "ranks.json"), os.path.join(out, "ranks.log")
    events = result + ".events"
    for path in (result, events):
        if os.path.exists(path):
            os.remove(path)
    if subprocess.run([sys.executable, "-c", "import horovod.tensorflow"], capture_output=True).returncode:
        bar.write("no Horovod for this TensorFlow, so there is no run on %d ranks" % RANKS)
        return None
    argv = ["ranks", result, "--model_dir", os.path.join(out, "ranks")] + common + RUNS["boosted"]
    argv += ["--batch_size", str(batch_size // RANKS), "--threads", "1"]
    job = None
    try:
        with interrupts_held(), open(log, "w") as f:
            job = subprocess.Popen(
                [sys.executable, "-m", "tf_booster.run", "-np", str(RANKS), WORKER] + argv,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=f,
                start_new_session=True,
            )
        while job.poll() is None:
            time.sleep(0.2)
            bar.update(last_step(events) - bar.n)
    finally:
        if job and job.poll() is None:
            job.terminate()  # The launcher ends its ranks.
            job.wait()
    if job.returncode:
        raise DemoError(
            "the run on %d ranks ended with status %d; the end of %s:\n%s" % (RANKS, job.returncode, log, tail(log))
        )
    bar.update(bar.total - bar.n)
    with open(result) as f:
        return json.load(f)


def last_step(events: str) -> int:
    if not os.path.exists(events):
        return 0
    with open(events) as f:
        return max([json.loads(line).get("step", 0) for line in f if line.endswith("\n")], default=0)


def check_export(name: str, result: Dict, records: str, out: str) -> Dict:
    """Scores the records through the export in a fresh process; raises DemoError where predictions differ."""
    import numpy as np

    path = os.path.join(out, name + "_served.npy")
    expected = np.asarray(result["predictions"])
    command = [
        sys.executable,
        WORKER,
        "serve",
        result["export"],
        records,
        path,
        str(len(expected)),
        str(int(name == "boosted")),
    ]
    log = os.path.join(out, name + "_serve.log")
    with open(log, "w") as f:
        if subprocess.run(command, stdout=f, stderr=f, stdin=subprocess.DEVNULL).returncode:
            raise DemoError(
                "the %s export %s cannot be loaded and served; the end of %s:\n%s"
                % (name, result["export"], log, tail(log))
            )
    difference = float(np.abs(np.load(path) - expected).max())
    if not difference <= TOLERANCE:
        raise DemoError(
            "the %s export predicts otherwise than its Estimator: largest difference %g over %d records, wanted at most %g"
            % (name, difference, len(expected), TOLERANCE)
        )
    return {"records": len(expected), "largest_difference": difference}


def run(args: argparse.Namespace) -> str:
    from criteo_generator import generate
    from demo_page import print_table, write_page

    begin = time.time()
    data = os.path.join(args.out, "data")
    for name in ["data", "ranks"] + list(RUNS):
        shutil.rmtree(os.path.join(args.out, name), ignore_errors=True)
    os.makedirs(args.out, exist_ok=True)
    meta = generate(data, args.train, args.eval, args.seed)
    print("reachable AUC on the %d evaluation records: %.4f" % (args.eval, meta["eval"]["reachable_auc"]), flush=True)

    steps = args.train // args.batch_size * args.epochs
    common = [
        "--data",
        os.path.join(data, "train-*"),
        "--eval_data",
        os.path.join(data, "eval-*"),
        "--steps",
        str(steps),
        "--eval_every",
        str(max(1, -(-steps // args.evaluations))),
        "--buckets",
        str(args.buckets),
    ]
    workers: Dict[str, Worker] = {}
    bars: Dict[str, tqdm] = {}
    try:
        for i, (name, options) in enumerate(RUNS.items()):
            argv = ["train", os.path.join(args.out, name + ".json"), "--model_dir", os.path.join(args.out, name)]
            argv += ["--batch_size", str(args.batch_size)]
            with interrupts_held():
                workers[name] = Worker(name, argv + common + options, os.path.join(args.out, name + ".log"))
            bars[name] = progress_bar(name, steps, i)
        train_in_turns(workers, bars)
        bars["ranks"] = progress_bar("%d ranks" % RANKS, steps, len(RUNS))
        on_ranks = train_on_ranks(args.out, common, args.batch_size, bars["ranks"])
    finally:
        for bar in bars.values():
            bar.close()
        for worker in workers.values():
            worker.stop()

    results = {}
    for name in RUNS:
        with open(os.path.join(args.out, name + ".json")) as f:
            results[name] = json.load(f)
        if "predictions" in results[name]:
            results[name]["served"] = check_export(name, results[name], meta["eval"]["files"][0], args.out)
    if on_ranks:
        results["ranks"] = on_ranks
    seconds = time.time() - begin
    print_table(meta, results)
    print("\n" + results["boosted"]["report_text"])
    page = write_page(args.out, meta, results, seconds)
    print("\nwrote %s after %.0f s" % (page, seconds))
    return page


def progress_bar(name: str, steps: int, position: int) -> tqdm:
    quick = 0.2 if sys.stderr.isatty() else 10
    return tqdm(total=steps, unit=" steps", desc="%-7s train" % name, position=position, mininterval=quick)


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", default=os.path.join(os.path.dirname(HERE), "demo"), help="folder (default %(default)s)"
    )
    parser.add_argument("--train", type=int, default=600_000, help="training records (default %(default)s)")
    parser.add_argument("--eval", type=int, default=50_000, help="evaluation records (default %(default)s)")
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--buckets", type=int, default=50_000, help="of a field of the plain model (default %(default)s)"
    )
    parser.add_argument("--evaluations", type=int, default=6, help="evaluations during training (default %(default)s)")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--quick", action="store_true", help="a few seconds of training, for tests")
    args = parser.parse_args(argv)
    if args.quick:
        args.train, args.eval, args.batch_size, args.evaluations = 20_000, 4_000, 256, 2
        args.buckets = 5_000  # The plain model's checkpoints are 200 MB otherwise, four of them.
    if args.train < 2 * args.batch_size or args.eval < 100:
        parser.error(
            "--train %d, --eval %d: wanted at least two batches (%d) and 100 records"
            % (args.train, args.eval, 2 * args.batch_size)
        )
    return args


def main(argv: Optional[List[str]] = None) -> int:
    args = parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(args)
    except KeyboardInterrupt:
        print("\ninterrupted; what was written is in %s" % args.out, file=sys.stderr)
        return 130
    except (DemoError, OSError) as error:
        print("\ndemo failed: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
