// Memory of tables on the card: what a row takes; and memory that ends at any allocation of a step that evicts: the
// table is as it was, and goes on when there is memory again.
#include "cc/core/base/test.h"
#include "cc/core/hash_table/contract/memory_per_row.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {
namespace {

Status StepOn(GpuTable* table, const std::vector<int64_t>& keys) {
  const gpu::DeviceKeys batch = {keys.data(), nullptr, static_cast<int64_t>(keys.size())};
  return table->UpdateAsync({batch, nullptr, nullptr, {}},
                            [](const gpu::DeviceState&, const uint32_t*) { return Status(); });
}

Status StepOn(GpuTable* table, int64_t first, int64_t n) {
  std::vector<int64_t> keys(n);
  std::iota(keys.begin(), keys.end(), first);
  return StepOn(table, keys);
}

// steps: before memory ends, so that the index has come to be full of places where keys were, or is about to.
int64_t FailEverywhere(int64_t steps, const EvictionOptions& eviction) {
  TableOptions options = OneField(3);
  options.fields[0].eviction = eviction;
  SerialFor pf;
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

// What is left of a card that a table fills: it can be saved all the same, in smaller pieces.
TEST(AFullCardGivesItsTableAway) {
  ScarceMemory memory;
  GpuTableConfig config;
  config.allocator = &memory;
  std::unique_ptr<GpuTable> table;
  EXPECT_OK(NewHostStandInTable(OneField(64, 1), &table, config, 1));
  EXPECT_OK(StepOn(table.get(), 0, 5000));
  SerialFor pf;
  const TableContents before = ExportAll(*table, pf);
  EXPECT_EQ(before.keys.size(), size_t{5000});
  int64_t whole = 0, part = 0;  // Bytes of the largest piece.
  EXPECT_TRUE(Same(ExportByPieces(*table, {0}, true, pf, &whole), before));
  memory.largest = 1 << 20;  // Of 5,000 rows 1.3 MB, embeddings alone.
  EXPECT_TRUE(Same(ExportAll(*table, pf), before));
  EXPECT_TRUE(Same(ExportByPieces(*table, {0}, true, pf, &part), before));
  EXPECT_TRUE(part < whole);
  memory.largest = 1 << 16;
  const auto take_heads = [](const std::vector<ContentsOut>&) { return Status(); };
  const auto take = [](const ContentsPiece&) { return Status(); };
  EXPECT_TRUE(IsExhausted(table->ExportPieces({0}, true, take_heads, take, pf), "bytes"));
}

std::unique_ptr<GpuTable> StandIn(const TableOptions& options) {
  GpuTableConfig config;
  config.allocator = HostAllocator();
  std::unique_ptr<GpuTable> table;
  EXPECT_OK(NewHostStandInTable(options, &table, config, 1));
  return table;
}

TEST(ARowTakes32BytesBeyondItselfAndItsKey) {
  for (TableOptions options : {OneField(16, 2), ThreeFields(16)}) {
    const Overhead plain = OverheadOfInserts(StandIn(options).get());
    EXPECT_TRUE(plain.average <= 31 && plain.worst <= 35);
    for (FieldOptions& field : options.fields) field.eviction.max_idle_steps = 1000;
    const Overhead evicting = OverheadOfInserts(StandIn(options).get());
    EXPECT_TRUE(evicting.average <= 31 && evicting.worst <= 35);
  }
}

// Steps of 1,000 keys, a tenth of them new, up to a million rows: with what they take ahead so as not to wait, which is
// room for two batches.
TEST(SoDoesOneOfATableInTraining) {
  const std::unique_ptr<GpuTable> table = StandIn(OneField(16, 2));
  const auto train = [&](const KeyBatch& fresh) {
    for (int64_t begin = 0; begin < fresh.size; begin += 100) {
      const int64_t end = std::min(begin + 100, fresh.size);
      std::vector<int64_t> keys(fresh.keys + begin, fresh.keys + end);
      for (int64_t key = 1; key <= 900; ++key) keys.push_back(key);
      EXPECT_OK(StepOn(table.get(), keys));
    }
  };
  const Overhead found = OverheadOf(table.get(), train, 1 << 18);
  EXPECT_TRUE(found.average <= 32 && found.worst <= 34);
}

// Upper halves of counts are there only where a row was seen so often; not where all rows together were.
TEST(CountsAreWideWhereARowNeedsIt) {
  const std::unique_ptr<GpuTable> table = StandIn(OneField(2));
  TableModel model(table->options());
  SerialFor pf;
  constexpr int64_t kBig = (int64_t{1} << 32) - 1;
  const auto step = [&](std::vector<int64_t> keys, const std::vector<int64_t>& counts) {
    Step(table.get(), &model, Batch(std::move(keys)), counts, pf);
    return table->Stats().bytes;
  };
  const int64_t narrow = step({1, 2, 3, 4}, {1, 1, 1, 1});
  EXPECT_EQ(step({1, 2, 3}, {kBig / 2, kBig / 2, kBig / 2}), narrow);
  EXPECT_EQ(step({4}, {kBig / 2}), narrow);
  EXPECT_EQ(step({4}, {kBig / 2 - 1}), narrow);
  EXPECT_EQ(step({4}, {1}), narrow);  // 2^32 - 1 now.
  EXPECT_TRUE(step({4}, {1}) > narrow);
  step({4, 5}, {kBig, 7});
}

}  // namespace
}  // namespace tf_booster::contract
