// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/columns/column_copy_body_test.cc"
