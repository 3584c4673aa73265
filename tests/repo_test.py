"""Rules of the repository that no compiler checks: the layers, where private TensorFlow may be touched, one set of sources."""

from __future__ import annotations

import ast
import collections
import pathlib
import re
import subprocess
from typing import Iterator, List, Set

import pytest

# Under Bazel this file is a link into the checkout.
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("cc", "tf_booster", "tests", "examples", "benchmarks", "bazel", "tools", "docs", ".ci")
TOP_FILES = (
    "setup.py",
    "pyproject.toml",
    "Makefile",
    "BUILD",
    "WORKSPACE",
    "MODULE.bazel",
    "README.md",
    "HACKING.md",
    "CHANGELOG.md",
)


def _files(*patterns: str) -> List[pathlib.Path]:
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if "__pycache__" not in path.parts]
    assert found, f"no file matches {patterns}"
    return found


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")


def _includes(path: pathlib.Path) -> List[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', _text(path), re.MULTILINE)


CORE_FILES = _files("cc/core/**/*.h", "cc/core/**/*.cc", "cc/core/**/*.cu*")
CC_FILES = CORE_FILES + _files("cc/tf/**/*.h", "cc/tf/**/*.cc", "cc/tf/**/*.cu*", "cc/ptx_*/**/*.h", "cc/ptx_*/**/*.cc")
PACKAGE_FILES = _files("tf_booster/**/*.py")


def test_core_includes_no_tensorflow_and_no_outer_layer():
    outer = re.compile(r"tensorflow/|tsl/|xla/|absl/|Eigen/|unsupported/|google/protobuf|third_party/|cc/tf/|cc/ptx_")
    assert [(str(path), name) for path in CORE_FILES for name in _includes(path) if outer.match(name)] == []


def _classes(path: pathlib.Path) -> Iterator[str]:
    """The classes that a C++ file defines for other files too: outside of unnamed namespaces and of other classes."""
    spaces: List[str] = []
    before = ""
    for line in _text(path).splitlines():
        opened = re.match(r"namespace ([\w:]*) ?\{", line)
        defined = re.match(r"(template <.*> ?)?(?:class|struct|union) (\w+)(?: final)?(?: :.*)? ?\{", line)
        if opened:
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif defined and spaces and "" not in spaces:
            yield "::".join([*spaces, defined[2]]) + ("<>" if defined[1] or before.startswith("template") else "")
        before = line


def test_no_two_classes_have_one_name():
    """The linker takes the members of one for those of the other, and nothing says so."""
    found = collections.defaultdict(list)
    for path in CC_FILES:
        for name in set(_classes(path)):
            found[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_no_two_tests_have_one_name():
    """pytest imports them by their names alone, so two of one name cannot be collected together."""
    names = [path.name for path in _files("tests/**/*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


def test_own_includes_are_rooted_at_the_repository():
    for path in CC_FILES:
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', _text(path), re.MULTILINE):
            if name.startswith(("tensorflow/", "tsl/", "absl/", "unsupported/", "google/")):
                continue
            assert name.startswith("cc/") and (ROOT / name).exists(), f"{path}: {name}"


@pytest.mark.parametrize(
    "path", [path for path in CC_FILES if path.suffix == ".h"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_header_guard_follows_from_the_path(path):
    guard = "TF_BOOSTER_" + re.sub(r"[/.]", "_", str(path.relative_to(ROOT))).upper() + "_"
    assert f"#ifndef {guard}\n#define {guard}\n" in _text(path)


# What the precompiled header hides: names of what it includes, so that a source that uses one without including it would compile.
PRECOMPILED_NAMES = {
    "algorithm": r"std::(sort|min|max|fill|fill_n|copy|copy_n|find|all_of|any_of|stable_sort|lower_bound|upper_bound|unique)\(",
    "memory": r"std::(unique_ptr|shared_ptr|make_unique|make_shared)\b",
    "string": r"std::(string|to_string)\b",
    "unordered_map": r"std::unordered_map\b",
    "vector": r"std::vector\b",
    "tensorflow/core/framework/common_shape_fns.h": r"\bshape_inference::(UnchangedShape|ScalarShape|UnknownShape)\b",
    "tensorflow/core/framework/op.h": r"\bREGISTER_OP\(",
    "tensorflow/core/framework/op_kernel.h": r"\bOpKernel(Context|Construction)?\b",
    "tensorflow/core/framework/resource_mgr.h": r"\b(ResourceMgr|HandleFromInput|LookupResource|MakeResourceHandle)\b",
    "tensorflow/core/framework/shape_inference.h": r"\b(shape_inference::|InferenceContext\b)",
    "tensorflow/core/platform/errors.h": r"\berrors::[A-Z]",
}


def _reached(path: pathlib.Path, seen: Set[pathlib.Path]) -> Set[str]:
    """What a file includes, itself and by headers of this repository."""
    seen.add(path)
    found = set(_includes(path))
    for name in [name for name in found if name.startswith("cc/")]:
        if ROOT / name not in seen:
            found |= _reached(ROOT / name, seen)
    return found


def test_sources_include_what_the_precompiled_header_hides():
    header = ROOT / "cc/tf/precompiled.h"
    assert sorted(PRECOMPILED_NAMES) == sorted(_includes(header))
    missing = []
    for path in _files("cc/tf/**/*.h", "cc/tf/**/*.cc"):
        code, reached = re.sub(r"//.*", "", _text(path)), _reached(path, set())
        missing += [
            f"{path.relative_to(ROOT)} uses {found.group()}, and nothing it includes has <{name}>"
            for name, pattern in PRECOMPILED_NAMES.items()
            if name not in reached and (found := re.search(pattern, code))
        ]
    assert missing == []


def _imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def test_private_tensorflow_only_in_compat():
    """The public API is `import tensorflow as tf`; every module below it is private."""
    for path in PACKAGE_FILES:
        if path.name == "_compat.py":
            continue
        for module in _imported_modules(ast.parse(_text(path))):
            assert not re.match(r"(tensorflow|tensorflow_estimator|keras)\.|keras$", module), f"{path} imports {module}"


def _attributes(path: pathlib.Path) -> Iterator[str]:
    """Dotted names, as they stand in the source: `tf.version.VERSION`."""
    return (ast.unparse(node) for node in ast.walk(ast.parse(_text(path))) if isinstance(node, ast.Attribute))


def test_versions_are_compared_only_in_compat():
    """But for _native.py, which tells whether the library belongs to this TensorFlow."""
    version = re.compile(r"(tf|tensorflow|_tf)\.(__version__|version\.|compat\.v1\.VERSION|VERSION)")
    for path in PACKAGE_FILES:
        if path.name not in ("_compat.py", "_native.py"):
            assert [name for name in _attributes(path) if version.match(name)] == [], path


def test_what_differs_between_tensorflow_versions_has_its_place():
    """`tsl/` is tensorflow/tsl/ before 2.15, and in 2.12 a Status has other codes; .ci/run compiles for one version only."""
    for path in CC_FILES:
        assert [name for name in _includes(path) if name.startswith(("tsl/", "tensorflow/tsl/"))] == [], path
        if path.is_relative_to(ROOT / "cc/tf") and path.name != "status.cc":
            assert "absl::StatusCode" not in _text(path), (
                f"{path}: TensorFlowStatus of cc/tf/kernels/status.h makes a Status"
            )


def test_graph_surgery_only_in_graph_view():
    """Edits of finished operations, all of them private; _compat.py may hold what graph_view.py calls."""
    surgery = re.compile(
        r".*\._(update_input|add_while_inputs|add_control_inputs?|remove_all_control_inputs|set_attr\w*|clear_attr|set_device"
        r"|set_control_flow_context|collections|nodes_by_\w+|unsafe_unfinalize)$"
    )
    allowed = (ROOT / "tf_booster/passes/graph_view.py", ROOT / "tf_booster/_compat.py")
    assert all(path.exists() for path in allowed)
    for path in PACKAGE_FILES:
        if path not in allowed:
            assert [name for name in _attributes(path) if surgery.match(name)] == [], path


def test_sources_are_listed_by_globs_only():
    """make, setup.py and Bazel find every source by itself: no build file names one."""
    build_files = _files("cc/native.mk", "Makefile", "setup.py", "BUILD", "*/BUILD", "cc/*/BUILD")
    for build_file in build_files:
        for source in CC_FILES:
            if source.suffix != ".h":
                assert source.name not in _text(build_file), f"{build_file} names {source.name}"


def test_every_source_is_in_a_layer_that_is_built():
    sources = _files("cc/**/*.cc", "cc/**/*.cu")
    assert [
        str(path)
        for path in sources
        if path.relative_to(ROOT).parts[1] not in ("core", "tf", "ptx_machine", "ptx_card")
    ] == []


def _all_texts() -> Iterator[pathlib.Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.parent.name.endswith("corpus"):  # The fuzzers' inputs are bytes.
                continue
            if path.is_file() and path.suffix not in (".so", ".new", ".pyc", ".png", ".tfrecord", ".gz"):
                yield path
    yield from (ROOT / name for name in TOP_FILES if (ROOT / name).exists())


def test_nothing_else_lies_at_the_top():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {name.partition("/")[0] for name in listed.split("\0") if name}
    settings = {name for name in top if name.startswith(".")} | {"MANIFEST.in"}
    assert top - settings - set(FOLDERS) - set(TOP_FILES) == set()


def test_no_machine_paths_and_nothing_left_for_later():
    # Written so that this file does not match itself.
    unwanted = re.compile(r"(?<![\w.$}])/(wor[k]|hom[e]|roo[t])/\w|TOD[O]\b|FIXM[E]|NotImplementedErro[r]")
    texts = list(_all_texts())
    assert len(texts) > 50
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(_text(path).splitlines(), 1)
        if unwanted.search(line)
    ]
    assert found == []


PYTHON_FILES = _files(
    "setup.py", "tf_booster/**/*.py", "tests/**/*.py", "examples/**/*.py", "benchmarks/**/*.py", "cc/**/*.py"
)


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_parses_on_python_3_9(path):
    tree = ast.parse(_text(path), feature_version=(3, 9))
    annotations = [
        annotation
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
    ]
    unions = [ast.unparse(a) for a in annotations if any(isinstance(n, ast.BinOp) for n in ast.walk(a))]
    assert not unions or "from __future__ import annotations" in _text(path), unions


def test_one_version():
    def version(name: str, pattern: str) -> str:
        return re.search(pattern, _text(ROOT / name), re.MULTILINE)[1]

    number = version("pyproject.toml", r'^version = "(.+)"')
    assert version("tf_booster/__init__.py", r'^__version__ = "(.+)"') == number
    assert version("MODULE.bazel", r'version = "(.+?)"') == number
    assert version("CHANGELOG.md", r"^## (\S+)") == number


PAGES = _files("*.md", "docs/**/*.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", _text(page)):
        assert (page.parent / link).exists(), f"{page}: {link}"
