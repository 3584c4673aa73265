#!/bin/sh
# Runs C++ test programs, all of them even if some fail, and ends with the sum of their "N passed, N failed" lines.
#
# TFB_PASSED: a folder that tells what has passed. A program that has, the same bit for bit, on such a processor, with such libraries and
# settings, is not run again; delete the folder to run all.
passed=0
before=0
failed=0

# What decides how the program ends.
key() {
  {
    cat "$1" cc/core/example_parser/fuzz/*corpus/*
    ldd "$1" | awk '{ print $3 }' | xargs -r readlink -f
    env | grep '^TFB_\|SAN_OPTIONS=' | grep -v '^TFB_PASSED=\|^TFB_TEST_SHARE=' | sort
    uname -r
    grep -m 1 '^flags' /proc/cpuinfo
  } 2> /dev/null | sha256sum | cut -d ' ' -f 1
}

for test in "$@"; do
  echo "== $test"
  note=
  if [ -n "$TFB_PASSED" ]; then
    mkdir -p "$TFB_PASSED"
    note=$TFB_PASSED/$(key "$test")
    if [ -s "$note" ]; then
      echo "passed before: $(cat "$note")"
      passed=$((passed + $(cat "$note")))
      before=$((before + $(cat "$note")))
      continue
    fi
  fi
  out=$(timeout "${TEST_TIMEOUT:-600}" "$test" 2>&1)
  status=$?
  [ -n "$out" ] && printf '%s\n' "$out"
  set -- $(printf '%s\n' "$out" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' | tail -n 1)
  passed=$((passed + ${1:-0}))
  failed=$((failed + ${2:-0}))
  if [ $status -ne 0 ] && [ "${2:-0}" -eq 0 ]; then
    echo "$test ended with status $status"
    failed=$((failed + 1))
  fi
  if [ -n "$note" ] && [ $status -eq 0 ] && [ "${2:-1}" -eq 0 ]; then
    echo "$1" > "$note"
  fi
done
echo "C++ tests: $passed passed, $failed failed${TFB_PASSED:+ ($before of them passed before, in the same programs)}"
[ $failed -eq 0 ]
