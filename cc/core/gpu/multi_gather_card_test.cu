// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/gpu/multi_gather_body_test.cc"
