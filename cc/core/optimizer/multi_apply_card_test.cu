// The dense steps on a card: `make cuda` compiles it, `make test-cuda` runs it there.
#include "cc/core/optimizer/multi_apply_body_test.cc"
