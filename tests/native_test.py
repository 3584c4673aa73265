"""The native library is checked before it is loaded, and each refusal names the command that rebuilds it."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from tf_booster import _native


@pytest.fixture
def checkout(monkeypatch):
    """The package lies in a checkout, also under Bazel, which links files elsewhere."""
    root = pathlib.Path(__file__).resolve().parent.parent
    monkeypatch.setattr(_native, "_PACKAGE", str(root / "tf_booster"))


def _library(path, text: bytes) -> str:
    path.write_bytes(b"\x7fELF" + b"\0" * 100 + text + b"\0" * 100)
    return str(path)


def test_the_library_says_what_it_was_built_for():
    info = _native.build_info(_native.shared_object())
    assert info["tensorflow"] == tf.version.VERSION
    assert set(info) == {"tensorflow", "cuda"}
    _native.check(_native.shared_object())


def test_ops_are_loaded_once():
    assert _native.ops() is _native.ops()
    assert _native.ops().tf_booster_unique


def test_a_library_for_another_tensorflow_is_refused(checkout, tmp_path):
    path = _library(tmp_path / "lib.so", b"tf_booster_build_info:tensorflow=2.12.0;cuda=12.4;")
    assert _native.build_info(path) == {"tensorflow": "2.12.0", "cuda": "12.4"}
    with pytest.raises(
        ImportError, match=rf"built for TensorFlow 2\.12\.0 but TensorFlow {tf.version.VERSION}.*rebuild it: make -C"
    ):
        _native.check(path)


def test_a_library_that_says_nothing_is_refused(tmp_path):
    with pytest.raises(ImportError, match="built for TensorFlow an unknown version"):
        _native.check(_library(tmp_path / "lib.so", b""))


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_bytes(b"")], ids=["absent", "empty"])
def test_a_missing_library_is_refused(checkout, tmp_path, make):
    make(tmp_path / "lib.so")
    with pytest.raises(ImportError, match="lib.so is missing; build it: make -C"):
        _native.check(str(tmp_path / "lib.so"))


def test_a_library_that_does_not_load_is_refused(checkout, tmp_path, monkeypatch):
    path = _library(tmp_path / "lib.so", b"tf_booster_build_info:tensorflow=%s;" % tf.version.VERSION.encode())
    monkeypatch.setattr(_native, "shared_object", lambda: path)
    with pytest.raises(ImportError, match="does not load: .*; rebuild it: make -C"):
        _native.ops.__wrapped__()


def test_an_installed_package_is_rebuilt_by_pip(tmp_path, monkeypatch):
    monkeypatch.setattr(_native, "_PACKAGE", str(tmp_path / "site-packages" / "tf_booster"))
    with pytest.raises(ImportError, match="-m pip install --force-reinstall --no-deps"):
        _native.check(str(tmp_path / "lib.so"))
