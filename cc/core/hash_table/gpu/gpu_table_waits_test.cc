// How often a training step asks the card for a number and waits: only where memory must grow, eviction or not.
#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {
namespace {

constexpr int64_t kBatch = 100;

class Training {
 public:
  explicit Training(const TableOptions& options) {
    GpuTableConfig config;
    config.allocator = HostAllocator();
    EXPECT_OK(NewHostStandInTable(options, &table_, config, 1));
  }
  GpuTable& table() { return *table_; }

  // Steps on `fresh` new keys each, beside some of those before. The waits among them.
  int64_t Run(int64_t steps, int64_t fresh) {
    const int64_t before = gpu::HostQueue::waits();
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<int64_t> keys;
      for (int64_t i = 0; i < fresh; ++i) keys.push_back(next_++);
      for (int64_t key = next_ - fresh - 1; static_cast<int64_t>(keys.size()) < kBatch; --key) keys.push_back(key);
      std::vector<RowHandle> handles(kBatch);
      const gpu::DeviceKeys batch = {keys.data(), nullptr, kBatch};
      EXPECT_OK(table_->FindHandlesAsync(batch, handles.data()));
      EXPECT_OK(table_->UpdateAsync({batch, nullptr, handles.data(), {}},
                                    [](const gpu::DeviceState&, const uint32_t*) { return Status(); }));
    }
    return gpu::HostQueue::waits() - before;
  }

 private:
  std::unique_ptr<GpuTable> table_;
  int64_t next_ = 0;
};

TEST(AFullTableThatEvictsDoesNotWait) {
  for (const EvictionOrder order : {EvictionOrder::kLru, EvictionOrder::kLfu}) {
    // Of frequency 1 as well the hundred new keys of a step leave with it.
    const int64_t evicted = 1000 * (order == EvictionOrder::kLru ? 30 : kBatch);
    TableOptions options = OneField(3);
    options.fields[0].eviction = {0, 1000, order};
    Training training(options);
    training.Run(100, 30);
    const TableStats stats = training.table().Stats();
    EXPECT_EQ(stats.rows, 1000);
    EXPECT_EQ(training.Run(1000, 30), 0);
    EXPECT_EQ(training.table().Stats().rows, 1000);
    EXPECT_EQ(training.table().Stats().evicted, stats.evicted + evicted);
    EXPECT_EQ(training.table().Stats().bytes, stats.bytes);
  }
}

TEST(ATableThatForgetsTheIdleDoesNotWait) {
  TableOptions options = OneField(3);
  options.fields[0].eviction.max_idle_steps = 20;
  Training training(options);
  training.Run(100, 30);
  const TableStats stats = training.table().Stats();
  EXPECT_EQ(training.Run(1000, 30), 0);
  EXPECT_EQ(training.table().Stats().rows, stats.rows);
  EXPECT_EQ(training.table().Stats().bytes, stats.bytes);
}

// Two fields that evict, and one of them steps alone: then the other's rows have no bound.
TEST(FieldsThatStepAloneStayInTheirMemory) {
  TableOptions options = ThreeFields(3, 0);
  for (FieldOptions& field : options.fields) field.eviction = {0, 50, EvictionOrder::kLru};
  for (const bool alone : {false, true}) {
    Training training(options);
    for (int64_t step = 0; step < 300; ++step) {
      std::vector<int64_t> keys;
      for (int64_t i = 0; i < 40; ++i) keys.push_back(40 * step + i);
      const uint32_t field = alone ? static_cast<uint32_t>(step % 3) : 1;
      const gpu::DeviceKeys batch = {keys.data(), nullptr, 40, field};
      const std::vector<uint32_t> fields = alone ? std::vector<uint32_t>{field} : std::vector<uint32_t>{};
      EXPECT_OK(training.table().UpdateAsync({batch, nullptr, nullptr, fields},
                                             [](const gpu::DeviceState&, const uint32_t*) { return Status(); }));
    }
    EXPECT_EQ(training.table().Stats().rows, alone ? 150 : 50);
  }
}

// A limit of rows is an error, so it is looked at as soon as the batch might reach it.
TEST(ALimitIsSeenInTime) {
  TableOptions options = OneField(3);
  options.fields[0].max_rows = 11000;
  Training training(options);
  training.Run(1000, 10);
  training.Run(10, 0);
  EXPECT_EQ(training.Run(10, 0), 0);
  std::vector<int64_t> keys(920);
  std::iota(keys.begin(), keys.end(), int64_t{1} << 40);
  const gpu::DeviceKeys batch = {keys.data(), nullptr, 920};
  const Status status = training.table().UpdateAsync({batch, nullptr, nullptr, {}},
                                                     [](const gpu::DeviceState&, const uint32_t*) { return Status(); });
  EXPECT_TRUE(status.code() == StatusCode::kResourceExhausted);
  EXPECT_EQ(training.table().Stats().rows, 10090);
}

// Slabs, of 32 rows here, are added by bounds, without a wait. An index that is built anew costs one.
TEST(ATableThatGrowsWaitsForItsIndexAlone) {
  TableOptions options = OneField(1024);
  options.slot_initial_values = {0.1f};
  Training training(options);
  training.Run(84, 95);
  int64_t rows = 84 * 95 + 5, indexes = 0;
  for (int64_t step = 0; step < 500; ++step) {
    const TableStats before = training.table().Stats();
    const int64_t waits = training.Run(1, 8);
    const TableStats after = training.table().Stats();
    const bool built = after.index_capacity != before.index_capacity;
    EXPECT_EQ(waits, built ? 1 : 0);
    indexes += built;
    EXPECT_EQ(after.rows, rows += 8);
    // And no more than two batches are ahead, the rest of a slab, an entry of each eighth in ten.
    EXPECT_TRUE(after.bytes < (rows + 2 * kBatch + 32) * (8192 + 16) + rows * 24 + 64 * kBatch);
  }
  EXPECT_TRUE(indexes >= 3);
}

// Keys that are there already take no room, however many batches of them come.
TEST(KnownKeysNeverMakeATableWait) {
  Training training(OneField(3));
  training.Run(200, 50);
  training.Run(10, 0);
  const TableStats stats = training.table().Stats();
  EXPECT_TRUE(training.Run(2000, 0) <= 3);
  EXPECT_EQ(training.table().Stats().bytes, stats.bytes);
  EXPECT_EQ(training.table().Stats().rows, 10050);
}

}  // namespace
}  // namespace tf_booster::contract
