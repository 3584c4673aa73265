"""Prints where the TensorFlow of this interpreter is and how to compile against it, as lines `NAME := value`.

    python cc/tf/find_tensorflow.py [cache file]

Make and Bazel both ask here. Importing TensorFlow costs 2.5 s, so with a cache file the answer is kept in it for as long as
the same TensorFlow is installed at the same place. Needs nothing but the standard library until then.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

# tf.sysconfig is right for wheels and for TensorFlow built from source; the log is of no use here.
_ASK = "import tensorflow as tf; print(*tf.sysconfig.get_compile_flags()); print(*tf.sysconfig.get_link_flags())"


def _installed() -> tuple[str, str] | None:
    """The folder and the version of the installed TensorFlow, found without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        header = os.path.join(folder, "include", "tensorflow", "core", "public", "version.h")
        if os.path.exists(header):
            with open(header, encoding="utf-8") as file:
                text = file.read()
            parts = [re.search(rf"#define TF_{part}_VERSION (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH")]
            suffix = re.search(r'#define TF_VERSION_SUFFIX "(.*)"', text)[1]
            return folder, ".".join(parts) + suffix
    return None


def _describe(folder: str, version: str) -> str:
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    asked = subprocess.run([sys.executable, "-c", _ASK], env=environment, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        last = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"tf_booster: TensorFlow {version} in {folder} does not import: {last}; reinstall it")
    compile_flags, link_flags = (line.split() for line in asked.stdout.strip().splitlines()[-2:])
    includes = [flag[2:] for flag in compile_flags if flag.startswith("-I")]
    defines = [flag for flag in compile_flags if flag.startswith("-D")]
    # Checkpoint readers and a few more are in libtensorflow_cc, which a TensorFlow wheel loads anyway.
    if os.path.exists(os.path.join(folder, "libtensorflow_cc.so.2")):
        link_flags.append("-l:libtensorflow_cc.so.2")
    return "".join(
        f"{name} := {' '.join(values)}\n"
        for name, values in (
            ("TF_DIR", [folder]),
            ("TF_VERSION", [version]),
            ("TF_INCLUDES", includes),
            ("TF_DEFINES", defines),
            ("TF_LDFLAGS", link_flags),
        )
    )


def main() -> None:
    found = _installed()
    if found is None:
        sys.exit(
            f"tf_booster: no TensorFlow beside {sys.executable}; install one first (pip install 'tensorflow-cpu>=2.12,<2.16')"
        )
    folder, version = found
    cache = sys.argv[1] if len(sys.argv) > 1 else None
    key = f"# {sys.executable} {folder} {version} {os.stat(os.path.join(folder, '__init__.py')).st_mtime_ns}\n"
    if cache and os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            if file.readline() == key:
                return
    text = key + _describe(folder, version)
    if cache is None:
        sys.stdout.write(text)
        return
    os.makedirs(os.path.dirname(cache) or ".", exist_ok=True)
    with open(f"{cache}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, cache)


if __name__ == "__main__":
    main()
