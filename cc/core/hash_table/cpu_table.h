// The hash table in host memory. docs/design/hash_table.md explains it; table_layout.h draws it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_H_

#include <memory>
#include <string>

#include "cc/core/base/status.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

class Allocator;
class MemoryProbe;

// What tests change and users do not, but for the folder.
struct CpuTableConfig {
  int bucket_entries = 4;          // Entries of an index bucket: 4 (one cache line) or 1.
  int max_load_percent = 80;       // Of a stripe of the index, 50 to 95.
  Allocator* allocator = nullptr;  // Where index and rows live; null: HostAllocator().
  MemoryProbe* memory = nullptr;   // How much memory is left; null: the machine and its cgroups.

  // A folder where rows go for which `row_memory`, if not null, or else `memory` has no room; empty: none.
  std::string disk_folder;
  MemoryProbe* row_memory = nullptr;
  int swap_steps = 16;  // Updates from one turn of RowSwap to the next.
};

// Makes an empty table, or says which option is wrong (InvalidArgument). What `config` points to must outlive the
// table.
Status NewCpuTable(TableOptions options, std::unique_ptr<HashTable>* table, const CpuTableConfig& config = {});

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CPU_TABLE_H_
