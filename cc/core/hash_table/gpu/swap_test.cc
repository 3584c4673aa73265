// Which rows are on the card, in the host's memory and on a disk, of a table with room for some of them; and memory and
// disks that end.
#include <signal.h>
#include <sys/resource.h>

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

// A table with room for so many rows on the card, beside one that has room for all of them. Others are in host memory;
// or as many of them as are said, and the rest on a disk.
class Pair {
 public:
  Pair(const TableOptions& options, int64_t rows_on_card, int64_t rows_in_host = -1)
      : rows_(HostAllocator(), rows_on_card * kRowBytes) {
    GpuTableConfig config;
    config.allocator = HostAllocator();
    EXPECT_OK(NewHostStandInTable(options, &whole_, config, 1));
    config.allocator = &memory;
    config.row_allocator = &rows_;
    config.host_allocator = &host_;
    config.swap_steps = 4;
    if (rows_in_host >= 0) {
      host_rows_.limit = rows_in_host * kRowBytes;
      config.host_memory = &host_rows_;
      config.disk_folder = "/tmp";
    }
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
          const bool is_copy = rows[i] >= state.counters->end;
          if (table == parted_.get() && !is_copy && !host_.Has(values)) on_card.push_back(keys[i]);
          from_disk_ += table == parted_.get() && is_copy;
        }
        return Status();
      };
      EXPECT_OK(table->UpdateAsync({batch, nullptr, handles.data(), stepping}, update));
    }
    return on_card;
  }

  // How many rows steps have read from the disk since the last time.
  int64_t TakeFromDisk() { return std::exchange(from_disk_, 0); }

  ScarceMemory memory;  // Of all but rows.

 private:
  int64_t from_disk_ = 0;
  CappedAllocator rows_;
  ScarceMemory host_rows_;
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

// Who is used stays, from the first turn on.
TEST(TheIdleLeave) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  std::vector<int64_t> keys = Range(0, 400);
  for (const int64_t key : Range(5000, 5050)) keys.push_back(key);
  for (int64_t step = 0; step < 5; ++step) pair.Step(keys);
  EXPECT_EQ(pair.Step(keys).size(), size_t{450});
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

// Handles that were given out before `hot` rows, which are far away, came near still lead to their keys' rows.
void HandlesOutlive(Pair& pair, int64_t end, const std::vector<int64_t>& hot) {
  StepThrough(pair, end);
  const std::vector<int64_t> keys = Range(0, end), codes = Range(1, end + 1);
  const gpu::DeviceKeys batch = {keys.data(), nullptr, end};
  std::vector<RowHandle> handles(end);
  std::vector<float> gathered(end * kDim), found(end * kDim);
  EXPECT_OK(pair.table().FindHandlesAsync(batch, handles.data()));
  for (int64_t step = 0; step < 8; ++step) pair.Step(hot);
  EXPECT_OK(pair.table().GatherAsync(batch, handles.data(), {{codes.data(), end, gathered.data()}}));
  EXPECT_OK(pair.table().FindAsync(batch, found.data(), nullptr));
  EXPECT_TRUE(gathered == found);
}

TEST(HandlesOutliveASwap) {
  Pair pair(SwappedOptions(), 1000);
  HandlesOutlive(pair, 4000, Range(3000, 3300));
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

// 1,000 rows on the card, 2,000 in the host's memory, the others of 8,000 on the disk.
TEST(TheFirstRowsAreNearest) {
  Pair pair(SwappedOptions(), 1000, 2000);
  StepThrough(pair, 8000);
  const TableStats stats = pair.table().Stats();
  EXPECT_TRUE(stats.host_bytes > 1500 * kRowBytes && stats.host_bytes <= 2000 * kRowBytes);
  EXPECT_TRUE(stats.disk_bytes > 5000 * kRowBytes && stats.bytes > stats.host_bytes + stats.disk_bytes);
  pair.TakeFromDisk();
  pair.Step(Range(0, 2000));
  EXPECT_EQ(pair.TakeFromDisk(), 0);
  pair.Step(Range(5000, 6000));
  EXPECT_EQ(pair.TakeFromDisk(), 1000);
}

TEST(RowsThatAreUsedComeFromTheDiskToTheCard) {
  Pair pair(SwappedOptions(), 1000, 2000);
  StepThrough(pair, 8000);
  UsedRowsComeNear(pair, 12);
  EXPECT_TRUE(pair.TakeFromDisk() > 0);
  pair.Step(Range(5500, 5800));
  EXPECT_EQ(pair.TakeFromDisk(), 0);
}

// With no host memory at all they come to the card at once.
TEST(RowsThatAreUsedComeFromTheDiskWithoutTheHost) {
  Pair pair(SwappedOptions(), 1000, 0);
  StepThrough(pair, 8000);
  EXPECT_EQ(pair.table().Stats().host_bytes, 0);
  UsedRowsComeNear(pair, 8);
}

// Nor has anything else: each step reads all its rows, and writes them.
TEST(AllRowsAreOnTheDisk) {
  Pair pair(SwappedOptions(), 0, 0);
  StepThrough(pair, 4000);
  pair.TakeFromDisk();
  for (int64_t step = 0; step < 10; ++step) pair.Step(Range(0, 3000));
  EXPECT_EQ(pair.TakeFromDisk(), 30000);
  EXPECT_EQ(pair.table().Stats().disk_bytes % kRowBytes, 0);
}

TEST(AKeySeenOnceStaysOnTheDisk) {
  Pair pair(SwappedOptions(), 1000, 1000);
  StepThrough(pair, 4000);
  AKeySeenOnceStaysWhereItIs(pair, 12);
}

TEST(HandlesOutliveASwapWithTheDisk) {
  Pair pair(SwappedOptions(), 1000, 0);
  HandlesOutlive(pair, 8000, Range(7000, 7300));
}

// Those of a batch have room among others, those that it inserts too; or the batch fails, and the table is as it was.
TEST(NoMemoryForRowsOfTheDisk) {
  Pair pair(SwappedOptions(), 1000, 1000);
  StepThrough(pair, 8000);
  SerialFor pf;
  TableContents before = ExportAll(pair.table(), pf);
  std::vector<int64_t> keys = Range(4000, 6000);
  for (const int64_t key : Range(9000, 9500)) keys.push_back(key);
  const gpu::DeviceKeys batch = {keys.data(), nullptr, 2500};
  std::vector<float> out(2500 * kDim);
  const auto update = [](const gpu::DeviceState&, const uint32_t*) { return Status(); };
  std::vector<RowHandle> handles(2500);
  pair.memory.largest = int64_t{30} << 10;  // Rows are not read ahead, then.
  EXPECT_OK(pair.table().FindHandlesAsync(batch, handles.data()));
  pair.memory.largest = int64_t{100} << 10;
  EXPECT_TRUE(IsExhausted(pair.table().FindAsync(batch, out.data(), nullptr), "user_emb"));
  for (const int64_t largest : {int64_t{100} << 10, int64_t{305} << 10}) {  // The copies take 312 KiB.
    pair.memory.largest = largest;
    EXPECT_TRUE(IsExhausted(pair.table().UpdateAsync({batch, nullptr, nullptr, {}}, update), "user_emb"));
    pair.memory.largest = INT64_MAX;
    EXPECT_TRUE(Same(ExportAll(pair.table(), pf), before));
    // Nothing is left of the batch that others would meet.
    pair.Step(Range(9200, 9400));
    before = ExportAll(pair.table(), pf);
  }
  pair.Step(keys);
}

// One wait for each lookup and update that has rows to read, and one for each part of them: none where nothing is on
// the disk.
TEST(OnlyTablesOnDiskWaitForIt) {
  Pair pair(SwappedOptions(), 1000, 100000);
  StepThrough(pair, 8000);
  for (int64_t step = 0; step < 10; ++step) pair.Step(Range(0, 100));
  const int64_t before = gpu::HostQueue::waits();
  for (int64_t step = 0; step < 100; ++step) pair.Step(Range(70 * step, 70 * step + 100));
  EXPECT_EQ(gpu::HostQueue::waits(), before);
}

// Files that may not grow, and may be written no more behind a byte, stand for disks that are full, and that fail.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small = {bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit limit_;
  void (*handler_)(int);
};

TEST(DisksEnd) {
  SerialFor pf;
  Pair pair(SwappedOptions(), 1000, 1000);
  StepThrough(pair, 8000);
  const TableContents before = ExportAll(pair.table(), pf);
  {
    // The file has taken more than it needs; a batch that is larger fails whatever it took.
    const SmallFiles small(8192);
    const Batch batch(Range(0, 700000));
    std::vector<float> many(int64_t{700000} * kDim);
    const std::string named = "folder '/tmp' has no room";
    EXPECT_TRUE(IsExhausted(pair.table().FindOrInsert(batch.ref(), many.data(), pf), named));
    EXPECT_TRUE(IsExhausted(pair.table().InsertOrAssign(batch.ref(), many.data(), pf), named));
  }
  EXPECT_TRUE(Same(ExportAll(pair.table(), pf), before));
  pair.Step(Range(7000, 9000));
}

// A table some of whose rows could not be written is none any more: it answers nothing, rather than something wrong.
TEST(DisksFail) {
  SerialFor pf;
  GpuTableConfig config;
  config.allocator = config.host_allocator = HostAllocator();
  CappedAllocator rows(HostAllocator(), 100 * kRowBytes);
  ScarceMemory none;
  none.limit = 0;
  config.row_allocator = &rows;
  config.host_memory = &none;
  config.disk_folder = "/tmp";
  std::unique_ptr<GpuTable> table;
  EXPECT_OK(NewHostStandInTable(SwappedOptions(), &table, config, 1));
  const Batch batch(Range(0, 4000));
  std::vector<float> out(4000 * kDim);
  EXPECT_OK(table->FindOrInsert(batch.ref(), out.data(), pf));
  const auto fails = [&](const Status& status) {
    EXPECT_TRUE(status.message().find("the disk of folder '/tmp' failed") != std::string::npos);
    return status.code() == StatusCode::kInternal;
  };
  {
    const SmallFiles small(8192);
    EXPECT_TRUE(fails(table->InsertOrAssign(batch.ref(), out.data(), pf)));
  }
  EXPECT_TRUE(fails(table->Find(batch.ref(), out.data(), nullptr, pf)));
  EXPECT_TRUE(fails(table->FindOrInsert(batch.ref(), out.data(), pf)));
}

TEST(RefusesAFolderThatIsNone) {
  GpuTableConfig config;
  config.allocator = config.host_allocator = HostAllocator();
  config.disk_folder = "/nonexistent/folder";
  std::unique_ptr<GpuTable> table;
  const Status status = NewHostStandInTable(SwappedOptions(), &table, config, 1);
  EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().find("/nonexistent/folder") != std::string::npos);
}

}  // namespace
}  // namespace tf_booster::contract
