// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/normalization/batch_norm_body_test.cc"
