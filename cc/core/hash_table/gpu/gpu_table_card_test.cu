// The contract suite on a card: `make test-cuda` and tools/gpu_check.sh run it there, `make test-ptx` without one.
#include "cc/core/hash_table/gpu/gpu_table_test.cc"
