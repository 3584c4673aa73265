// Makes the contract suite's tables, and names each test once for buckets of a cache line and once for buckets of one
// entry.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CPU_TABLES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CPU_TABLES_H_

#include <deque>

#include "cc/core/hash_table/contract/failures.h"
#include "cc/core/hash_table/cpu_table.h"

namespace tf_booster::contract {

inline std::unique_ptr<HashTable> MakeCpuTable(const TableOptions& options, int bucket_entries, ScarceMemory* memory) {
  CpuTableConfig config;
  config.bucket_entries = bucket_entries;
  config.allocator = memory;
  config.memory = memory;
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(options, &table, config));
  return table;
}

inline TableMaker CpuTables(int bucket_entries) {
  return [=](const TableOptions& options) { return MakeCpuTable(options, bucket_entries, nullptr); };
}

// Whose index is almost full before it grows.
inline TableMaker FullCpuTables(int bucket_entries) {
  return [=](const TableOptions& options) {
    CpuTableConfig config;
    config.bucket_entries = bucket_entries;
    config.max_load_percent = 95;
    std::unique_ptr<HashTable> table;
    EXPECT_OK(NewCpuTable(options, &table, config));
    return table;
  };
}

// Values of rows take so much memory in each table; the others are on a disk, and change places after every third step.
// (A slab of less than a page is in memory, too.)
inline constexpr int64_t kFewRows = int64_t{4} << 10;

inline TableMaker CpuTablesOnDisk(int bucket_entries) {
  return [=](const TableOptions& options) {
    static std::deque<ScarceMemory> few_rows;
    few_rows.emplace_back().limit = kFewRows;
    CpuTableConfig config;
    config.bucket_entries = bucket_entries;
    config.disk_folder = "/tmp";
    config.row_memory = &few_rows.back();
    config.swap_steps = 3;
    std::unique_ptr<HashTable> table;
    EXPECT_OK(NewCpuTable(options, &table, config));
    return table;
  };
}

inline ScarceTableMaker ScarceCpuTables(int bucket_entries) {
  return
      [=](const TableOptions& options, ScarceMemory* memory) { return MakeCpuTable(options, bucket_entries, memory); };
}

}  // namespace tf_booster::contract

#define CONTRACT(name, tables)              \
  TEST(name##_Bucket4) { name(tables(4)); } \
  TEST(name##_Bucket1) { name(tables(1)); }

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CONTRACT_CPU_TABLES_H_
