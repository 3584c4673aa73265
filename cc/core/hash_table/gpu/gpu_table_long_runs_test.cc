// The card's table over a million operations against the dictionary, growth and eviction among them, and under sixteen
// threads that do all sorts of things at once.
#include "cc/core/hash_table/contract/long_runs.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

TEST(AMillionOperations) { AMillionOperations(GpuTables(1)); }  // One thread of kernels: a second finds nothing more.

GPU_CONTRACT(RowsBelongTogether, GpuTables)

}  // namespace tf_booster::contract
