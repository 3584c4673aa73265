// A part of host_rows_test.cc on a card, or from PTX.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

GPU_CONTRACT(RandomOperations, GpuTablesWithHostRows)
GPU_CONTRACT(HandlesAreNeverWrong, GpuTablesWithHostRows)
GPU_CONTRACT(EvictsDownToMaxRows, GpuTablesWithHostRows)
GPU_CONTRACT(ExportsAndImports, GpuTablesWithHostRows)

}  // namespace tf_booster::contract
