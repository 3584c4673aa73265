// The same on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/exchange/row_terms_body_test.cc"
