"""Two hosts on one machine for tests of the launcher: network namespaces joined by a cable, or where the machine grants none, loopback addresses.

Horovod reaches another host by `ssh`; a program of that name, in front in PATH, enters the host's namespace instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import stat
import subprocess
from typing import Iterator, List

_OWN_FILES = "/etc/netns"  # `ip netns exec` puts what is there for a namespace over /etc.

_SSH = """#!/bin/sh
# ssh [-o option] [-p port] [-i file] host command
options() {{ skip=0; while [ $# -gt 0 ] && [ "${{1#-}}" != "$1" ]; do shift 2; skip=$((skip + 2)); done; }}
options "$@"; shift $skip
host=$1; shift
options "$@"; shift $skip
echo "$host" >> {log}
case $host in
{cases}
*) echo "no host $host" >&2; exit 255;;
esac
"""


@dataclasses.dataclass(frozen=True)
class Hosts:
    """addresses: of both. enter: what a command begins with that runs on the first. path: to be put in front of PATH.
    asked: where the names of hosts are noted to which `ssh` went. kind: "namespaces" or "loopback"."""

    addresses: List[str]
    enter: List[str]
    path: str
    asked: str
    kind: str


@contextlib.contextmanager
def two_hosts(folder: str) -> Iterator[Hosts]:
    """Both are gone afterwards. `folder`: for the stand-in of ssh."""
    names = [f"tfb{os.getpid()}{letter}" for letter in "ab"]
    try:
        try:
            addresses = _namespaces(names)
        except (OSError, subprocess.CalledProcessError):
            yield _hosts(folder, "loopback", ["127.0.0.2", "127.0.0.3"], [[], []])
        else:
            yield _hosts(folder, "namespaces", addresses, [["ip", "netns", "exec", name] for name in names])
    finally:
        for name in names:
            shutil.rmtree(f"{_OWN_FILES}/{name}", ignore_errors=True)
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def _namespaces(names: List[str]) -> List[str]:
    first, second = names
    addresses = ["10.213.7.1", "10.213.7.2"]
    for name, address in zip(names, addresses):
        _run("ip", "netns", "add", name)
        # Gloo tells the others the address that the host's own name has.
        os.makedirs(f"{_OWN_FILES}/{name}")
        with open(f"{_OWN_FILES}/{name}/hosts", "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
    _run("ip", "-n", first, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second)
    for name, address in zip(names, addresses):
        _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", name, "link", "set", device, "up")
    return addresses


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _hosts(folder: str, kind: str, addresses: List[str], entering: List[List[str]]) -> Hosts:
    log, ssh = os.path.join(folder, "asked"), os.path.join(folder, "ssh")
    cases = [f'{address}) exec {" ".join(enter)} sh -c "$*";;' for address, enter in zip(addresses, entering)]
    with open(ssh, "w", encoding="ascii") as file:
        file.write(_SSH.format(log=log, cases="\n".join(cases)))
    os.chmod(ssh, stat.S_IRWXU)
    return Hosts(addresses, entering[0], folder, log, kind)
