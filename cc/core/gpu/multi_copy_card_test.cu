// The same on a card: `make cuda` compiles it, `make test-cuda` runs it there.
#include "cc/core/gpu/multi_copy_body_test.cc"
