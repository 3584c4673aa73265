// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/columns/multi_bucketize_body_test.cc"
