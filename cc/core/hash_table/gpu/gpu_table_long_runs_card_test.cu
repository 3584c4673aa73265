// The long runs on a card.
#include "cc/core/hash_table/gpu/gpu_table_long_runs_test.cc"
