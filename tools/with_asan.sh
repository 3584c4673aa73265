#!/bin/bash
# Runs a command in which tf_booster's library, its TensorFlow kernels and datasets too, is under AddressSanitizer and
# UndefinedBehaviorSanitizer:
#
#   tools/with_asan.sh .venv/bin/python -m pytest -o addopts= -n 2 tests/ops
#
# Builds it first (half an hour of two cores; without CUDA), for the TensorFlow of .venv. That one is as pip has it, but its
# buffers come from the sanitizer's malloc, so what the kernels do beyond them is seen. Errors end the command; those within worker
# processes of pytest are in build/native-asan/errors.*. Python's leaks are not looked for.
# The one test that fails there, Minimum-float32 of tests/ops/multi_formula_test.py, has a denormal number that the unsanitized
# library flushes to zero, as TensorFlow does.
set -eu
cd "$(dirname "$0")/.."
sanitize='-fsanitize=address,undefined -fno-sanitize=alignment,vptr -fno-omit-frame-pointer'
build=$PWD/build/native-asan
library=$build/libtf_booster_ops.so
make -f cc/native.mk lib PYTHON="$PWD/.venv/bin/python" NVCC=/bin/false CXX="${CXX:-g++} $sanitize" \
  OPTIMIZE="-O1 -g1 -DNDEBUG" BUILD="$build" LIB="$library" -j"$(nproc)"
rm -f "$build"/errors.*
# The C++ library beside: loaded later, as by TensorFlow, its exceptions would not be the sanitizer's.
export LD_PRELOAD="$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)"
export ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:allocator_may_return_null=1:log_path=$build/errors"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:log_path=$build/errors"
export TF_BOOSTER_LIBRARY=$library
exec "$@"
