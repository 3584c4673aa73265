"""tf_configure for MODULE.bazel; apart, because Bazel 4.2.3 knows no module extensions."""

load("//bazel:tf_configure.bzl", "tf_configure")

def _impl(_ctx):
    tf_configure(name = "local_tensorflow")

tf_extension = module_extension(implementation = _impl)
