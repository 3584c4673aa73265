"""Estimates of what kernels would take on a card, without one: counts of cc/ptx_machine, put into the model of tools/gpu_model.py.

    make gpu-estimates                          # the table at dims 16, 64 and 128, and the fused ops; some minutes
    make gpu-estimates ARGS="--dims 64 --no-ops"
    python tools/gpu_estimates.py --card H100 --ids 65536 --out before.md

What is counted is a part of what is told: `--ids` of a million ids a step, a table of eight times as many rows, an L2 that is smaller by
as much. Counts are multiplied. Needs nvcc (PTX, and ptxas for registers); no card, no TensorFlow.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Dict, Iterable, List, Mapping, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gpu_model import CARDS, SECTOR, Card, Resources, estimate  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path("build/native")
TABLE = BUILD / "ptx/cc/ptx_machine/table_phases_bench"
OPS = BUILD / "ptx/cc/core/gpu/kernels_bench"
REAL_IDS, REAL_ELEMENTS = 1 << 20, 1 << 25


@dataclasses.dataclass(frozen=True)
class Run:
    """A benchmark at a fraction of its size."""

    title: str
    command: List[str]
    scale: float


def runs(dims: Iterable[int], ids: int, ops: bool) -> List[Run]:
    """What is counted."""
    found = [Run(f"dim {dim}", [str(TABLE), str(dim), str(ids), str(8 * ids)], REAL_IDS / ids) for dim in dims]
    if ops:
        elements = REAL_ELEMENTS * ids // REAL_IDS
        found.append(Run("fused ops", [str(OPS), str(elements)], REAL_ELEMENTS / elements))
    return found


def short_name(name: str) -> str:
    """A kernel's name without its namespaces, its frame and its parameters: RunChunks<FindRows>(…) is FindRows."""
    name = re.sub(r"\(anonymous namespace\)::|\b(?!operator)\w+::", "", name)
    name = re.sub(r"^void ", "", re.sub(r"\(.*$", "", name)).strip()
    if name.startswith("Device"):  # CUB's, of many parameters.
        name = name.split("<")[0]
    for frame in ("RunChunks", "JobsKernel", "UnitsKernel"):
        match = re.fullmatch(rf"{frame}<(.*)>", name)
        if match:
            name = match[1].strip()
    name = name.replace(" >", ">")
    return name if len(name) <= 60 else name[:59] + "…"


def parse_ptxas(text: str) -> Dict[str, Resources]:
    """Resources by mangled name, from what `ptxas -v` says."""
    found: Dict[str, Resources] = {}
    name, stack, spills = "", 0, 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name, stack, spills = match[1], 0, 0
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            stack, spills = int(match[1]), int(match[2])
        elif (match := re.search(r"Used (\d+) registers", line)) and name:
            found[name] = Resources(int(match[1]), stack, spills)
    return found


def resources_of(kernels: Iterable[str], modules: Iterable[pathlib.Path]) -> Dict[str, Resources]:
    """Compiles those kernels of the modules for sm_90, and none of the others: it takes ptxas seconds a kernel at most."""
    wanted, found = set(kernels), {}
    for module in modules:
        entries = [e for e in re.findall(r"\.entry\s+(\w+)", module.read_text()) if e in wanted]
        if entries:
            command = ["ptxas", "-arch=sm_90", "-v", "-o", os.devnull, str(module)]
            command += [word for entry in entries for word in ("--entry", entry)]
            found.update(parse_ptxas(subprocess.run(command, capture_output=True, text=True, check=True).stderr))
    return found


def count(run: Run, card: Card, file: pathlib.Path) -> List[dict]:
    """Runs a benchmark under counting; its lines of counts."""
    for old in file.parent.glob(file.name + "*"):
        old.unlink()
    environment = {**os.environ, "PTX_MACHINE_COUNTS": str(file)}
    environment["PTX_MACHINE_L2"] = str(int(card.l2_bytes / run.scale))
    subprocess.run(run.command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in file.read_text().splitlines()]


def table(title: str, rows: List[dict], resources: Mapping[str, Resources], card: Card, scale: float) -> str:
    """A run's section: a row a phase in bold, then its kernels, the longest first."""
    lines = [f"## {title}", ""]
    lines += [
        "| kernel | launches | µs | of a copy's rate | read | written | atomic | loads in a row | bound by | warps | registers | local |"
    ]
    lines += ["|---|" + "---:|" * 7 + "---|" + "---:|" * 3]
    phases: Dict[str, List[dict]] = {}
    for row in rows:
        phases.setdefault(row["phase"], []).append(row)
    for phase, members in phases.items():
        units, moved = members[0]["units"], members[0]["bytes"]
        told = [(estimate(card, row, resources.get(row["kernel"], Resources(32)), scale), row) for row in members]
        told.sort(key=lambda entry: -entry[0].seconds)
        seconds = sum(guess.seconds for guess, _ in told)
        launches = sum(guess.launches for guess, _ in told)
        share = f"{moved * scale / seconds / card.copy:.2f}" if moved and seconds else ""
        sectors = _sectors(members, units, moved)
        us = f"**{seconds * 1e6:.1f}** + {launches * card.launch * 1e6:.1f}"
        lines.append(f"| **{phase}** | {launches} | {us} | {share} | {sectors} | | | | | |")
        for guess, row in told:
            counts, needs = row["counts"], resources.get(row["kernel"])
            chain = f"{counts['chain'] / counts['warps']:.1f}" if counts["warps"] else ""
            rate = (counts["memory_read"] + counts["memory_written"]) * SECTOR * scale / max(guess.seconds, 1e-12)
            lines.append(
                f"| {short_name(row['name'])} | {counts['launches']} | {guess.seconds * 1e6:.1f} | {rate / card.copy:.2f} | "
                f"{_sectors([row], units, moved)} | {chain} | {_bound(guess.parts)} | {guess.resident or ''} | "
                f"{needs.registers if needs else ''} | {needs.stack if needs else ''} |"
            )
    return "\n".join(lines) + "\n"


def _sectors(rows: List[dict], units: float, moved: float) -> str:
    """Three cells: sectors a unit; where a phase has no units, their bytes beside those that must move at least."""
    sums = [sum(row["counts"][f"{kind}_sectors"] for row in rows) for kind in ("read", "written", "atomic")]
    if units:
        return " | ".join(f"{n / units:.2f}" for n in sums)
    return " | ".join(f"{n * SECTOR / moved:.2f} ×" if moved else "" for n in sums)


def _bound(parts: Mapping[str, float]) -> str:
    """What bounds a kernel, and what comes next with its share of that."""
    order = sorted(parts.items(), key=lambda part: -part[1])
    if len(order) < 2 or order[0][1] == 0:
        return order[0][0]
    return f"{order[0][0]} ({order[1][0]} {order[1][1] / order[0][1]:.0%})"


def heading(card: Card, ids: int) -> str:
    """What the page says before its tables."""
    return f"""# Estimates for {card.name}

**Of a model, not measured**: counts of cc/ptx_machine (kernels interpreted in lockstep), times by tools/gpu_model.py. Good for two versions of a
kernel beside each other. It cannot see ptxas' scheduling, TLBs or contention of atomics (docs/design/ptx_machine.md, "Counting").

Counted: {ids} ids a step, a table of {8 * ids} rows, an L2 of {card.l2_bytes * ids // REAL_IDS} bytes; told for {REAL_IDS} ids and
{8 * REAL_IDS} rows. A phase's µs are without its launches, which are told behind the plus: {card.launch * 1e6:.1f} µs each. "Of a copy's rate": of a phase, the bytes that must move by
its time, and of a kernel, what comes to memory by its time, beside {card.copy / 1e12:.2f} TB/s. Read, written, atomic: sectors of 32 bytes that come to the L2, a unit (a key, an id); with × their bytes beside those that must move. "Loads in a
row": each waits for the one before it, mean of warps. "Bound by": and what comes next. Warps: resident on a multiprocessor. Local: bytes a thread.
"""


def make(targets: List[str]) -> None:
    """Builds the benchmarks for cc/ptx_machine."""
    command = ["make", "--no-print-directory", "-f", "cc/native.mk", "NO_TENSORFLOW=1", f"BUILD={BUILD}", *targets]
    subprocess.run(command, check=True, stdout=sys.stderr)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", choices=sorted(CARDS), default="H200")
    parser.add_argument("--dims", type=lambda text: [int(dim) for dim in text.split(",")], default=[16, 64, 128])
    parser.add_argument("--ids", type=int, default=32768, help="ids that are counted: a power of two (%(default)s)")
    parser.add_argument("--no-ops", action="store_true", help="without the fused ops")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/gpu_estimates.md"))
    options = parser.parse_args(arguments)
    out = options.out.absolute()
    os.chdir(ROOT)
    card = CARDS[options.card]
    todo = runs(options.dims, options.ids, not options.no_ops)
    make(sorted({run.command[0] for run in todo}))
    page = heading(card, options.ids)
    file = ROOT / "build/gpu_estimates.json"
    for run in todo:
        print(f"{run.title}: counting", file=sys.stderr)
        rows = count(run, card, file)
        modules = sorted(file.parent.glob(file.name + ".*.ptx"))
        print(f"{run.title}: registers", file=sys.stderr)
        resources = resources_of({row["kernel"] for row in rows}, modules)
        page += "\n" + table(run.title, rows, resources, card, run.scale)
        out.write_text(page)
    print(f"{out} is written", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
