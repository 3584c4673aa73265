"""Finds the other libraries that we measure ourselves against, or installs them beside the checkout's build."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Optional

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "bench_peers")
# Without dependencies: it asks for another TensorFlow build. Its typeguard must be this old.
REQUIREMENTS = ["tensorflow-recommenders-addons==0.7.2", "typeguard==2.13.3"]


def install() -> Optional[str]:
    """Puts the peers into FOLDER unless they are there. Returns why that failed, in one line, or None."""
    if os.path.isdir(os.path.join(FOLDER, "tensorflow_recommenders_addons")):
        return None
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", FOLDER, *REQUIREMENTS]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "pip took more than 300 s"
    lines = result.stderr.strip().splitlines()
    return None if result.returncode == 0 else (lines[-1] if lines else "pip failed")


def tfra() -> Optional[ModuleType]:
    """tensorflow_recommenders_addons.dynamic_embedding, or None where it cannot be imported."""
    if os.path.isdir(FOLDER) and FOLDER not in sys.path:
        sys.path.append(FOLDER)
    try:
        return importlib.import_module("tensorflow_recommenders_addons").dynamic_embedding
    except Exception as error:  # Another TensorFlow makes its library fail in many ways.
        print(f"TFRA is left out: {type(error).__name__}: {error}", file=sys.stderr)
        return None
