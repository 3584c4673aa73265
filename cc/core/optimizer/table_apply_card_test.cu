// The update of a table on a card: `make test-cuda` runs it there, `make test-ptx` without one.
#include "cc/core/optimizer/table_apply_body_test.cc"
