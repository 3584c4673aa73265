"""tools/gpu_estimates.py and its model, on counts that are made up: formulas, parsing, and the page. Needs no nvcc."""

import copy
import importlib.util
import json
import pathlib
import sys

import pytest

_TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"


def _load(name):
    spec = importlib.util.spec_from_file_location(name, _TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


model = _load("gpu_model")
tool = _load("gpu_estimates")

# Round figures: a copy moves a sector a nanosecond, the L2 four, four schedulers of 1 GHz.
CARD = model.Card(
    "Round", memory=64e9, copy_share=0.5, l2=128e9, multiprocessors=2, schedulers=2, clock=1e9, launch=1e-6
)

COUNTS = dict.fromkeys(
    "launches blocks threads shared_bytes read_sectors written_sectors atomic_sectors memory_read memory_written warps cycles longest "
    "chain".split(),
    0,
)
ROW = {
    "phase": "find",
    "units": 100.0,
    "bytes": 6400.0,
    "kernel": "_Zfind",
    "name": "void a::RunChunks<b::Find>(b::Find, long)",
    "issue": {"slots": 400, "memory": 100},
    "counts": {**COUNTS, "launches": 1, "blocks": 10, "threads": 64, "warps": 20, "cycles": 2000, "longest": 150},
}


def _row(**counts):
    row = copy.deepcopy(ROW)
    row["counts"].update(counts)
    return row


def _parts(row, scale=1.0, registers=32):
    return model.estimate(CARD, row, model.Resources(registers), scale).parts


def test_memory_and_l2_take_their_sectors():
    parts = _parts(
        _row(memory_read=1000, memory_written=500, read_sectors=2000, written_sectors=1000, atomic_sectors=500)
    )
    assert parts["DRAM"] == pytest.approx(1500e-9)
    assert parts["L2"] == pytest.approx(1000e-9)  # An atomic counts twice.


def test_the_busiest_pipe_bounds_the_issue():
    assert _parts(ROW)["issue"] == pytest.approx(100e-9)  # 400 cycles of four schedulers.
    row = _row(blocks=2)
    row["issue"]["memory"] = 800
    assert _parts(row)["issue"] == pytest.approx(200e-9)
    # One block is on one multiprocessor.
    assert _parts(_row(blocks=1))["issue"] == pytest.approx(200e-9)


def test_latency_is_shared_by_the_warps_that_are_there():
    assert _parts(ROW)["latency"] == pytest.approx(150e-9)  # All 20 warps at once: as long as the longest.
    many = _row(warps=20000, cycles=2_000_000, blocks=10000)
    assert _parts(many)["latency"] == pytest.approx(2_000_000 / 128 * 1e-9)
    assert _parts(many, registers=128)["latency"] == pytest.approx(2_000_000 / 32 * 1e-9)


def test_counts_are_scaled_but_for_kernels_of_one_block():
    row = _row(memory_read=1000)
    assert _parts(row, scale=8)["DRAM"] == pytest.approx(8000e-9)
    assert _parts(_row(memory_read=1000, blocks=1), scale=8)["DRAM"] == pytest.approx(1000e-9)
    # memset and memcpy have no blocks, and are.
    assert _parts(_row(memory_read=1000, blocks=0, warps=0), scale=8) == pytest.approx({"DRAM": 8e-6, "L2": 0})


@pytest.mark.parametrize(
    "registers, threads, shared, warps",
    [
        (32, 256, 0, 64),
        (33, 256, 0, 48),
        (64, 256, 0, 32),
        (255, 256, 0, 8),
        (16, 32, 0, 32),
        (32, 256, 100 << 10, 16),
        (32, 256, 56 << 10, 24),
    ],
)
def test_occupancy(registers, threads, shared, warps):
    assert model.resident_warps(model.CARDS["H200"], registers, threads, shared) == warps


def test_what_bounds_is_the_longest():
    guess = model.Estimate({"DRAM": 2.0, "L2": 3.0, "issue": 1.0}, 1, 64)
    assert guess.bound == ("L2", 3.0) and guess.seconds == 3.0
    assert tool._bound(guess.parts) == "L2 (DRAM 67%)"


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Zfind' for 'sm_90'
ptxas info    : Function properties for _Zfind
    48 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 72 registers, used 1 barriers, 48 bytes cumulative stack size, 400 bytes cmem[0]
ptxas info    : Compiling entry function '_Zother' for 'sm_90'
ptxas info    : Used 18 registers, used 0 barriers
"""


def test_ptxas_is_understood():
    assert tool.parse_ptxas(PTXAS) == {"_Zfind": model.Resources(72, 48, 8), "_Zother": model.Resources(18, 0, 0)}


@pytest.mark.parametrize(
    "name, short",
    [
        ("void a::RunChunks<a::UnitsKernel<a::(anonymous namespace)::FindRows, 4> >(a::X, long)", "FindRows, 4"),
        ("void cub::_V_3::DeviceScanKernel<cub::P<int, long>, int*>(int*, int)", "DeviceScanKernel"),
        ("memset", "memset"),
    ],
)
def test_names_are_short(name, short):
    assert tool.short_name(name) == short


def test_runs_are_scaled_together():
    table, ops = tool.runs([64], 32768, True)
    assert table.command[1:] == ["64", "32768", "262144"] and table.scale == 32
    assert ops.command[1:] == ["1048576"] and ops.scale == 32
    assert [run.title for run in tool.runs([16, 128], 65536, False)] == ["dim 16", "dim 128"]


def test_counting_hands_the_cache_and_reads_lines(tmp_path):
    file = tmp_path / "counts.json"
    (tmp_path / "counts.json.3.ptx").write_text("old")
    script = "import json, os; print(json.dumps({'l2': os.environ['PTX_MACHINE_L2']}), file=open(os.environ['PTX_MACHINE_COUNTS'], 'w'))"
    rows = tool.count(tool.Run("x", [sys.executable, "-c", script], 32.0), CARD, file)
    assert rows == [{"l2": str((50 << 20) // 32)}]
    assert not (tmp_path / "counts.json.3.ptx").exists()


def test_only_wanted_kernels_are_compiled(tmp_path, monkeypatch):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(f'#!/bin/sh\necho "$*" > "{tmp_path}/arguments"\ncat >&2 <<END\n{PTXAS}END\n')
    ptxas.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "a.ptx").write_text(".visible .entry _Zfind(\n) {}\n.visible .entry _Zunused(\n) {}")
    (tmp_path / "b.ptx").write_text(".visible .entry _Zunused2(\n) {}")
    found = tool.resources_of({"_Zfind", "_Zelsewhere"}, [tmp_path / "a.ptx", tmp_path / "b.ptx"])
    assert found["_Zfind"].registers == 72
    arguments = (tmp_path / "arguments").read_text()
    assert (
        "--entry _Zfind" in arguments
        and "sm_90" in arguments
        and "_Zunused" not in arguments
        and "elsewhere" not in arguments
    )


def test_the_page():
    row = _row(memory_read=3200, read_sectors=400, written_sectors=50, atomic_sectors=25, chain=60)
    other = _row(memory_read=500, warps=0, blocks=0)
    other.update(kernel="memset", name="memset")
    text = tool.table("dim 16", [other, row], {"_Zfind": model.Resources(72, 48)}, CARD, 2.0)
    lines = text.splitlines()
    assert lines[0] == "## dim 16"
    columns = {line.count("|") for line in lines[2:] if line}
    assert len(columns) == 1
    # 6.4 and 1.0; 12,800 bytes in 7400 ns beside 32 a nanosecond.
    assert lines[4] == "| **find** | 2 | **7.4** + 2.0 | 0.05 | 4.00 | 0.50 | 0.25 | | | | | |"
    assert lines[5].startswith("| Find | 1 | 6.4 | 1.00 | 4.00 | 0.50 | 0.25 | 3.0 | DRAM (")
    assert lines[5].endswith("| 28 | 72 | 48 |")
    assert lines[6].startswith("| memset | 1 | 1.0 |")
    bytes_only = [json.loads(json.dumps({**row, "units": 0.0}))]
    assert "2.00 × | 0.25 × | 0.12 ×" in tool.table("ops", bytes_only, {}, CARD, 1.0)


def test_the_heading_says_what_it_is():
    text = tool.heading(model.CARDS["H200"], 32768)
    assert text.startswith("# Estimates for H200\n") and "not measured" in text
    assert "Counted: 32768 ids a step, a table of 262144 rows, an L2 of 1638400 bytes" in text
