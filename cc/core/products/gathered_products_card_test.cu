// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/products/gathered_products_body_test.cc"
