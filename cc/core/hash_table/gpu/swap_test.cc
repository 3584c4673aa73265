// Which rows are on the card, of a table with room for some of them; and memory of the host that ends.
#include <map>

#include "cc/core/base/capped_allocator.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/contract/swapping.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {
namespace {

constexpr int64_t kDim = kSwappedDim, kRowBytes = kSwappedRowBytes;

// Knows its own.
class Known final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    void* const memory = HostAllocator()->Allocate(bytes);
    blocks_[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
  }
  void Free(void* memory, size_t bytes) override {
    blocks_.erase(reinterpret_cast<uintptr_t>(memory));
    HostAllocator()->Free(memory, bytes);
  }
  bool Has(const void* memory) const {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory);
    auto block = blocks_.upper_bound(at);
    return block != blocks_.begin() && at - std::prev(block)->first < std::prev(block)->second;
  }

 private:
  std::map<uintptr_t, size_t> blocks_;
};

// A table with room for so many rows on the card, beside one that has room for all of them.
class Pair {
 public:
  Pair(const TableOptions& options, int64_t rows_on_card) : rows_(HostAllocator(), rows_on_card * kRowBytes) {
    GpuTableConfig config;
    config.allocator = HostAllocator();
    EXPECT_OK(NewHostStandInTable(options, &whole_, config, 1));
    config.allocator = &memory;
    config.row_allocator = &rows_;
    config.host_allocator = &host_;
    config.swap_steps = 4;
    EXPECT_OK(NewHostStandInTable(options, &parted_, config, 1));
  }
  ~Pair() {
    SerialFor pf;
    EXPECT_TRUE(SameRows(ExportAll(*parted_, pf), ExportAll(*whole_, pf), kDim));
  }

  GpuTable& table() { return *parted_; }

  // A step of both on distinct keys of a field; which keys' rows are on the card during the step.
  std::vector<int64_t> Step(const std::vector<int64_t>& keys, uint32_t field = 0,
                            const std::vector<uint32_t>& stepping = {}) {
    ++steps_;
    std::vector<int64_t> on_card;
    for (GpuTable* table : {whole_.get(), parted_.get()}) {
      const int64_t n = static_cast<int64_t>(keys.size());
      const gpu::DeviceKeys batch = {keys.data(), nullptr, n, field};
      std::vector<RowHandle> handles(keys.size());
      EXPECT_OK(table->FindHandlesAsync(batch, handles.data()));
      const auto update = [&](const gpu::DeviceState& state, const uint32_t* rows) {
        for (int64_t i = 0; i < n; ++i) {
          float* const values = state.rows.Values(rows[i]);
          for (int64_t c = 0; c < 2 * kDim; ++c) values[c] += static_cast<float>(keys[i] + c * steps_);
          if (table == parted_.get() && !host_.Has(values)) on_card.push_back(keys[i]);
        }
        return Status();
      };
      EXPECT_OK(table->UpdateAsync({batch, nullptr, handles.data(), stepping}, update));
    }
    return on_card;
  }

  ScarceMemory memory;  // Of all but rows.

 private:
  CappedAllocator rows_;
  Known host_;
  std::unique_ptr<GpuTable> whole_, parted_;
  int64_t steps_ = 0;
};

// Those that came first are on the card; then those that are used, whichever they are.
TEST(RowsThatAreUsedComeToTheCard) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  EXPECT_TRUE(pair.table().Stats().host_bytes > 6000 * kRowBytes);
  UsedRowsComeNear(pair, 8);
}

// More than the card has room for: it is full of them.
TEST(ACardIsFullOfWhatIsUsed) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  const std::vector<int64_t> keys = Range(4000, 6000);
  for (int64_t step = 0; step < 8; ++step) pair.Step(keys);
  const size_t on_card = pair.Step(keys).size();
  EXPECT_TRUE(on_card > 450 && on_card <= 1000);  // Slabs double: of 1,000 rows there is room for 512 - 16 at least.
}

// Others leave the card for those that come next.
TEST(TheClocksHandGoesOn) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  for (int64_t set = 0; set < 3; ++set) {
    for (int64_t step = 0; step < 8; ++step) pair.Step(Range(5000 + 50 * set, 5050 + 50 * set));
  }
  EXPECT_EQ(pair.Step(Range(5000, 5150)).size(), size_t{150});
}

// A handle that was given out before rows changed places still leads to its key's row.
TEST(HandlesOutliveASwap) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 4000);
  const std::vector<int64_t> keys = Range(0, 4000);
  const gpu::DeviceKeys batch = {keys.data(), nullptr, 4000};
  std::vector<RowHandle> handles(4000);
  std::vector<int64_t> codes = Range(1, 4001);
  std::vector<float> gathered(4000 * kDim), found(4000 * kDim);
  EXPECT_OK(pair.table().FindHandlesAsync(batch, handles.data()));
  for (int64_t step = 0; step < 8; ++step) pair.Step(Range(3000, 3300));
  EXPECT_OK(pair.table().GatherAsync(batch, handles.data(), {{codes.data(), 4000, gathered.data()}}));
  EXPECT_OK(pair.table().FindAsync(batch, found.data(), nullptr));
  EXPECT_TRUE(gathered == found);
}

TEST(AKeySeenOnce) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 4000);
  AKeySeenOnceStaysWhereItIs(pair, 8);
}

TEST(AFieldThatStepsSeldom) {
  Pair pair(SwappedOptions(3), 1000);
  AFieldThatStepsSeldomIsNotIdle(pair, 6);
}

TEST(SwapsDoNotWait) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  for (int64_t step = 0; step < 10; ++step) pair.Step(Range(0, 100));
  const int64_t before = gpu::HostQueue::waits();
  for (int64_t step = 0; step < 100; ++step) pair.Step(Range(70 * step, 70 * step + 100));
  EXPECT_EQ(gpu::HostQueue::waits(), before);
}

// Where there is no memory to find out who moves, rows stay where they are, and move later.
TEST(WithoutMemoryNobodyMoves) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  const std::vector<int64_t> keys = Range(7000, 7050);
  pair.memory.largest = 3 << 10;  // A batch's own arrays, and no more.
  for (int64_t step = 0; step < 9; ++step) pair.Step(keys);
  EXPECT_EQ(pair.Step(keys).size(), size_t{0});
  pair.memory.largest = INT64_MAX;
  pair.Step(keys);
  EXPECT_EQ(pair.Step(keys).size(), keys.size());
}

// Neither the card nor the host has room: an error, and the table is as it was.
TEST(MemoryOfTheHostEnds) {
  SerialFor pf;
  CappedAllocator rows(HostAllocator(), 100 * kRowBytes), host(HostAllocator(), 3000 * kRowBytes);
  GpuTableConfig config;
  config.allocator = HostAllocator();
  config.row_allocator = &rows;
  config.host_allocator = &host;
  std::unique_ptr<GpuTable> table;
  EXPECT_OK(NewHostStandInTable(SwappedOptions(), &table, config, 1));
  std::vector<float> out(4000 * kDim);
  EXPECT_OK(table->FindOrInsert(Batch(Range(0, 1000)).ref(), out.data(), pf));
  const TableContents before = ExportAll(*table, pf);
  const Status status = table->FindOrInsert(Batch(Range(0, 4000)).ref(), out.data(), pf);
  EXPECT_TRUE(IsExhausted(status, "or the host had none"));
  EXPECT_TRUE(Same(ExportAll(*table, pf), before));
  EXPECT_OK(table->FindOrInsert(Batch(Range(1000, 1100)).ref(), out.data(), pf));
}

}  // namespace
}  // namespace tf_booster::contract
