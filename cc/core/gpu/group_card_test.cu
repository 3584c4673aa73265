// A group's copy on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/gpu/group_test.cc"
