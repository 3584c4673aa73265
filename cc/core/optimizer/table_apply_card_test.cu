// The update of a table on a card: `make cuda` compiles it, `make test-cuda` runs it there.
#include "cc/core/optimizer/table_apply_body_test.cc"
