"""Finds the installed TensorFlow, as custom-op projects do: headers as a cc_library, flags and Python as defs.bzl."""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = glob(
        ["include/**"],
        exclude = ["include/external/**", "**/*.so"],
    ),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

def _find_python(ctx):
    """TF_BOOSTER_PYTHON, or the checkout's .venv (make build), or python3."""
    named = ctx.os.environ.get("TF_BOOSTER_PYTHON")
    if named:
        return ctx.path(named)
    venv = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv").get_child("bin").get_child("python")
    return venv if venv.exists else ctx.which("python3")

def _tf_configure_impl(ctx):
    python = _find_python(ctx)
    asked = ctx.execute([python, ctx.path(Label("//cc/tf:find_tensorflow.py"))], timeout = 120)
    if asked.return_code != 0:
        fail("%s\nRun make build, or name a Python that has TensorFlow: TF_BOOSTER_PYTHON" % asked.stderr)
    found = {}
    for line in asked.stdout.splitlines():
        if " := " in line:
            name, value = line.split(" := ", 1)
            found[name] = value.split(" ")
    ctx.symlink(found["TF_INCLUDES"][0], "include")
    ctx.file("BUILD", _BUILD)
    ctx.file("defs.bzl", "".join(["%s = %s\n" % (name, repr(found[name])) for name in sorted(found)] + ["PYTHON = %s\n" % repr(str(python))]))

tf_configure = repository_rule(
    implementation = _tf_configure_impl,
    environ = ["TF_BOOSTER_PYTHON", "PATH"],
    configure = True,
    local = True,
)
