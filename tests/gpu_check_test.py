"""tools/gpu_check.sh with pretended programs: what it runs, what it goes on after, and the report that it leaves."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

_SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "tools" / "gpu_check.sh"

_PROGRAMS = {
    "nvidia-smi": 'case "$*" in *compute_cap*) echo 9.0;; *driver*) echo 580.1;; *name*) echo "Card X";; *) echo "GPU 0";; esac',
    "nvcc": 'echo "Cuda compilation tools, release 13.0, V13.0.1"',
    "make": 'echo "make $*"',
    "g++": "true",
    "compute-sanitizer": 'echo "$2: checked"; shift 4; exec "$@"',
}

# All else that it uses, so that nothing of a machine with a card is found.
_TOOLS = "awk bash sh basename cat date dirname find git grep head mkdir nproc rm sed sleep sort tail timeout touch tr wc".split()


def _write(path: pathlib.Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def check(tmp_path):
    """Runs a copy of the script, in a tree with a test that passes, one that fails and one that hangs, and a benchmark."""
    (tmp_path / "tools").mkdir()
    shutil.copy(_SCRIPT, tmp_path / "tools")
    for name, script in _PROGRAMS.items():
        _write(tmp_path / "bin" / name, script)
    for name in _TOOLS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    built = tmp_path / "build" / "gpu" / "cc"
    _write(built / "a_test_cuda", 'echo "12 passed, 0 failed"')
    _write(built / "b_test_cuda", 'echo "1 passed, 2 failed"; exit 1')
    _write(built / "x_bench_cuda", 'echo "find 1 GB/s"')

    def run(*args, **env):
        env = {**os.environ, "PATH": f"{tmp_path}/bin", "CUDA_HOME": "/nowhere", **env}
        done = subprocess.run([tmp_path / "tools" / "gpu_check.sh", *args], env=env, capture_output=True, text=True)
        report = tmp_path / "build" / "gpu" / "report.md"
        return done.returncode, done.stdout + done.stderr, report.read_text() if report.exists() else ""

    run.tree = tmp_path
    return run


def test_all_steps_run_after_a_failure(check):
    status, output, report = check()
    assert status == 1
    assert report.startswith("### Card X, ") and "Driver 580.1, CUDA 13.0, commit " in report
    assert "-gencode=arch=compute_90,code=sm_90" in (check.tree / "build" / "gpu" / "build.log").read_text()
    for row in (
        "| build | passed | ",
        "| a_test | passed: 12 passed, 0 failed | ",
        "| b_test | **failed**, status 1: 1 passed, 2 failed | ",
        "| x_bench | passed | ",
    ):
        assert row in report
    for tool in ("memcheck", "synccheck", "racecheck"):
        assert f"| a_test under {tool} | passed: 12 passed" in report
        assert f"{tool}: checked" in (check.tree / "build" / "gpu" / f"a_test-under-{tool}.log").read_text()
    assert "the end of build/gpu/b_test.log:\n1 passed, 2 failed\n" in output
    assert "```\nfind 1 GB/s\n```" in report and report.strip() in output


def test_chosen_steps_alone_and_a_report_elsewhere(check):
    out = check.tree / "elsewhere"
    status, _, _ = check("bench", OUT=str(out))
    report = (out / "report.md").read_text()
    assert status == 0 and "x_bench" in report and "a_test" not in report and "| build" not in report


def test_what_hangs_is_stopped_and_the_rest_told(check):
    _write(check.tree / "build" / "gpu" / "cc" / "a_test_cuda", "sleep 60")
    status, _, report = check("tests", SECONDS_LEFT="6", AT_ONCE="1")
    assert status == 1
    # On a machine that stands still for a while the first one may not have its turn either.
    assert re.search(r"\| a_test \| (\*\*stopped after \d s\*\*|not run: no time was left) \|", report)
    assert "| b_test | not run: no time was left |  |" in report


def test_tests_wait_for_each_other_no_longer_than_for_a_place(check):
    built = check.tree / "build" / "gpu" / "cc"
    # Each of the two goes on when the other has begun.
    _write(built / "a_test_cuda", "touch a.begun; while [ ! -e b.begun ]; do sleep 0.1; done")
    _write(built / "b_test_cuda", "touch b.begun; while [ ! -e a.begun ]; do sleep 0.1; done")
    _write(built / "c_test_cuda", 'echo "rounds: $TFB_SHORT_TESTS"; exit 1')
    status, _, report = check("tests", SECONDS_LEFT="60", AT_ONCE="2")
    rows = [line.split(" | ")[:2] for line in report.splitlines() if "_test" in line]
    assert status == 1 and rows == [
        ["| a_test", "passed"],
        ["| b_test", "passed"],
        ["| c_test", "**failed**, status 1"],
    ]
    check("sanitize", SECONDS_LEFT="60", AT_ONCE="2")
    assert (check.tree / "build" / "gpu" / "c_test-under-memcheck.log").read_text() == "memcheck: checked\nrounds: 1\n"


def test_missing_tools_are_named(check):
    (check.tree / "bin" / "compute-sanitizer").unlink()
    status, _, report = check("sanitize")
    assert status == 1 and "| compute-sanitizer | not run: it is not here |  |" in report
    assert "unknown step 'all'" in check("all")[1]
    shutil.rmtree(check.tree / "build")
    assert "nothing is built under build/gpu" in check("tests")[1]
    (check.tree / "bin" / "nvidia-smi").unlink()
    status, output, _ = check()
    assert status == 2 and output.startswith("gpu_check: no card here")
