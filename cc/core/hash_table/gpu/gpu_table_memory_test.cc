// Memory that ends at any allocation of a step that evicts: the table is as it was, and goes on when there is memory
// again.
#include "cc/core/base/test.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {
namespace {

Status StepOn(GpuTable* table, int64_t first, int64_t n) {
  std::vector<int64_t> keys(n);
  std::iota(keys.begin(), keys.end(), first);
  const gpu::DeviceKeys batch = {keys.data(), nullptr, n};
  return table->UpdateAsync({batch, nullptr, nullptr, {}},
                            [](const gpu::DeviceState&, const uint32_t*) { return Status(); });
}

// steps: before memory ends, so that the index has come to be full of places where keys were, or is about to.
int64_t FailEverywhere(int64_t steps, const EvictionOptions& eviction) {
  TableOptions options = OneField(3);
  options.fields[0].eviction = eviction;
  ThreadFor pf(2);
  for (int64_t failed = 0;; ++failed) {
    ScarceMemory memory;
    GpuTableConfig config;
    config.allocator = &memory;
    std::unique_ptr<GpuTable> table;
    EXPECT_OK(NewHostStandInTable(options, &table, config, 1));
    for (int64_t step = 0; step < steps; ++step) EXPECT_OK(StepOn(table.get(), 60 * step, 100));
    const TableContents before = ExportAll(*table, pf);
    const TableStats stats = table->Stats();
    memory.allocations = failed;
    const Status status = StepOn(table.get(), 1 << 20, 300);
    memory.allocations = INT64_MAX;
    if (status.ok()) {
      EXPECT_TRUE(table->Stats().evicted > stats.evicted);
      return failed;
    }
    EXPECT_TRUE(IsExhausted(status, "bytes"));
    EXPECT_TRUE(Same(ExportAll(*table, pf), before));
    EXPECT_EQ(table->Stats().evicted, stats.evicted);
    EXPECT_EQ(table->Stats().index_capacity, stats.index_capacity);
    EXPECT_OK(StepOn(table.get(), 60 * steps, 100));
    for (int64_t step = 0; step < 30; ++step) EXPECT_OK(StepOn(table.get(), 60 * step, 100));
    EXPECT_EQ(table->FieldSize(0), eviction.max_rows > 0 ? eviction.max_rows : table->FieldSize(0));
  }
}

TEST(AStepThatEvictsStopsAtAnyAllocation) {
  int64_t most = 0;
  for (int64_t steps = 10; steps < 40; steps += 3) {
    most = std::max(most, FailEverywhere(steps, {0, 400, EvictionOrder::kLru}));
    EXPECT_TRUE(FailEverywhere(steps, {4, 0, EvictionOrder::kNone}) >= 2);  // The arrays of eviction and of the batch.
  }
  EXPECT_TRUE(most >= 4);  // And an index, and a slab.
}

}  // namespace
}  // namespace tf_booster::contract
