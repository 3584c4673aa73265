"""The doctor on machines made of files."""

import os
import subprocess
import sys

import pytest

from tf_booster import doctor
from tf_booster.doctor import ADVICE, BROKEN, OK, Machine

FILES = {
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_1 avx avx2 fma avx512f\nprocessor\t: 1\nflags\t\t: fpu avx\n",
    "sys/devices/system/node/node0/cpulist": "0-7\n",
    "sys/devices/system/node/node1/cpulist": "8-15\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/class/net/eth0/speed": "100000\n",
    "sys/class/net/eth0/device/numa_node": "1\n",
}
CARD = {
    "proc/driver/nvidia/gpus/0000:3B:00.0/information": "Model: H200\n",
    "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
}


@pytest.fixture
def machine(tmp_path):
    def make(environment=(), **changed):
        for path, text in {**FILES, **{key.replace("__", "/"): value for key, value in changed.items()}}.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return Machine(str(tmp_path), dict(environment))

    return make


def found(check, machine, state):
    return [finding for finding in check(machine) if finding.state == state]


def test_a_machine_in_order(machine):
    m = machine()
    findings = doctor.report(m, [doctor.processor, doctor.nodes, doctor.network])
    assert {finding.state for finding in findings} == {OK}
    text = doctor.text_of(findings)
    assert "processor: 2 threads, AVX, AVX2, FMA, AVX-512F" in text
    assert "NUMA node 1: 8 processors, network eth0" in text and "eth0: 100 Gbit/s" in text
    assert text.endswith("0 broken, 0 to change")


def test_processors(machine):
    (finding,) = doctor.processor(machine(proc__cpuinfo="processor : 0\nflags : fpu sse4_1\n"))
    assert finding.state == BROKEN and "no AVX" in finding.text
    (finding,) = found(doctor.processor, machine(proc__cpuinfo="flags : avx\n"), ADVICE)
    assert "no AVX2" in finding.text
    assert [f.state for f in doctor.processor(Machine("/nowhere", {}))] == [ADVICE]


def test_cards_and_nodes(machine):
    m = machine(**{key.replace("/", "__"): value for key, value in CARD.items()})
    assert any("NUMA node 1: 8 processors, cards 0000:3B:00.0, network eth0" in f.text for f in doctor.nodes(m))
    moving = machine(proc__sys__kernel__numa_balancing="1\n")
    (finding,) = found(doctor.nodes, moving, ADVICE)
    assert "numa_balancing=0" in finding.remedy


@pytest.mark.parametrize("address, said", [("127.0.1.1", 1), ("::1", 1), ("10.0.0.5", 0)])
def test_a_name_that_other_hosts_cannot_use(machine, address, said):
    hosts = f"127.0.0.1 localhost # node7\n{address}\tnode7.cluster node7\n"
    findings = found(doctor.network, machine(proc__sys__kernel__hostname="node7\n", etc__hosts=hosts), ADVICE)
    assert len(findings) == said and all(f"'node7' is {address} here" in finding.text for finding in findings)


def test_a_slow_network(machine):
    (finding,) = found(doctor.network, machine(sys__class__net__eth0__speed="1000\n"), ADVICE)
    assert "eth0 is slow" in finding.text


def test_memory(machine, monkeypatch):
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (65536, 65536))
    assert found(doctor.memory, machine(), ADVICE) == []
    never = machine(
        {"MALLOC_ARENA_MAX": "1"}, sys__kernel__mm__transparent_hugepage__enabled="always madvise [never]\n"
    )
    texts = [finding.text for finding in found(doctor.memory, never, ADVICE)]
    assert len(texts) == 2 and "huge pages are off" in texts[0] and "MALLOC_ARENA_MAX=1" in texts[1]
    with_card = machine(**{key.replace("/", "__"): value for key, value in CARD.items()})
    texts = [finding.text for finding in found(doctor.memory, with_card, ADVICE)]
    assert any("at most 64 KiB may be pinned" in text for text in texts)


def test_horovod_that_is_missing(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    (finding,) = doctor.horovod(machine())
    assert finding.state == ADVICE and "pip install" in finding.remedy and "one process alone" in finding.text


def test_a_library_for_another_tensorflow(machine, monkeypatch):
    def refuse():
        raise ImportError("the native library was built for TensorFlow 2.12.0")

    monkeypatch.setattr("tf_booster._native.ops", refuse)
    (finding,) = doctor.tensorflow(machine())
    assert finding.state == BROKEN and "2.12.0" in finding.text
    assert doctor.text_of([finding]).endswith("1 broken, 0 to change")


def test_as_a_program():
    command = [sys.executable, "-m", "tf_booster.doctor"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=100, env={**os.environ, "MALLOC_ARENA_MAX": "2"}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "TensorFlow 2." in ran.stdout and "the native library was built for it" in ran.stdout
    assert "MALLOC_ARENA_MAX=2" in ran.stdout


@pytest.mark.parametrize("argument, status", [("--help", 0), ("--foo", 2), ("foo", 2)])
def test_arguments(argument, status, capsys):
    with pytest.raises(SystemExit) as ended:
        doctor.main([argument])
    said = capsys.readouterr()
    assert ended.value.code == status and "python -m tf_booster.doctor" in said.out + said.err
