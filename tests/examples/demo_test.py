"""The demo end to end in its quick form, and how it ends when something goes wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from example_programs import EXAMPLES

import demo
import demo_page

PROGRAM = [sys.executable, os.path.join(EXAMPLES, "demo.py"), "--quick"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory, example_environment):
    """(folder, what was printed) of one quick demo."""
    out = str(tmp_path_factory.mktemp("demo"))
    done = subprocess.run(
        PROGRAM + ["--out", out], env=example_environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out, done.stdout


def test_the_page_is_self_contained_with_three_plots(quick):
    with open(os.path.join(quick[0], "report.html")) as f:
        page = f.read()
    assert page.count('src="data:image/png;base64,iVBOR') == 3
    assert "http" not in page
    for name, _ in demo_page.PLOTS:
        with open(os.path.join(quick[0], name), "rb") as f:
            assert f.read(4) == b"\x89PNG"


def test_the_table_and_the_page_say_the_same(quick):
    out, printed = quick
    with open(os.path.join(out, "data", "meta.json")) as f:
        reachable = json.load(f)["eval"]["reachable_auc"]
    with open(os.path.join(out, "report.html")) as f:
        page = f.read()
    for name in ("plain", "boosted"):
        with open(os.path.join(out, name + ".json")) as f:
            result = json.load(f)
        assert 0.5 < result["auc"] < reachable
        assert 0 < result["input_processor_seconds"] and 0 < result["step_processor_seconds"]
        share = "%.1f of %.1f ms" % (1e3 * result["input_processor_seconds"], 1e3 * result["step_processor_seconds"])
        assert share in printed and share in page
        assert "%.4f" % result["auc"] in printed and "%.4f" % result["auc"] in page
        assert [e["step"] for e in result["evaluations"]] == [39, 78]
        assert [g["step"] for g in result["growth"]] == [0, 39, 78]
        assert result["evaluations"][-1]["auc"] == pytest.approx(result["auc"])
    assert "AUC (reachable %.4f)" % reachable in printed


def test_boosted_tables_grow_and_plain_ones_do_not(quick):
    growth = {}
    for name in ("plain", "boosted"):
        with open(os.path.join(quick[0], name + ".json")) as f:
            growth[name] = json.load(f)["growth"]
    assert [g["rows"] for g in growth["plain"]] == [26 * 5_000] * 3
    rows = [g["rows"] for g in growth["boosted"]]
    assert rows[0] == 0 < rows[1] < rows[2] < 26 * 5_000
    assert growth["boosted"][2]["tables"] == growth["plain"][2]["tables"] == 26


def test_the_pipelines_stand_beside_the_boosted_run(quick):
    out, printed = quick
    results = {}
    for name in ("boosted", "exact", "async"):
        with open(os.path.join(out, name + ".json")) as f:
            results[name] = json.load(f)
    with open(os.path.join(out, "report.html")) as f:
        page = f.read()
    assert results["boosted"]["report"]["pipeline"] == {}
    for name in ("exact", "async"):
        assert results[name]["growth"][-1]["rows"] == results["boosted"]["growth"][-1]["rows"]
        pipeline = results[name]["report"]["pipeline"]
        assert (pipeline["mode"], pipeline["steps"]) == (name, 78)
        halves = "%(embedding_ms).2f, %(main_ms).2f, %(waiting_ms).2f ms" % pipeline
        assert halves in printed and halves in page
        assert "pipeline " + name in printed and demo_page.bound_by(results[name]) in printed
    assert results["exact"]["auc"] == results["boosted"]["auc"] and "identical" in printed
    off, exact = (tf.train.load_checkpoint(os.path.join(out, name)) for name in ("boosted", "exact"))
    for name in ("numeric_first_order/kernel", "dense_0/kernel", "deep/bias/Adagrad"):
        np.testing.assert_array_equal(exact.get_tensor(name), off.get_tensor(name))
    # Of 4,000 records, after 78 steps.
    assert results["async"]["auc"] == pytest.approx(results["boosted"]["auc"], abs=0.01)


def test_two_ranks_train_the_same_model(quick):
    out, printed = quick
    with open(os.path.join(out, "boosted.json")) as f:
        alone = json.load(f)
    with open(os.path.join(out, "ranks.json")) as f:
        ranks = json.load(f)
    assert ranks["report"]["size"] == 2
    assert {kind: n for kind, n in ranks["report"]["collectives_per_step"].items() if n} == {"tables": 3, "dense": 1}
    assert "boosted, 2 ranks" in printed and "tables 3, dense 1" in printed
    assert ranks["settings"]["batch_size"] * 2 == alone["settings"]["batch_size"]
    # They meet the records in another order, so a few records at the end are others.
    assert ranks["growth"][-1]["rows"] == pytest.approx(alone["growth"][-1]["rows"], rel=0.01)
    assert ranks["auc"] == pytest.approx(alone["auc"], abs=0.02)  # Of 4,000 records, after 78 steps.


def test_exports_are_compared_and_a_difference_is_an_error(quick, monkeypatch, example_environment):
    with open(os.path.join(quick[0], "plain.json")) as f:
        result = json.load(f)
    records = os.path.join(quick[0], "data", "eval-00000-of-00001.tfrecord")
    assert demo.check_export("plain", result, records, quick[0])["records"] == len(result["predictions"]) == 2048
    result["predictions"][7] += 0.01
    with pytest.raises(demo.DemoError, match="predicts otherwise"):
        demo.check_export("plain", result, records, quick[0])


def test_a_failing_process_is_named_with_the_end_of_its_log(tmp_path):
    log = str(tmp_path / "plain.log")
    worker = demo.Worker("plain", ["train", "result.json", "--data", "d"], log)
    with pytest.raises(demo.DemoError, match="(?s)plain process ended with status 2.*--model_dir"):
        worker.event()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert demo.main(["--quick", "--out", str(tmp_path / "file" / "demo")]) == 1
    error = capsys.readouterr().err
    assert error.strip().startswith("demo failed: ") and "Traceback" not in error


def test_an_interrupt_while_a_process_begins_comes_when_it_is_known():
    begun = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with demo.interrupts_held():
                os.kill(os.getpid(), signal.SIGINT)
                begun.append("known")
        assert begun and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_processes_and_says_so(tmp_path, example_environment):
    out = tmp_path / "demo"
    process = subprocess.Popen(
        [*PROGRAM[:-1], "--train", "2048", "--eval", "100", "--out", str(out)],
        env=example_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs, and so their children, ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.time() + 300
        while not (out / "boosted.log").exists():
            assert process.poll() is None and time.time() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in error and "Traceback" not in error
    children = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(out) not in children
