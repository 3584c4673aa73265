// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/finite/all_finite_body_test.cc"
