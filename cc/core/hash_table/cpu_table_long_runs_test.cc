// The CPU table over a million operations, under sixteen threads, and with an index that is almost full.
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/long_runs.h"

namespace tf_booster::contract {

TEST(AMillionOperations) { AMillionOperations(CpuTables(4)); }

CONTRACT(RowsBelongTogether, CpuTables)

CONTRACT(GrowsOneByOne, FullCpuTables)
CONTRACT(GrowsInOneBatch, FullCpuTables)
CONTRACT(ErasesAndInsertsForever, FullCpuTables)
CONTRACT(LastOfDuplicatesWins, FullCpuTables)
CONTRACT(RandomOperationsWithPolicies, FullCpuTables)

// The index really gets that full: its stripes reach 89 to 95 % one after another, all together more than 87 %.
TEST(FillsUpTo95Percent) {
  TableOptions options = OneField(1, 0);
  std::unique_ptr<HashTable> table = FullCpuTables(4)(options);
  SerialFor pf;
  const Batch keys(MakeKeys(Pattern::kRandom, 200000));
  std::vector<float> out(1);
  double fullest = 0;
  for (int64_t i = 0; i < keys.size(); ++i) {
    EXPECT_OK(table->FindOrInsert({&keys.keys[i], nullptr, 1}, out.data(), pf));
    if (i % 64 != 0) continue;
    const TableStats stats = table->Stats();
    fullest = std::max(fullest, static_cast<double>(stats.rows) / static_cast<double>(stats.index_capacity));
  }
  EXPECT_TRUE(fullest > 0.87 && fullest <= 0.95);
  std::vector<uint8_t> found(keys.size());
  out.resize(keys.size());
  EXPECT_OK(table->Find(keys.ref(), out.data(), found.data(), pf));
  EXPECT_TRUE(std::count(found.begin(), found.end(), 1) == keys.size());
}

TEST(RefusesImpossibleLoads) {
  for (const int percent : {49, 96}) {
    CpuTableConfig config;
    config.max_load_percent = percent;
    std::unique_ptr<HashTable> table;
    EXPECT_TRUE(NewCpuTable(OneField(4), &table, config).code() == StatusCode::kInvalidArgument);
  }
}

}  // namespace tf_booster::contract
