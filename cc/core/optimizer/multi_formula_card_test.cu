// Formulas on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/optimizer/multi_formula_body_test.cc"
