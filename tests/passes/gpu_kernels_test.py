"""The record of GPU kernels, and the page that says which ops have none."""

import os
import re

import gpu_kernels
import pytest

from tf_booster import _native

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "gpu.md")


def test_the_record_is_what_a_library_with_cuda_registers():
    """`python tests/passes/gpu_kernels.py` brings it up to date. Without CUDA a part of it is registered."""
    found = [line for _, line in gpu_kernels.registered("GPU")]
    if _native.build_info(_native.shared_object()).get("cuda"):
        assert found == gpu_kernels.recorded_lines()
    else:
        assert found and set(found) < set(gpu_kernels.recorded_lines())


def test_each_op_without_a_gpu_kernel_has_a_reason_on_the_page():
    on_cpu = {op[len("TfBooster") :] for op, _ in gpu_kernels.registered("CPU")}
    on_gpu = {op[len("TfBooster") :] for op in gpu_kernels.recorded()}
    with open(PAGE, encoding="utf-8") as page:
        (table,) = re.findall(r"## Ops for the CPU alone\n(.*?)\n## ", page.read(), re.DOTALL)
    reasons = re.findall(r"^\| (`.*) \| (.+) \|$", table, re.MULTILINE)
    named = [name for names, _ in reasons for name in re.findall(r"`(\w+)`", names)]
    assert sorted(named) == sorted(on_cpu - on_gpu) and on_gpu <= on_cpu


def _types(lines):
    """Of lines of one op: the types of each kernel, without where arguments are."""
    return {frozenset(word for word in line.split()[1:] if not word.startswith("host=")) for line in lines}


def test_each_type_that_a_gpu_lacks_has_a_reason_on_the_page():
    lacking = {}
    for op in gpu_kernels.recorded():
        on_cpu = _types(line for name, line in gpu_kernels.registered("CPU") if name == op)
        missing = on_cpu - _types(line for line in gpu_kernels.recorded_lines() if line.split()[0] == op)
        if missing:
            # The first type that no GPU kernel has, of each kernel.
            known = {word for words in on_cpu - missing for word in words}
            lacking[op[len("TfBooster") :]] = {word.split("=")[1] for words in missing for word in words - known}
    with open(PAGE, encoding="utf-8") as page:
        (table,) = re.findall(r"## Types for the CPU alone\n(.*?)\n## ", page.read(), re.DOTALL)
    rows = re.findall(r"^\| (`.*) \| (.+) \| (.+) \|$", table, re.MULTILINE)
    named = {name: set(types.split(", ")) for names, types, _ in rows for name in re.findall(r"`(\w+)`", names)}
    assert named == lacking


@pytest.mark.parametrize("op", ["TableProbe", "TableGather", "TableApplyAdam"])
def test_a_steps_ops_take_device_memory(op):
    (kernel,) = gpu_kernels.recorded()[f"TfBooster{op}"]
    assert kernel.host == {"table"}
