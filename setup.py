"""Builds the native library with cc/native.mk, against the TensorFlow that is installed where this package goes.

pip's isolated builds hide the target's packages from this process, so each of these interpreters is asked for a TensorFlow:
the one named by TF_BOOSTER_PYTHON; this one as it is (--no-build-isolation); this one without the PYTHONPATH through which
pip isolates, which gives back its own packages; the active virtual environment's (for build front ends that isolate with an
environment of their own).
"""

from __future__ import annotations

import os
import subprocess
import sys

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if int(setuptools.__version__.split(".")[0]) < 64:
    # Before 61 it does not read pyproject.toml and would install a package named UNKNOWN, without an error.
    sys.exit(
        f"tf_booster: setuptools {setuptools.__version__} is too old to build this; pip install 'setuptools>=64,<80'"
    )

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = os.path.dirname(os.path.abspath(__file__))
HAS_TENSORFLOW = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"


def target_python() -> tuple[str, dict[str, str]]:
    """An interpreter that has TensorFlow, and the environment to run it in."""
    here = dict(os.environ)
    bare = {name: value for name, value in here.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    candidates = [(sys.executable, here), (sys.executable, bare)]
    if "VIRTUAL_ENV" in here:
        candidates.append((os.path.join(here["VIRTUAL_ENV"], "bin", "python"), bare))
    if "TF_BOOSTER_PYTHON" in here:
        candidates = [(here["TF_BOOSTER_PYTHON"], bare)]
    for python, environment in candidates:
        # Not in ROOT: `tensorflow` must not be found in the working directory.
        if (
            os.path.exists(python)
            and subprocess.run([python, "-c", HAS_TENSORFLOW], env=environment, cwd="/").returncode == 0
        ):
            return python, environment
    sys.exit(
        "tf_booster: no TensorFlow is installed to compile against; first pip install 'tensorflow-cpu>=2.12,<2.16' (or"
        " 'tensorflow[and-cuda]'), or name the Python that has one: TF_BOOSTER_PYTHON=/path/to/python"
    )


class BuildNativeLibrary(build_ext):
    """One "extension": the op library, made by cc/native.mk, which `make lib` uses too."""

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", os.sep) + ".so"

    def build_extension(self, ext: Extension) -> None:
        python, environment = target_python()
        target = os.path.abspath(self.get_ext_fullpath(ext.name))
        os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        command = ["flock", "build/.lock", "make", "--no-print-directory", "-f", "cc/native.mk", "lib"]
        command += [f"-j{self.parallel or os.cpu_count()}", f"PYTHON={python}", f"LIB={target}"]
        environment = {
            name: value for name, value in environment.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        }
        if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
            sys.exit("tf_booster: the native library did not build; the compiler's or make's message is above")


class AnyPythonWheel(bdist_wheel):
    """The library calls no Python, so one wheel serves every Python 3; it is bound to the platform and to TensorFlow."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("tf_booster.libtf_booster_ops", sources=[])],
    cmdclass={"build_ext": BuildNativeLibrary, "bdist_wheel": AnyPythonWheel},
)
