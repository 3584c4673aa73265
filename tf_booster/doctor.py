"""`python -m tf_booster.doctor`: what this machine offers for training, and what is set badly.

Prints a line for each finding, and under it what to change. The exit code is 1 if something is broken, so that tf_booster or several ranks do not
work at all, and 0 otherwise.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import resource
import sys
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

from tf_booster.parallel.rank_process import cards, node_of_device, numa_nodes

OK, ADVICE, BROKEN = "ok", "change", "broken"


class Finding(NamedTuple):
    """state: OK, ADVICE or BROKEN. text: what was found. remedy: what to do about it."""

    state: str
    text: str
    remedy: str = ""


class Machine(NamedTuple):
    """Where the checks look; tests give them files of their own."""

    root: str = "/"
    environment: Mapping[str, str] = os.environ

    def read(self, path: str) -> Optional[str]:
        """The text of a file, None if there is none."""
        try:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def glob(self, pattern: str) -> List[str]:
        """Paths, under the root, in order."""
        return sorted(glob.glob(os.path.join(self.root, pattern)))


def tensorflow(machine: Machine) -> List[Finding]:
    """TensorFlow's version, and whether the native library is for it."""
    del machine
    try:
        import tensorflow as tf  # pylint: disable=import-outside-toplevel

        from tf_booster import _native  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return [Finding(BROKEN, f"TensorFlow cannot be imported: {error}", "pip install tensorflow==2.15.1")]
    version = _native.tensorflow_version()
    try:
        _native.ops()
    except ImportError as error:
        return [Finding(BROKEN, f"TensorFlow {version}: {error}", "see the command above")]
    built = _native.build_info(_native.shared_object())
    cuda = f", with CUDA {built['cuda']}" if built.get("cuda") else ", without CUDA"
    found = [Finding(OK, f"TensorFlow {version}; the native library was built for it{cuda}")]
    if cards() and not tf.config.list_physical_devices("GPU"):
        remedy = (
            "install TensorFlow with CUDA (pip install tensorflow[and-cuda]==2.15.1), and look at CUDA_VISIBLE_DEVICES"
        )
        found.append(Finding(ADVICE, f"there are {len(cards())} cards, but TensorFlow sees none", remedy))
    return found


def horovod(machine: Machine) -> List[Finding]:
    """Horovod and its back ends. One process does without."""
    from tf_booster.parallel.ranks import BUILD_COMMAND  # pylint: disable=import-outside-toplevel

    try:
        import horovod.tensorflow as hvd  # pylint: disable=import-outside-toplevel
    except Exception as error:  # A library for another TensorFlow raises its own. pylint: disable=broad-except
        text = f"no Horovod for this TensorFlow, so one process alone can train ({type(error).__name__}: {error})"
        return [Finding(ADVICE, text, BUILD_COMMAND)]
    built = {"Gloo": hvd.gloo_built(), "MPI": hvd.mpi_built(), "NCCL": bool(hvd.nccl_built())}
    names = ", ".join(name for name, there in built.items() if there)
    found = [
        Finding(
            OK,
            f"Horovod {hvd.__version__ if hasattr(hvd, '__version__') else ''} with {names or 'no back end'}".replace(
                "  ", " "
            ),
        )
    ]
    if not (built["Gloo"] or built["MPI"]):
        found.append(
            Finding(BROKEN, "Horovod has neither Gloo nor MPI, so ranks cannot find each other", BUILD_COMMAND)
        )
    if len(cards(machine.root)) > 1 and not built["NCCL"]:
        remedy = f"HOROVOD_GPU_OPERATIONS=NCCL {BUILD_COMMAND}"
        found.append(Finding(ADVICE, "several cards, but Horovod has no NCCL: data goes through host memory", remedy))
    return found


def processor(machine: Machine) -> List[Finding]:
    """Instruction sets."""
    text = machine.read("proc/cpuinfo") or ""
    flags = set(re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)[1].split()) if "flags" in text else set()
    if not flags:
        return [
            Finding(
                ADVICE,
                "the processor's instruction sets are not known: no /proc/cpuinfo",
                "nothing, if this is no x86-64",
            )
        ]
    names = {
        "avx": "AVX",
        "avx2": "AVX2",
        "fma": "FMA",
        "avx512f": "AVX-512F",
        "avx512bw": "AVX-512BW",
        "avx512vbmi2": "AVX-512VBMI2",
    }
    have = ", ".join(label for flag, label in names.items() if flag in flags)
    if "avx" not in flags:
        return [Finding(BROKEN, "the processor has no AVX, which TensorFlow and tf_booster need", "another machine")]
    found = [Finding(OK, f"processor: {text.count('processor')} threads, {have}")]
    if "avx2" not in flags:
        found.append(
            Finding(
                ADVICE,
                "no AVX2: the parser uses its slower SSE4.1 path",
                "under a hypervisor, let it pass the host's processor through",
            )
        )
    return found


def nodes(machine: Machine) -> List[Finding]:
    """NUMA nodes, and the cards and network devices on them."""
    found = []
    of_cards = {address: node_of_device(address, machine.root) for address in cards(machine.root)}
    known = numa_nodes(machine.root)
    for node, cpus in known.items():
        here = [address for address, where in of_cards.items() if where == node]
        nics = [name for name, where in _nics(machine).items() if where == node]
        extras = [f"cards {', '.join(here)}"] * bool(here) + [f"network {', '.join(nics)}"] * bool(nics)
        found.append(
            Finding(OK, f"NUMA node {node}: {len(cpus)} processors" + "".join(f", {extra}" for extra in extras))
        )
    balancing = (machine.read("proc/sys/kernel/numa_balancing") or "0").strip()
    if len(known) > 1 and balancing == "1":
        remedy = "sysctl kernel.numa_balancing=0; python -m tf_booster.run binds each rank to its node"
        found.append(
            Finding(ADVICE, "the kernel moves pages between NUMA nodes, which stops threads of bound ranks", remedy)
        )
    if not of_cards:
        found.append(Finding(OK, "no NVIDIA card; everything runs on the CPU"))
    for address, where in of_cards.items():
        if where is None and len(known) > 1:
            found.append(
                Finding(
                    ADVICE,
                    f"card {address} does not say on which NUMA node it is",
                    "firmware settings; ranks are spread evenly instead",
                )
            )
    return found


def _nics(machine: Machine) -> Dict[str, Optional[int]]:
    """Network devices of hardware, Ethernet and InfiniBand -> NUMA node."""
    nics = {}
    for path in machine.glob("sys/class/net/*/device") + machine.glob("sys/class/infiniband/*/device"):
        try:
            with open(os.path.join(path, "numa_node"), encoding="ascii") as file:
                nics[os.path.basename(os.path.dirname(path))] = int(file.read())
        except (OSError, ValueError):
            nics[os.path.basename(os.path.dirname(path))] = None
    return nics


def network(machine: Machine) -> List[Finding]:
    """Network devices and their speeds."""
    found = []
    for path in machine.glob("sys/class/net/*/device"):
        name = os.path.basename(os.path.dirname(path))
        speed = (machine.read(f"sys/class/net/{name}/speed") or "").strip()
        megabits = int(speed) if re.fullmatch(r"\d+", speed) else None
        found.append(
            Finding(OK, f"network device {name}: {f'{megabits / 1000:g} Gbit/s' if megabits else 'speed not known'}")
        )
        if megabits and megabits < 10000:
            found.append(
                Finding(
                    ADVICE,
                    f"{name} is slow for several hosts",
                    "choose a faster one with --network-interfaces of the launcher",
                )
            )
    for path in machine.glob("sys/class/infiniband/*/ports/*/rate"):
        rate = (machine.read(os.path.relpath(path, machine.root)) or "").strip()
        found.append(Finding(OK, f"InfiniBand {path.split('/')[-4]}: {rate}"))
    return found + _own_name(machine)


def _own_name(machine: Machine) -> List[Finding]:
    """Gloo tells ranks of other hosts the address that the host's own name has."""
    name = (machine.read("proc/sys/kernel/hostname") or "").strip()
    lines = [line.partition("#")[0].split() for line in (machine.read("etc/hosts") or "").splitlines()]
    address = next((words[0] for words in lines if name and name in words[1:]), "")
    if not address.startswith("127.") and address != "::1":
        return []
    remedy = f"in /etc/hosts, give '{name}' its address in the network of the hosts"
    return [
        Finding(ADVICE, f"'{name}' is {address} here: with several hosts, ranks of others do not find this one", remedy)
    ]


def memory(machine: Machine) -> List[Finding]:
    """Huge pages, malloc's arenas, limits on pinned memory."""
    found = []
    mode = re.search(r"\[(\w+)\]", machine.read("sys/kernel/mm/transparent_hugepage/enabled") or "")
    if mode and mode[1] == "never":
        remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; tables ask for huge pages"
        found.append(
            Finding(ADVICE, "transparent huge pages are off: lookups in large tables miss the TLB at every row", remedy)
        )
    elif mode:
        found.append(Finding(OK, f"transparent huge pages: {mode[1]}"))
    arenas = machine.environment.get("MALLOC_ARENA_MAX")
    if arenas:
        remedy = "unset MALLOC_ARENA_MAX; python -m tf_booster.run drops it"
        found.append(
            Finding(
                ADVICE,
                f"MALLOC_ARENA_MAX={arenas}: TensorFlow's threads wait for each other at every allocation",
                remedy,
            )
        )
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    pins = bool(cards(machine.root)) or bool(machine.glob("sys/class/infiniband/*"))
    if pins and limit != resource.RLIM_INFINITY:
        remedy = "ulimit -l unlimited (memlock in /etc/security/limits.conf; --ulimit memlock=-1 for containers)"
        found.append(Finding(ADVICE, f"at most {limit // 1024} KiB may be pinned: RDMA and NCCL need more", remedy))
    else:
        text = (
            "without limit"
            if limit == resource.RLIM_INFINITY
            else f"at most {limit // 1024} KiB, and nothing here needs more"
        )
        found.append(Finding(OK, f"pinned memory: {text}"))
    shm = _size_of_shm(machine)
    if shm is not None and len(cards(machine.root)) > 1 and shm < 1 << 30:
        found.append(
            Finding(
                ADVICE,
                f"/dev/shm has {shm >> 20} MiB: NCCL's ranks on one host need more",
                "--shm-size=8g for containers",
            )
        )
    return found


def _size_of_shm(machine: Machine) -> Optional[int]:
    try:
        stats = os.statvfs(os.path.join(machine.root, "dev/shm"))
    except OSError:
        return None
    return stats.f_blocks * stats.f_frsize


CHECKS: List[Callable[[Machine], List[Finding]]] = [tensorflow, horovod, processor, nodes, network, memory]


def report(machine: Machine, checks: Optional[List[Callable[[Machine], List[Finding]]]] = None) -> List[Finding]:
    """All findings, in the order of the checks."""
    return [finding for check in checks or CHECKS for finding in check(machine)]


def text_of(findings: List[Finding]) -> str:
    """What is printed: a line for each finding, the remedy in the next, a summary at the end."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:>6}  {finding.text}")
        if finding.remedy:
            lines.append(f"{'':>6}    -> {finding.remedy}")
    counts = {state: sum(f.state == state for f in findings) for state in (BROKEN, ADVICE)}
    lines.append(f"{counts[BROKEN]} broken, {counts[ADVICE]} to change")
    return "\n".join(lines)


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the report; returns the exit code."""
    argparse.ArgumentParser(
        prog="python -m tf_booster.doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(arguments)
    findings = report(Machine())
    print(text_of(findings))
    return 1 if any(finding.state == BROKEN for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
