#!/bin/sh
# Runs C++ test programs, all of them even if some fail, and ends with the sum of their "N passed, N failed" lines.
passed=0
failed=0
for test in "$@"; do
  echo "== $test"
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
done
echo "C++ tests: $passed passed, $failed failed"
[ $failed -eq 0 ]
