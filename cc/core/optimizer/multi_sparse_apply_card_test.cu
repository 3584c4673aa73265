// The sparse steps on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/optimizer/multi_sparse_apply_body_test.cc"
