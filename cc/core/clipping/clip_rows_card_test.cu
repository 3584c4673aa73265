// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/clipping/clip_rows_body_test.cc"
