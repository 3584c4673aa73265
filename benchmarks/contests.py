"""What a results file of `python -m benchmarks` holds, by contests: what goals.py, page.py and markdown.py are made from."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Mapping, Optional

from benchmarks.described import BENCHMARKS, PEER_NAMES
from benchmarks.harness import BARE_LOOP, OURS, require_distinct

# Contestants that are no peers. Floors do less than the contest asks for, so that nobody can beat them.
FLOORS = (BARE_LOOP, "the same bytes", "ResourceGather")
ONE_PROCESSOR, EACH_PROCESSOR = "ours on one processor", "a process on each"
BESIDE = ("tf_booster tables", "async", ONE_PROCESSOR, EACH_PROCESSOR)  # Ours too, but in another way.


@dataclasses.dataclass
class Contest:
    """All results of one contest. rates, facts: by number of threads; rates of contestants in the benchmark's unit."""

    benchmark: str
    what: str
    dim: int
    distribution: str
    unit: str
    rates: Dict[int, Dict[str, float]]
    facts: Dict[int, Dict[str, Any]]

    @property
    def threads(self) -> List[int]:
        return sorted(self.rates)

    @property
    def contestants(self) -> List[str]:
        """Every contestant of any number of threads, in their order; ours is the first."""
        return list(dict.fromkeys(name for threads in self.threads for name in self.rates[threads]))

    @property
    def peers(self) -> List[str]:
        return [name for name in self.contestants if name != OURS and name not in FLOORS + BESIDE]

    @property
    def floor(self) -> Optional[str]:
        return next((name for name in self.contestants if name in FLOORS), None)

    def rate(self, name: str, threads: int) -> Optional[float]:
        return self.rates.get(threads, {}).get(name)

    def over(self, peer: str, threads: int, name: str = OURS) -> Optional[float]:
        """The rate of `name` over the peer's; None where one of them did not run."""
        return _ratio(self.rate(name, threads), self.rate(peer, threads))

    def gain(self, name: str = OURS) -> Optional[float]:
        """The rate of `name` with two threads over that with one."""
        return _ratio(self.rate(name, 2), self.rate(name, 1))

    def name_of(self, contestant: str) -> str:
        """A contestant as people call it."""
        return PEER_NAMES.get((self.benchmark, self.what, contestant), contestant)

    def cells(self) -> Dict[str, str]:
        """What tells this contest from others of its benchmark, under the headings of described.py."""
        headings = BENCHMARKS[self.benchmark] if self.benchmark in BENCHMARKS else None
        values = {"what": self.what, "dim": str(self.dim), "distribution": self.distribution}
        if headings is None:
            return values
        return {getattr(headings, field): value for field, value in values.items() if getattr(headings, field)}


def _ratio(above: Optional[float], below: Optional[float]) -> Optional[float]:
    return above / below if above and below else None


@dataclasses.dataclass
class Run:
    """A results file. machine: as __main__.py writes it; files of older runs may lack any part of it."""

    machine: Dict[str, Any]
    contests: List[Contest]

    @property
    def benchmarks(self) -> Dict[str, List[Contest]]:
        """The contests of each benchmark that ran."""
        found: Dict[str, List[Contest]] = {}
        for contest in self.contests:
            found.setdefault(contest.benchmark, []).append(contest)
        return found


def of(content: Mapping[str, Any]) -> Run:
    """From a results file's content. ValueError where two results have the same key."""
    require_distinct(content["results"])
    made: Dict[tuple, Contest] = {}
    for r in content["results"]:
        key = tuple(r[name] for name in ("benchmark", "what", "dim", "distribution", "unit"))
        contest = made.setdefault(key, Contest(*key, rates={}, facts={}))
        contest.rates[r["threads"]] = r["rates"]
        contest.facts[r["threads"]] = r["facts"]
    return Run(dict(content.get("machine", {})), list(made.values()))


def load(path: str) -> Run:
    with open(path, encoding="utf-8") as file:
        return of(json.load(file))


def machine_line(machine: Mapping[str, Any]) -> str:
    """The processor, what it gave before the run, and when, as far as they are known."""
    name = [str(machine["processor"])] if machine.get("processor") else []
    name += [f"{part} {machine[part]}" for part in ("family", "model") if part in machine]
    if "cores" in machine:
        name.append(f"{machine['cores']} core{'s' * (machine['cores'] != 1)}")
    probe = []
    if "copy_gb_per_s" in machine:
        probe.append(
            f"copy {machine['copy_gb_per_s']} GB/s, a random 64-byte line {machine['random_line_ns']} ns (one core)"
        )
    if machine.get("two_processes"):
        gains = ", ".join(f"{what} {gain:.2f}×" for what, gain in machine["two_processes"].items())
        probe.append(f"two processes over one: {gains}")
    when = [str(machine["date"])] if "date" in machine else []
    if "threads" in machine:
        counts = machine["threads"]
        when.append(f"{' and '.join(map(str, counts))} thread{'s' * (counts != [1])}")
    return "; ".join(part for part in (", ".join(name), *probe, ", ".join(when)) if part) or "an unknown machine"
