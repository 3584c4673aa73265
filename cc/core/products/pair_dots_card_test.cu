// The same on a card: `make cuda` compiles it, `make test-cuda` runs it there.
#include "cc/core/products/pair_dots_body_test.cc"
