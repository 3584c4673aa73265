// Which rows are on the disk, of a table with memory for some of them; and disks that are full.
#include "cc/core/hash_table/row_swap.h"

#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <map>

#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/swapping.h"

namespace tf_booster::contract {
namespace {

constexpr int64_t kDim = kSwappedDim, kRowBytes = kSwappedRowBytes;
constexpr int64_t kMetaBytes = 8;

// What this process has mapped of files that have no name (any more).
class MappedFiles {
 public:
  MappedFiles() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("(deleted)") == std::string::npos) continue;
      char dash;
      uintptr_t begin = 0, end = 0;
      std::istringstream(line) >> std::hex >> begin >> dash >> end;
      ranges_[begin] = end;
    }
  }
  bool Has(const void* memory) const {
    const auto range = ranges_.upper_bound(reinterpret_cast<uintptr_t>(memory));
    return range != ranges_.begin() && reinterpret_cast<uintptr_t>(memory) < std::prev(range)->second;
  }

 private:
  std::map<uintptr_t, uintptr_t> ranges_;
};

// A table with memory for so many rows, beside one that has memory for all of them.
class Pair {
 public:
  Pair(const TableOptions& options, int64_t rows_in_memory) {
    EXPECT_OK(NewCpuTable(options, &whole_));
    memory_.limit = rows_in_memory * (kRowBytes + kMetaBytes);
    CpuTableConfig config;
    config.disk_folder = "/tmp";
    config.row_memory = &memory_;
    config.swap_steps = 4;
    EXPECT_OK(NewCpuTable(options, &parted_, config));
  }
  ~Pair() {
    EXPECT_TRUE(SameRows(ExportAll(*parted_, pf_), ExportAll(*whole_, pf_), kDim));
    EXPECT_EQ(whole_->Stats().disk_bytes, 0);
  }

  HashTable& table() { return *parted_; }

  // A step of both on distinct keys of a field; which keys' rows are in memory during the step.
  std::vector<int64_t> Step(const std::vector<int64_t>& keys, uint32_t field = 0,
                            const std::vector<uint32_t>& stepping = {}) {
    ++steps_;
    const KeyBatch batch = {keys.data(), nullptr, static_cast<int64_t>(keys.size()), field};
    std::vector<std::pair<int64_t, const float*>> rows;
    for (HashTable* table : {whole_.get(), parted_.get()}) {
      std::vector<RowHandle> handles(keys.size());
      EXPECT_OK(table->FindHandles(batch, handles.data(), pf_));
      rows.clear();
      const auto update = [&](const RowVisit& visit) {
        for (int64_t i = 0; i < visit.size; ++i) {
          const int64_t key = keys[visit.positions[i]];
          for (int64_t c = 0; c < 2 * kDim; ++c) visit.rows[i][c] += static_cast<float>(key + c * steps_);
          rows.emplace_back(key, visit.rows[i]);
        }
      };
      EXPECT_OK(table->Update({batch, nullptr, handles.data(), stepping}, update, pf_));
    }
    std::vector<int64_t> in_memory;
    const MappedFiles files;
    for (const auto& [key, row] : rows) {
      if (!files.Has(row)) in_memory.push_back(key);
    }
    return in_memory;
  }

 private:
  ScarceMemory memory_;
  std::unique_ptr<HashTable> whole_, parted_;
  SerialFor pf_;
  int64_t steps_ = 0;
};

// Slabs of less than a page's multiple, or of 2 MiB that are there already, stay in memory: not here.
TEST(TheFirstRowsAreInMemory) {
  Pair pair(SwappedOptions(), 2000);
  const size_t first = pair.Step(Range(0, 4000)).size();
  EXPECT_TRUE(first >= 2000 && first <= 2048);  // The slab up to row 2,047 is of small blocks, and there already.
  EXPECT_EQ(pair.Step(Range(4000, 8000)).size(), size_t{0});
  const TableStats stats = pair.table().Stats();
  EXPECT_EQ(stats.disk_bytes, static_cast<int64_t>(8000 - first) * kRowBytes);
  EXPECT_TRUE(stats.bytes > 8000 * kRowBytes);
}

// A slab of huge pages is cut where memory ends.
TEST(ALargeSlabIsPartlyOnDisk) {
  constexpr int64_t kRows = 50000;  // The slab of rows from 32,768 on takes 4 MiB.
  Pair pair(SwappedOptions(), kRows);
  size_t in_memory = 0;
  for (int64_t begin = 0; begin < 80000; begin += 1000) in_memory += pair.Step(Range(begin, begin + 1000)).size();
  EXPECT_TRUE(in_memory >= size_t{kRows} && in_memory < kRows + (2 << 20) / kRowBytes);
  EXPECT_EQ(pair.table().Stats().disk_bytes, static_cast<int64_t>(80000 - in_memory) * kRowBytes);
  // Those of further slabs are the file's.
  for (int64_t begin = 80000; begin < 200000; begin += 20000) {
    EXPECT_EQ(pair.Step(Range(begin, begin + 20000)).size(), size_t{0});
  }
}

// So is one that was taken ahead, and those behind it.
TEST(SlabsThatAreReservedArePartlyOnDisk) {
  Pair pair(SwappedOptions(), 40000);
  SerialFor pf;
  pair.Step(Range(0, 20000));
  EXPECT_OK(pair.table().Reserve(150000, pf));
  for (int64_t begin = 20000; begin < 180000; begin += 20000) pair.Step(Range(begin, begin + 20000));
  EXPECT_EQ(pair.Step(Range(160000, 161000)).size(), size_t{0});
  EXPECT_EQ(pair.Step(Range(0, 1000)).size(), size_t{1000});
}

TEST(RowsThatAreUsedComeToMemory) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  UsedRowsComeNear(pair, 12);
}

TEST(MemoryIsFullOfWhatIsUsed) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 8000);
  const std::vector<int64_t> keys = Range(4000, 6000);
  for (int64_t step = 0; step < 12; ++step) pair.Step(keys);
  const size_t in_memory = pair.Step(keys).size();
  EXPECT_TRUE(in_memory > 950 && in_memory <= 1024);
}

// A handle that was given out before rows changed places still leads to its key's row.
TEST(HandlesOutliveASwap) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 4000);
  const std::vector<int64_t> keys = Range(0, 4000), codes = Range(1, 4001);
  const KeyBatch batch = {keys.data(), nullptr, 4000};
  std::vector<RowHandle> handles(4000);
  std::vector<float> gathered(4000 * kDim), found(4000 * kDim);
  SerialFor pf;
  EXPECT_OK(pair.table().FindHandles(batch, handles.data(), pf));
  for (int64_t step = 0; step < 8; ++step) pair.Step(Range(3000, 3300));
  EXPECT_EQ(pair.Step(Range(3000, 3300)).size(), size_t{300});
  EXPECT_OK(pair.table().Gather(batch, handles.data(), {{codes.data(), 4000, gathered.data()}}, pf));
  EXPECT_OK(pair.table().Find(batch, found.data(), nullptr, pf));
  EXPECT_TRUE(gathered == found);
}

TEST(AKeySeenOnce) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 4000);
  AKeySeenOnceStaysWhereItIs(pair, 12);
}

TEST(KeysSeenOnceDoNotMove) {
  Pair pair(SwappedOptions(), 1000);
  StepThrough(pair, 4000);
  for (int64_t step = 0; step < 40; ++step) pair.Step(Range(10000 + 100 * step, 10000 + 100 * (step + 1)));
  EXPECT_EQ(pair.Step(Range(0, 1000)).size(), size_t{1000});
}

TEST(AFieldThatStepsSeldom) {
  Pair pair(SwappedOptions(3), 1000);
  AFieldThatStepsSeldomIsNotIdle(pair, 4);
}

// What a checkpoint brings at once fills memory first.
TEST(AnImportFillsMemoryFirst) {
  constexpr int64_t kRows = 100000, kInMemory = 40000;
  Pair pair(SwappedOptions(), kRows);
  SerialFor pf;
  for (int64_t begin = 0; begin < kRows; begin += 10000) pair.Step(Range(begin, begin + 10000));
  ScarceMemory memory;
  memory.limit = kInMemory * (kRowBytes + kMetaBytes);
  CpuTableConfig config;
  config.disk_folder = "/tmp";
  config.row_memory = &memory;
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(SwappedOptions(), &table, config));
  const TableContents contents = ExportAll(pair.table(), pf);
  EXPECT_OK(table->Import(Borrow(contents), pf));
  EXPECT_TRUE(Same(ExportAll(*table, pf), contents));
  const int64_t in_memory = kRows - table->Stats().disk_bytes / kRowBytes;
  EXPECT_TRUE(in_memory >= kInMemory && in_memory < kInMemory + (2 << 20) / kRowBytes);
  EXPECT_OK(table->Clear(0));
  EXPECT_EQ(table->Stats().disk_bytes, 0);
}

// Neither memory nor the disk has room: an error, and the table is as it was.
TEST(DisksEnd) {
  ScarceMemory memory;
  memory.limit = 1000 * (kRowBytes + kMetaBytes);
  CpuTableConfig config;
  config.disk_folder = "/tmp";
  config.row_memory = &memory;
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(SwappedOptions(), &table, config));
  SerialFor pf;
  std::vector<float> out(9000 * kDim);
  EXPECT_OK(table->FindOrInsert(Batch(Range(0, 2000)).ref(), out.data(), pf));
  const TableContents before = ExportAll(*table, pf);
  // A file that may not grow stands for a full disk.
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {8192, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  // The file has taken more than it needs; a batch that is larger fails whatever it took.
  std::vector<float> many(int64_t{700000} * kDim);
  const Batch batch(Range(0, 700000));
  EXPECT_TRUE(IsExhausted(table->FindOrInsert(batch.ref(), many.data(), pf), "folder '/tmp' has no room"));
  EXPECT_TRUE(IsExhausted(table->InsertOrAssign(batch.ref(), many.data(), pf), "folder '/tmp' has no room"));
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(Same(ExportAll(*table, pf), before));
  EXPECT_OK(table->FindOrInsert(Batch(Range(2000, 9000)).ref(), out.data(), pf));
}

TEST(RefusesAFolderThatIsNone) {
  CpuTableConfig config;
  config.disk_folder = "/nonexistent/folder";
  std::unique_ptr<HashTable> table;
  const Status status = NewCpuTable(SwappedOptions(), &table, config);
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
  EXPECT_TRUE(status.message().find("/nonexistent/folder") != std::string::npos);
}

}  // namespace
}  // namespace tf_booster::contract
