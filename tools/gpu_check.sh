#!/bin/bash
# The checks that need a card.
#
#   tools/gpu_check.sh           nvcc alone, no TensorFlow: the CUDA tests, again under compute-sanitizer (memcheck,
#                                racecheck), the benchmark; ends with a section for docs/gpu.md, also in build/gpu/report.md
#   tools/gpu_check.sh python    under the TensorFlow of $PYTHON (or .venv): the Python tests marked `gpu`, and the demo, which trains
#                                on plain TensorFlow and boosted in turns on the card; the section is in build/gpu/python.md too.
#                                What follows goes to pytest
#
# Without a card it says so in one line and ends with status 2.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=build/gpu
failed=0

# heading COMMAND: the first lines of a section for docs/gpu.md.
heading() {
  echo "### $(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1), $(date -u +%F)"
  echo
  echo "Driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)," \
    "$("$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" --version 2> /dev/null | sed -n 's/.*release \([0-9.]*\).*/CUDA \1,/p')" \
    "commit $(git rev-parse --short HEAD 2> /dev/null || echo unknown). \`$1\`:"
  echo
}

if ! nvidia-smi -L 2> /dev/null | grep -q GPU; then
  echo "gpu_check: no card here (nvidia-smi finds none); nothing was checked" >&2
  exit 2
fi

if [ "${1:-}" = python ]; then
  PYTHON=${PYTHON:-.venv/bin/python}
  "$PYTHON" -c 'import sys, tensorflow as tf; sys.exit(not tf.config.list_physical_devices("GPU"))' 2> /dev/null || {
    echo "gpu_check: TensorFlow of $PYTHON sees no GPU; install tensorflow[and-cuda] (make build does where nvidia-smi answers)" >&2
    exit 2
  }
  mkdir -p $BUILD
  # Each process of the demo would take the whole card.
  export TF_FORCE_GPU_ALLOW_GROWTH=true
  "$PYTHON" -m pytest -o addopts= -m gpu tests/gpu/*.py "${@:2}" 2>&1 | tee $BUILD/pytest.log
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
  "$PYTHON" examples/demo.py --out $BUILD/demo 2> $BUILD/demo.err | tee $BUILD/demo.log
  [ "${PIPESTATUS[0]}" -eq 0 ] || { failed=1; tail -n 20 $BUILD/demo.err; }
  {
    heading "tools/gpu_check.sh python"
    echo "TensorFlow $("$PYTHON" -c 'import tensorflow as tf; print(tf.__version__)' 2> /dev/null)," \
      "tests/gpu: $(tail -n 1 $BUILD/pytest.log | tr -d =). The demo:"
    echo
    echo '```'
    cat $BUILD/demo.log
    echo '```'
  } > $BUILD/python.md
  cat $BUILD/python.md
  exit $failed
fi
[ $# -eq 0 ] || { echo "gpu_check: unknown argument '$1'; wanted none, or python" >&2; exit 1; }

mkdir -p $BUILD
make --no-print-directory -f cc/native.mk NO_TENSORFLOW=1 BUILD=$BUILD -j"${JOBS:-$(nproc)}" cuda-programs || exit 1
tests=$(find $BUILD -name '*_test_cuda' | sort)

# check NAME COMMAND…: one line of the report, and the end of the output if it failed.
check() {
  local name=$1 log=$BUILD/${1// /-}.log
  shift
  if "$@" > "$log" 2>&1; then
    rows+="| $name | passed |"$'\n'
  else
    rows+="| $name | **failed** |"$'\n'
    failed=$((failed + 1))
    echo "$name failed; the end of $log:"
    tail -n 30 "$log"
  fi
}

rows=
for test in $tests; do
  name=$(basename "$test" _cuda)
  check "$name" "$test"
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer > /dev/null; then
      check "$name under $tool" compute-sanitizer --tool $tool --error-exitcode 1 "$test"
    else
      rows+="| $name under $tool | not run: no compute-sanitizer |"$'\n'
      failed=$((failed + 1))
    fi
  done
done
bench=$(find $BUILD -name '*_bench_cuda' | sort | while read -r program; do "$program" || echo "$program FAILED"; done)
case $bench in *FAILED*) failed=$((failed + 1)) ;; esac

{
  heading tools/gpu_check.sh
  echo "| check | result |"
  echo "|---|---|"
  printf '%s' "$rows"
  echo
  echo '```'
  echo "$bench"
  echo '```'
} | tee $BUILD/report.md
exit $((failed > 0))
