// The CPU table under large batches of new keys, on one thread and on several.
#include "cc/core/hash_table/contract/new_keys.h"

#include "cc/core/hash_table/contract/cpu_tables.h"

namespace tf_booster::contract {

CONTRACT(FindOrInsertNumbersRowsInBatchOrder, CpuTables)
CONTRACT(InsertOrAssignNumbersRowsInBatchOrder, CpuTables)
CONTRACT(TakesOutWhatDoesNotFit, CpuTables)

}  // namespace tf_booster::contract
