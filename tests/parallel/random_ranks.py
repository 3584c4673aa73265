"""Estimators put together at random that train on several ranks, and in one process with their batches joined: both end the same.

`python tests/parallel/random_ranks_test.py 50 --first 1000` tries 50 seeds on two ranks. A seed's number makes it again. The one process is plain
TensorFlow, or tf_booster where there are hash tables. Inputs of ranks differ: batches of other sizes and without rows, an end that comes
earlier or at once, ids that are on one rank alone.
"""

from __future__ import annotations

import os
import random
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import checkpoint_ranks
import equal_training as equal
import numpy as np
import tensorflow as tf
from random_rank_models import ABSENT, model_fn_of
from simulated_card import simulated_card

import tf_booster

v1 = tf.compat.v1
INT64 = np.iinfo(np.int64)
Batch = Dict[str, np.ndarray]


def draw(seed: int) -> Dict[str, Any]:
    """The settings of an Estimator and of its inputs."""
    r = random.Random(seed)
    tables = r.random() < 0.7
    dims = r.choice([[4], [4, 7], [1, 3, 16]])

    def feature(i: int) -> Dict[str, Any]:
        kind = r.choice(["one", "row", "list", "list"])
        use = r.choice(["lookup", "lookup", "unique", "column", "linear"])
        return {
            "name": f"f{i}",
            "kind": kind,
            "store": r.choice(["table", "table", "variable"] if tables else ["variable"]),
            "use": use,
            "shares": r.random() < 0.3,  # The store of an earlier feature, if there is one that fits.
            "dim": r.choice(dims),
            "combiner": r.choice(["mean", "sum", "sqrtn"]),
            "weighted": r.random() < 0.25,
            "max_norm": r.choice([None, None, None, 0.4]),
            "ids": r.choice(["few", "many", "negative", "extreme", "one", "own"]),
            "min_frequency": r.choice([0, 0, 0, 2, 5]) if use != "unique" else 0,
            "max_idle_steps": r.choice([None, None, None, 3]),
        }

    return {
        "seed": seed,
        "features": [feature(i) for i in range(r.randint(1, 6))],
        "layers": r.choice([[], [5], [8, 4]]),
        "loss": r.choice(["mean", "mean", "sum"]),
        "l2": r.choice([None, None, "dense", "all", "rows"]),
        "clip": r.choice(["none", "none", "value", "norm", "global norm"]),
        "optimizer": r.choice(sorted(equal.OPTIMIZERS)),
        "second_optimizer": r.choice([None, None, *sorted(equal.OPTIMIZERS)]),
        "decayed": r.random() < 0.2,
        "input": r.choice(["shares", "shares", "divided"]),
        "batch": r.choice([1, 3, 8]),
        "sizes": r.choice(["equal", "uneven", "uneven", "empty"]),
        "steps": [r.choice([4, 9, 14]) for _ in range(r.choice([1, 1, 2]))],  # Of each call of train().
        "options": {
            "fuse_tables": r.choice(["auto", True, False]),
            "fuse_variables": r.choice(["auto", False]),
            "pipeline": r.choice(["exact", "off"]),
            "partition": r.choice(["hash", "mod"]),
        },
        "card": r.random() < 0.3,  # A simulated one, for the tables.
    }


def _ids(kind: str, rng: np.random.RandomState, rank: int, size: int, shape: Tuple[int, ...]) -> np.ndarray:
    few = rng.zipf(1.4, shape) % 12
    return {
        "few": lambda: few,
        "many": lambda: rng.randint(0, 1000, shape),
        "negative": lambda: few - 6,
        "extreme": lambda: rng.choice([INT64.min, INT64.min + 1, -1, 0, INT64.max - 1, INT64.max], shape),
        "one": lambda: np.full(shape, 77),
        "own": lambda: few * size + rank,
    }[kind]().astype(np.int64)


def _batch(case: Dict[str, Any], rng: np.random.RandomState, rank: int, size: int, rows: int) -> Batch:
    found = {"numbers": rng.randn(rows, 2).astype(np.float32), "label": (rng.rand(rows) < 0.4).astype(np.float32)}
    for f in case["features"]:
        width = {"one": 1, "row": 3, "list": 4}[f["kind"]]
        ids = _ids(f["ids"], rng, rank, size, (rows, width))
        if f["kind"] == "list":
            ids = np.where(np.arange(width) < rng.randint(0, width + 1, [rows, 1]), ids, ABSENT)
        found[f["name"]] = ids
        found[f["name"] + "_weights"] = (rng.rand(rows, width) + 0.1).astype(np.float32)
    return found


def inputs_of(case: Dict[str, Any], call: int, size: int) -> Tuple[List[List[Batch]], List[Batch], Batch]:
    """(the batches of each rank, the joined ones, all records one after the other) of one call of train()."""
    rng = np.random.RandomState([case["seed"] % 2**32, call])
    steps, batch = case["steps"][call], case["batch"]
    if case["input"] == "divided":
        # Rank r has every size-th record.
        whole = _batch(case, rng, 0, size, rng.randint(steps * batch, size * steps * batch))
        count = len(whole["label"])
        ranks = []
        for rank in range(size):
            own = np.arange(rank, count, size)
            ranks.append([_rows(whole, own[i : i + batch]) for i in range(0, len(own), batch)])
    else:
        ends = [steps if rank == call % size else rng.choice([0, steps // 2, steps]) for rank in range(size)]
        least = {"equal": batch, "uneven": 1, "empty": 0}[case["sizes"]]
        ranks = []
        for rank, end in enumerate(ends):
            never_empty = 1 if rank == call % size else 0  # A mean over nothing is no number, in one process too.
            rows = [max(never_empty, rng.randint(least, batch + 1)) for _ in range(end)]
            ranks.append([_batch(case, rng, rank, size, n) for n in rows])
        whole = _join([each for own in ranks for each in own])
    longest = max(map(len, ranks))
    return ranks, [_join([own[i] for own in ranks if i < len(own)]) for i in range(longest)], whole


def _rows(batch: Batch, which: Any) -> Batch:
    return {name: values[which] for name, values in batch.items()}


def _join(batches: List[Batch]) -> Batch:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _input_fn(batches: List[Batch], like: Batch) -> Callable[[], tf.data.Dataset]:
    signature = {name: tf.TensorSpec([None, *v.shape[1:]], v.dtype) for name, v in like.items()}
    return lambda: tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature).map(_labelled)


def _labelled(batch: Any) -> Any:
    features = dict(batch)
    return features, features.pop("label")


def live(
    case: Dict[str, Any],
    folder: str,
    calls: List[Callable[[], tf.data.Dataset]],
    asked: Callable[[], tf.data.Dataset],
    steps: Sequence[Optional[int]],
) -> Dict[str, Any]:
    """Trains once for each of `calls`, then evaluates (and, where ranks read one input, predicts) with `asked`.

    `steps`: of each call; None is until the input ends.

    Returns all that must be equal: losses, metrics, predictions, the checkpoint's tensors.
    """
    make = lambda: tf.estimator.Estimator(
        model_fn_of(case),
        config=tf.estimator.RunConfig(
            folder,
            tf_random_seed=7,
            session_config=v1.ConfigProto(
                intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True
            ),
            save_summary_steps=None,
            save_checkpoints_steps=1000,
            log_step_count_steps=None,
        ),
    )
    losses: List[float] = []
    for input_fn, most in zip(calls, steps):
        recorder = equal.LossRecorder()
        make().train(input_fn, hooks=[recorder], steps=most)
        losses += recorder.losses
    found = {"losses": np.array(losses)}
    metrics = make().evaluate(asked)
    found.update({f"metric {name}": value for name, value in metrics.items() if name != "loss"})
    if case["input"] == "divided":
        found["predictions"] = np.array([p["logits"] for p in make().predict(asked)])
    found.update(checkpoint_ranks.read(tf.train.latest_checkpoint(folder)))
    return found


def try_on_ranks(rank: int, size: int, seeds: List[int], folder: str) -> Dict[int, str]:
    """What differs, by seed; of all ranks together each seed is compared by one. Runs on each rank."""
    mine, wrong = {}, {}
    for seed in seeds:
        case = draw(seed)
        inputs = [inputs_of(case, call, size) for call in range(len(case["steps"]))]
        divided = case["input"] == "divided"
        options = {"shard_input": "auto" if divided else False}
        options["gradient_reduction"] = "sum" if case["loss"] == "sum" else "average"

        def whole(records: Batch, case: Dict[str, Any] = case) -> Callable[[], tf.data.Dataset]:
            return lambda: tf.data.Dataset.from_tensor_slices(records).batch(case["batch"]).map(_labelled)

        own = [whole(records) if divided else _input_fn(ranks[rank], records) for ranks, _, records in inputs]
        options["device"] = "gpu" if case["card"] else "cpu"
        try:
            with simulated_card(case["card"]):
                tf.enable_gpu_booster(seed=3, **options, **case["options"])
                mine[seed] = live(case, os.path.join(folder, f"{seed}"), own, own[0], [None] * len(own))
        except Exception:  # pylint: disable=broad-except
            wrong[seed] = traceback.format_exc()[-3000:]
        finally:
            tf_booster.disable_gpu_booster()
    for i, seed in enumerate(seeds):
        by = 0 if draw(seed)["input"] == "divided" else i % size  # Rank 0 alone has predictions.
        if by == rank and seed in mine:
            wrong[seed] = compare(draw(seed), mine[seed], size, os.path.join(folder, f"{seed}_alone"))
    return {seed: said for seed, said in wrong.items() if said}


def compare(case: Dict[str, Any], found: Dict[str, Any], size: int, folder: str) -> str:
    """What of `found` differs from the one process that reads joined batches; "" if nothing does."""
    inputs = [inputs_of(case, call, size) for call in range(len(case["steps"]))]

    def one_process(name: str, order: Callable[[Batch], Any]) -> Dict[str, Any]:
        calls = [_input_fn([_rows(b, order(b)) for b in joined], records) for _, joined, records in inputs]
        records = inputs[0][2]
        asked = lambda: tf.data.Dataset.from_tensors(records).map(_labelled)
        if any(f["store"] == "table" for f in case["features"]):
            tf.enable_gpu_booster(seed=3, horovod=False)
        try:
            # In a run that finds the input at its end, TensorFlow's sparse Adam decays its slots: so none is made.
            return live(case, folder + name, calls, asked, [len(joined) for _, joined, _ in inputs])
        finally:
            tf_booster.disable_gpu_booster()

    joined = one_process("", lambda batch: slice(None))
    wrong = differences(case, joined, found, [])
    if not wrong:
        return ""
    # The same sums in other orders tell what a difference in the last bits becomes.
    noise = [
        one_process(f"_{k}", lambda b, k=k: np.random.RandomState(k).permutation(len(b["label"]))) for k in (1, 2, 3)
    ]
    return differences(case, joined, found, noise)


def differences(
    case: Dict[str, Any], joined: Dict[str, Any], found: Dict[str, Any], noise: List[Dict[str, Any]]
) -> str:
    """What differs by more than 1e-5 (by norms) and by more than eight times what the one process does from itself in another order of rows."""
    if sorted(joined) != sorted(found):
        return f"tensors {sorted(found)}, wanted {sorted(joined)}"
    wrong, told = [], {name for name in joined if name == "losses" or name.startswith("metric ")}
    for name, want in joined.items():
        if name.endswith("/frequencies") and any(f["use"] == "unique" for f in case["features"]):
            continue  # Of ids that the program makes distinct these are counted once for each rank, and the report says so.
        want, have = np.asarray(want), np.asarray(found[name])
        if want.shape != have.shape:
            wrong.append(f"{name}: shape {have.shape}, wanted {want.shape}")
        elif want.dtype.kind != "f":
            if not np.array_equal(want, have):
                wrong.append(f"{name}: {have.tolist()}, wanted {want.tolist()}")
        else:
            least = 1e-5 * max(1.0, 1.0 / max(np.linalg.norm(want), 1e-30)) if name in told else 1e-5
            allowed = max([least, *(8 * equal.distance(other[name], want) for other in noise)])
            far = equal.distance(have, want)
            if not far <= allowed:
                wrong.append(f"{name}: {far:.2e}, allowed are {allowed:.2e}")
    return "\n".join(wrong)
