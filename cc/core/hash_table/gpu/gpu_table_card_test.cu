// The contract suite on a card: `make cuda` compiles it, `make test-cuda` and tools/gpu_check.sh run it there.
#include "cc/core/hash_table/gpu/gpu_table_test.cc"
