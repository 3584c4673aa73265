"""Sets the environment of one rank and becomes the user's program. Started by `python -m tf_booster.run`, once per rank.

Runs as a file of its own, isolated (`python -I`), with the standard library alone: TensorFlow reads most of this when it is
imported, and the package imports TensorFlow.

Usage: rank_process.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import glob
import os
import sys
from typing import Dict, List, MutableMapping, Optional, Sequence, Set

# A collective waits for the next cycle of Horovod's thread: 0.5 ms at 0.1, 1.2 ms at Horovod's default of 1 ms.
CYCLE_TIME_MS = "0.1"
# Set where the user has not said HOROVOD_CYCLE_TIME: parallel/host_ranks.py may then choose another one.
CHOSEN_CYCLE = "TF_BOOSTER_CHOSEN_CYCLE"


def parse_cpu_list(text: str) -> Set[int]:
    """The numbers in a list as Linux writes it: "0-3,8" is {0, 1, 2, 3, 8}."""
    cpus: Set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def numa_nodes(root: str = "/") -> Dict[int, Set[int]]:
    """NUMA nodes that have processors: node -> its processors. Empty where Linux tells nothing."""
    nodes = {}
    for path in glob.glob(os.path.join(root, "sys/devices/system/node/node[0-9]*/cpulist")):
        with open(path, encoding="ascii") as file:
            cpus = parse_cpu_list(file.read())
        if cpus:
            nodes[int(os.path.basename(os.path.dirname(path))[len("node") :])] = cpus
    return dict(sorted(nodes.items()))


def cards(root: str = "/") -> List[str]:
    """PCI addresses of NVIDIA's cards, in PCI order, which is CUDA's where the cards are alike."""
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(root, "proc/driver/nvidia/gpus/*")))


def node_of_device(address: str, root: str = "/") -> Optional[int]:
    """The NUMA node that a PCI device hangs on; None where Linux does not say."""
    try:
        with open(os.path.join(root, "sys/bus/pci/devices", address.lower(), "numa_node"), encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def node_of_rank(local_rank: int, local_size: int, nodes: Sequence[int], visible: str = "", root: str = "/") -> int:
    """The NUMA node for a rank: that of its card, or else the ranks of a host are spread over the nodes evenly.

    Args:
      nodes: the nodes to choose from. visible: CUDA_VISIBLE_DEVICES.
    """
    found = cards(root)
    order = [int(part) for part in visible.split(",") if part.isdigit()] if visible else list(range(len(found)))
    if local_rank < len(order) and order[local_rank] < len(found):
        node = node_of_device(found[order[local_rank]], root)
        if node in nodes:
            return node
    return nodes[local_rank * len(nodes) // local_size]


def bind(environment: MutableMapping[str, str], allowed: Set[int], root: str = "/") -> Set[int]:
    """Sets threads and Horovod's cycle in `environment` where the user did not; returns the processors that the rank is to use.

    Args:
      environment: of this rank, with HOROVOD_LOCAL_RANK and HOROVOD_LOCAL_SIZE. allowed: the processors of this process.
    """
    rank, size = int(environment.get("HOROVOD_LOCAL_RANK", 0)), int(environment.get("HOROVOD_LOCAL_SIZE", 1))
    nodes = {node: cpus & allowed for node, cpus in numa_nodes(root).items() if cpus & allowed}
    cpus, sharing = allowed, size
    if len(nodes) > 1 and size > 1:
        visible = environment.get("CUDA_VISIBLE_DEVICES", "")
        chosen = [node_of_rank(r, size, list(nodes), visible, root) for r in range(size)]
        cpus, sharing = nodes[chosen[rank]], chosen.count(chosen[rank])
    threads = str(max(1, len(cpus) // sharing))
    # All ranks of a host would otherwise start a thread per processor each.
    environment.setdefault("TF_NUM_INTRAOP_THREADS", threads)
    # Two at least: a thread may wait for the input while another works.
    environment.setdefault("TF_NUM_INTEROP_THREADS", str(max(2, int(threads))))
    environment.setdefault("OMP_NUM_THREADS", threads)
    if "HOROVOD_CYCLE_TIME" not in environment:
        environment.update({"HOROVOD_CYCLE_TIME": CYCLE_TIME_MS, CHOSEN_CYCLE: "1"})
    # With one or two arenas every thread waits for the others at each allocation; launchers of clusters set it to save memory.
    environment.pop("MALLOC_ARENA_MAX", None)
    environment["PYTHONUNBUFFERED"] = "1"
    return cpus


def main(command: Sequence[str]) -> None:
    """Becomes `command`; does not return."""
    cpus = bind(os.environ, os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.exit(f"tf_booster.run: cannot start '{command[0]}': {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
