#!/bin/bash
# The checks that need a card. They need no network and no package registry.
#
#   tools/gpu_check.sh [STEP…]   nvcc alone, no TensorFlow. Steps, by default all of them in this order:
#                                  build     the CUDA tests and benchmarks, for this card alone
#                                  tests     the CUDA tests, the contract suite of tables among them
#                                  bench     the benchmarks, with shares of copy bandwidth
#                                  sanitize  the tests under compute-sanitizer: memcheck, racecheck, synccheck
#   tools/gpu_check.sh python …  under the TensorFlow of $PYTHON (or .venv): the Python tests marked `gpu`, Estimators beside plain
#                                TensorFlow in turns (tools/gpu_training.py), and the demo. What follows goes to pytest
#
# A step that fails or takes too long is reported, and the next one runs. $OUT (build/gpu) gets all logs and the section for
# docs/gpu.md: report.md, or python.md. It is brought up to date after each program, so that it is there if the machine goes.
# $SECONDS_LEFT (3600): when all must be over; programs for which no time is left are reported as such. Where a call may take
# ten minutes: `SECONDS_LEFT=570 tools/gpu_check.sh build tests bench`, then the same with `sanitize`.
# $AT_ONCE (half of the processors, 8 at most): so many tests run at once, sanitized ones too; benchmarks have the card alone.
# $TFB_SHORT_TESTS=1: a fifth of the rounds of long tests. Under compute-sanitizer it is always so.
#
# Without a card it says so in one line and ends with status 2.
set -u
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/gpu}
BUILD=build/gpu
deadline=$((SECONDS + ${SECONDS_LEFT:-3600}))
AT_ONCE=${AT_ONCE:-$(nproc | awk '{ print $1 < 4 ? 1 : $1 < 16 ? int($1 / 2) : 8 }')}
checks=100000  # The number of the last one: rows of the report are files that sort by it.

if ! nvidia-smi -L 2> /dev/null | grep -q GPU; then
  echo "gpu_check: no card here (nvidia-smi finds none); nothing was checked" >&2
  exit 2
fi
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
ROWS=$BUILD/rows
rm -rf "$ROWS"
mkdir -p "$OUT" "$ROWS"

# heading COMMAND: the first lines of a section for docs/gpu.md.
heading() {
  echo "### $(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1), $(date -u +%F)"
  echo
  echo "Driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)," \
    "$(nvcc --version 2> /dev/null | sed -n 's/.*release \([0-9.]*\).*/CUDA \1,/p')" \
    "commit $(git describe --always --dirty 2> /dev/null || echo unknown). \`$1\`:"
  echo
}

# row passed|failed TEXT…: a row of the report for check number $checks.
row() { printf '| %s | %s | %s |\n' "${@:2}" > "$ROWS/$checks.$1"; }

# run LIMIT NAME COMMAND…: a row of the report, and the end of the output if it failed. LIMIT: in seconds.
run() {
  local limit=$1 name=$2 log=$OUT/${2//[ \/]/-}.log left=$((deadline - SECONDS)) begin=$SECONDS status result
  shift 2
  if [ $left -lt 5 ]; then
    row failed "$name" "not run: no time was left" ""
    return 1
  fi
  [ "$limit" -lt $left ] || limit=$left
  timeout -k 5 "$limit" "$@" > "$log" 2>&1
  status=$?
  case $status in
    0) result="passed" ;;
    124 | 137) result="**stopped after $limit s**" ;;
    *) result="**failed**, status $status" ;;
  esac
  result+=$(sed -n 's/^\([0-9]* passed\), \([0-9]*\) failed$/: \1, \2 failed/p' "$log" | tail -n 1)
  row $([ $status -eq 0 ] && echo passed || echo failed) "$name" "$result" $((SECONDS - begin))
  echo "$name: $result ($((SECONDS - begin)) s)"
  [ $status -eq 0 ] && return
  echo "the end of $log:"
  tail -n 30 "$log"
  return 1
}

# check LIMIT NAME COMMAND…: runs it, and brings the report up to date.
check() {
  checks=$((checks + 1))
  run "$@"
  local status=$?
  "$report"
  return $status
}

# check_beside LIMIT NAME COMMAND…: a check, beside others that were begun so; check_the_rest waits for all of them.
check_beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$AT_ONCE" ]; do wait -n; "$report"; done
  checks=$((checks + 1))
  run "$@" &
}
check_the_rest() {
  wait
  "$report"
}

any_failed() { compgen -G "$ROWS/*.failed" > /dev/null; }

results() {
  echo "| check | result | seconds |"
  echo "|---|---|---|"
  cat "$ROWS"/*
}

python_report() {
  {
    heading "tools/gpu_check.sh python"
    results
    echo
    echo "TensorFlow $tensorflow; tests/gpu: $(tail -n 1 "$OUT/tests-gpu.log" 2> /dev/null | tr -d =)."
    for log in training demo; do
      echo
      echo "$log:"
      echo
      echo '```'
      cat "$OUT/$log.log" 2> /dev/null
      echo '```'
    done
  } > "$OUT/python.md"
}

if [ "${1:-}" = python ]; then
  PYTHON=${PYTHON:-.venv/bin/python}
  "$PYTHON" -c 'import sys, tensorflow as tf; sys.exit(not tf.config.list_physical_devices("GPU"))' 2> /dev/null || {
    echo "gpu_check: TensorFlow of $PYTHON sees no GPU; install tensorflow[and-cuda] (make build does where nvidia-smi answers)" >&2
    exit 2
  }
  tensorflow=$("$PYTHON" -c 'import tensorflow as tf; print(tf.__version__)' 2> /dev/null)
  report=python_report
  # Each process would take the whole card.
  export TF_FORCE_GPU_ALLOW_GROWTH=true
  check 1200 "tests gpu" "$PYTHON" -m pytest -o addopts= -o python_files='*_card.py' -m gpu tests/gpu "${@:2}"
  check 300 training bash -c '"$0" tools/gpu_training.py 2> "$1.err"' "$PYTHON" "$OUT/training"
  check 900 demo bash -c '"$0" examples/demo.py --out "$1" 2> "$1.err"' "$PYTHON" "$OUT/demo" || tail -n 20 "$OUT/demo.err"
  cat "$OUT/python.md"
  any_failed && exit 1
  exit 0
fi

benches=()
native_report() {
  local log
  {
    heading tools/gpu_check.sh
    results
    for log in "${benches[@]}"; do
      echo
      echo "\`$(basename "$log" .log)\`:"
      echo
      echo '```'
      cat "$log" 2> /dev/null
      echo '```'
    done
  } > "$OUT/report.md"
}
report=native_report

build() {
  local missing=
  for tool in nvcc make g++; do
    command -v $tool > /dev/null || missing+=" $tool"
  done
  [ -z "$missing" ] || { echo "gpu_check: there is no$missing here; build where it is, and run the other steps here" >&2; return 1; }
  # Machine code for this card alone: a third of the time.
  local sm
  sm=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  # With -k the other programs are made where one does not compile; what did not is in the file `failed`.
  check 900 build bash -c "make --no-print-directory -k -f cc/native.mk NO_TENSORFLOW=1 BUILD=$BUILD \
    ${sm:+CUDA_TARGETS=-gencode=arch=compute_$sm,code=sm_$sm} -j${JOBS:-$(nproc)} cuda-programs && test ! -s $BUILD/failed"
}

programs() { find $BUILD -name "*_$1_cuda" | sort; }

tests() {
  for program in $(programs test); do check_beside 180 "$(basename "$program" _cuda)" "$program"; done
  check_the_rest
}

bench() {
  for program in $(programs bench); do
    benches+=("$OUT/$(basename "$program" _cuda).log")
    check 240 "$(basename "$program" _cuda)" "$program"
  done
  if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
    benches+=("$OUT/torch_unique_bench.log")
    check 120 torch_unique_bench python3 -c "$TORCH_UNIQUE"
  fi
}

# What others take for the ids of a training step of gpu_table_bench, where the machine has PyTorch.
TORCH_UNIQUE='
import statistics, torch
rows = 1 << 23
draw = torch.rand(1 << 20, device="cuda", dtype=torch.float64, generator=torch.Generator("cuda").manual_seed(1))
ids = ((1 + draw * (rows ** -0.05 - 1)) ** -20).long() * 0x9E3779B97F4A7C1
times = []
for _ in range(21):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    distinct = torch.unique(ids, return_inverse=True, return_counts=True)[0]
    end.record()
    end.synchronize()
    times.append(begin.elapsed_time(end))
print(f"torch.unique of {ids.numel()} ids, {distinct.numel()} distinct: {statistics.median(times):.3f} ms")
'

# Racecheck looks at memory that a block shares, which CUB's sort and sum use; synccheck at the masks of ballots and shuffles.
sanitize() {
  export TFB_SHORT_TESTS=1
  for tool in memcheck racecheck synccheck; do
    for program in $(programs test); do
      check_beside 300 "$(basename "$program" _cuda) under $tool" \
        compute-sanitizer --tool $tool --error-exitcode 1 "$program"
    done
  done
  check_the_rest
}

[ $# -gt 0 ] || set -- build tests bench sanitize
for step in "$@"; do
  case $step in
    build | tests | bench | sanitize) ;;
    *) echo "gpu_check: unknown step '$step'; wanted build, tests, bench, sanitize, or python alone" >&2; exit 1 ;;
  esac
done
for step in "$@"; do
  if [ "$step" = sanitize ] && ! command -v compute-sanitizer > /dev/null; then
    checks=$((checks + 1))
    row failed compute-sanitizer "not run: it is not here" ""
    native_report
    continue
  fi
  if [ "$step" != build ] && [ -z "$(programs test)$(programs bench)" ]; then
    echo "gpu_check: nothing is built under $BUILD; run tools/gpu_check.sh build" >&2
    checks=$((checks + 1))
    row failed "$step" "not run: nothing is built" ""
    native_report
    continue
  fi
  $step || true
done
cat "$OUT/report.md" 2> /dev/null
any_failed && exit 1
exit 0
