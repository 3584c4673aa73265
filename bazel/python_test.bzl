"""python_test: pytest on the Python that tf_configure found; Bazel's own py_test would need a toolchain with TensorFlow."""

load("@local_tensorflow//:defs.bzl", "PYTHON")

_SCRIPT = """#!/bin/sh
export PYTHONPATH="$PWD" TMPDIR="$TEST_TMPDIR" HOME="$TEST_TMPDIR"
exec {python} -m pytest -p no:cacheprovider {files}
"""

def _impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    files = " ".join([file.short_path for file in ctx.files.srcs])
    ctx.actions.write(script, _SCRIPT.format(python = PYTHON, files = files), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(files = ctx.files.srcs + ctx.files.data))]

python_test = rule(
    implementation = _impl,
    test = True,
    attrs = {
        "srcs": attr.label_list(allow_files = [".py"], mandatory = True),
        "data": attr.label_list(allow_files = True),
    },
)
