// The CPU table under readers and writers at once.
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/threads.h"

namespace tf_booster::contract {

CONTRACT(ReadersSeeWholeRows, CpuTables)
CONTRACT(NoUpdateIsLost, CpuTables)
CONTRACT(ReadersSeeAFieldChangeAtOnce, CpuTables)

}  // namespace tf_booster::contract
