// The CPU table when something is wrong: limits, memory, arguments, options; and what an empty table costs.
#include <malloc.h>

#include <functional>

#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/failures.h"
#include "cc/core/hash_table/contract/fields.h"

namespace tf_booster::contract {

CONTRACT(StopsAtMaxRows, CpuTables)
CONTRACT(StopsWhereMemoryEnds, ScarceCpuTables)
CONTRACT(StopsAtAnyAllocation, ScarceCpuTables)
CONTRACT(RefusesBadBatches, CpuTables)
CONTRACT(ImportOfAFieldStopsAtAnyAllocation, ScarceCpuTables)

TEST(RefusesBadOptions) {
  const auto refuses = [](const std::string& named, const std::function<void(TableOptions&)>& spoil) {
    TableOptions options = ThreeFields(4);
    spoil(options);
    std::unique_ptr<HashTable> table;
    const Status status = NewCpuTable(options, &table);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
    EXPECT_TRUE(status.message().find(named) != std::string::npos);
    EXPECT_TRUE(table == nullptr);
  };
  using O = TableOptions;
  refuses("dim is 0", [](O& o) { o.dim = 0; });
  refuses("dim is", [](O& o) { o.dim = INT64_MAX; });
  refuses("fields", [](O& o) { o.fields.clear(); });
  refuses("item_emb", [](O& o) { o.fields[1].max_rows = -1; });
  refuses("min_frequency", [](O& o) { o.fields[1].min_frequency = -1; });
  refuses("min_frequency", [](O& o) { o.fields[1].min_frequency = int64_t{1} << 31; });
  refuses("both", [](O& o) { o.fields[0].eviction = {1, 1, EvictionOrder::kLru}; });
  refuses("order", [](O& o) { o.fields[0].eviction = {0, 1, EvictionOrder::kNone}; });
  refuses("order", [](O& o) { o.fields[0].eviction = {5, 0, EvictionOrder::kLfu}; });
  refuses("negative", [](O& o) { o.fields[0].eviction = {-5, 0, EvictionOrder::kNone}; });
  refuses("finite", [](O& o) { o.fields[0].initializer.a = NAN; });
  refuses("minimum", [](O& o) { o.fields[0].initializer = {InitializerKind::kUniform, 1.0f, 0.0f}; });
  refuses("kind", [](O& o) { o.fields[0].initializer.kind = static_cast<InitializerKind>(4); });
}

size_t BytesInUse() {
#if __GLIBC_PREREQ(2, 33)
  return mallinfo2().uordblks;
#else  // Debian 11 and Ubuntu 20.04; of int, which 2 GiB would overflow.
  return mallinfo().uordblks;
#endif
}

// Models have thousands of tables, most of them small.
TEST(AnEmptyTableCostsAFewKilobytes) {
  constexpr size_t kTables = 2000;
  std::vector<std::unique_ptr<HashTable>> tables(kTables);
  const size_t before = BytesInUse();
  for (auto& table : tables) table = MakeCpuTable(OneField(16), 4, nullptr);
  EXPECT_TRUE(BytesInUse() - before < kTables * 4096);
  EXPECT_EQ(tables[7]->Stats().bytes, 0);
}

}  // namespace tf_booster::contract
