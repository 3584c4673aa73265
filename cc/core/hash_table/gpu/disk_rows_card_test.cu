// A part of disk_rows_test.cc on a card, or from PTX.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

GPU_CONTRACT(RandomOperations, GpuTablesOnDisk)
GPU_CONTRACT(HandlesAreNeverWrong, GpuTablesOnDisk)
GPU_CONTRACT(EvictsDownToMaxRows, GpuTablesOnDisk)
GPU_CONTRACT(ExportsAndImports, GpuTablesOnDisk)

}  // namespace tf_booster::contract
