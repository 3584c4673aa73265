// Rows and their counts in slabs that double and never move, and the rows that are free again.
//
// Where there is no memory for more rows, further ones may go to a disk: the slabs go on, but behind some row their
// pages are those of a file. Counts stay in memory.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_STORE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_STORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/base/allocator.h"
#include "cc/core/base/function_ref.h"
#include "cc/core/base/page_file.h"
#include "cc/core/hash_table/count_pool.h"
#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/row_counts.h"
#include "cc/core/hash_table/row_layout.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {

// Where rows go for which there is no memory.
struct RowDisk {
  std::string folder;             // Empty: nowhere, there has to be memory.
  MemoryProbe* memory = nullptr;  // Rows stay in memory while this grants it.
};

class RowStore {
 public:
  RowStore(Allocator* allocator, const RowLayout& layout, RowDisk disk = {})
      : allocator_(allocator), layout_(layout), disk_(std::move(disk)) {}
  ~RowStore() { Clear(); }
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  const RowLayout& layout() const { return layout_; }

  // Row r >= kFirstRow of a slab that exists. `values_[k]` points where row 0 would be if the slab went down so far, so
  // that an address is one load, one multiplication and one addition.
  float* Values(uint32_t row) const {
    return reinterpret_cast<float*>(values_[SlabOf(row)] + static_cast<uintptr_t>(row) * layout_.stride_bytes);
  }
  RowMeta* Meta(uint32_t row) const {
    return reinterpret_cast<RowMeta*>(metas_[SlabOf(row)] + static_cast<uintptr_t>(row) * sizeof(RowMeta));
  }

  RowCounts Counts(const RowMeta& meta) const { return {pool_.Read(meta.frequency), pool_.Read(meta.last_step)}; }
  RowCounts Counts(uint32_t row) const { return Counts(*Meta(row)); }
  // For counts that ReserveCounts knows of. Threads may set those of different rows at once.
  void SetCounts(const RowCounts& counts, RowMeta* meta) {
    pool_.Write(counts.frequency, &meta->frequency);
    pool_.Write(counts.last_step, &meta->last_step);
  }

  // SetCounts of a row that a batch saw `sightings` times, at least 0, at time `step`.
  void AddSightings(int64_t sightings, int64_t step, RowMeta* meta) {
    const uint64_t frequency = uint64_t{meta->frequency} + static_cast<uint64_t>(sightings);
    // One question for all that may be more than a word holds itself.
    const uint64_t words = meta->frequency | meta->last_step | frequency | static_cast<uint64_t>(sightings | step);
    if (__builtin_expect(words < CountPool::kPooled, 1)) {
      *meta = {static_cast<uint32_t>(frequency), static_cast<uint32_t>(step)};
      return;
    }
    const int64_t before = Counts(*meta).frequency;
    SetCounts({before > INT64_MAX - sightings ? INT64_MAX : before + sightings, step}, meta);
  }

  // Makes slabs for `more` rows beyond those in use; false when there is no memory, no room on the disk or no row
  // number. What it made stays.
  bool Reserve(int64_t more);

  // Room for the counts of a batch that brings `sightings`, each key's up to CountPool::kPooled of them, to the rows in
  // use and `more` new ones, and sets last-use steps up to `max_step`. May throw std::bad_alloc; nothing is lost then.
  void ReserveCounts(int64_t more, int64_t sightings, int64_t max_step);

  // Asks `memory` for what `more` new rows take of it, and `beside` bytes: rows that were used before have theirs
  // already. Those for which there is no memory will be on the disk, if there is one. False: *left is what there is.
  bool Grant(int64_t more, int64_t beside, MemoryProbe* memory, int64_t* left);

  // What `more` new rows take of memory, if those that are to be on the disk are there.
  int64_t CommitBytes(int64_t more) const;

  // Asks for the memory of the next `more` new rows, as many as a batch just brought, to be committed while nobody
  // waits for it: huge pages that were not asked for before, kAheadBytes at most, if grant(bytes) says so.
  void CommitAhead(int64_t more, FunctionRef<bool(int64_t bytes)> grant);

  // One row, reserved before: the one freed last, or else the next new one. Its values are whatever they were, its
  // counts 0.
  uint32_t Take();

  // Marks a row as free. It needs no memory: free rows are a list through their metas.
  void Free(uint32_t row);

  // Undoes the latest Take that is not undone yet. end_before: of the rows, before the first Take that is to be undone.
  void GiveBack(uint32_t row, uint32_t end_before);

  // Rows from this one on are on the disk.
  uint32_t disk_begin() const { return disk_begin_.load(std::memory_order_acquire); }
  bool uses_disk() const { return disk_begin() != kNoDisk; }
  const RowDisk& disk() const { return disk_; }

  // Begins to read those of `rows` that are on the disk and not in memory, and does not wait: to be called well before
  // they are touched. What is no row is passed over.
  void ReadAhead(const uint32_t* rows, int64_t size) const;
  void ReadAhead(int64_t begin, int64_t end) const;  // All from `begin` to `end` - 1.

  // Exchanges the values and counts of two rows. In the writing room.
  void Swap(uint32_t a, uint32_t b);

  uint32_t end() const { return end_; }  // Rows kFirstRow … end - 1 were taken at least once.
  int64_t bytes() const { return CommittedBytes(end_) + pool_.bytes(); }  // On the disk, too.
  int64_t disk_bytes() const { return end_ > disk_begin() ? (int64_t{end_} - disk_begin()) * layout_.stride_bytes : 0; }
  void Clear();

 private:
  static constexpr int kSlabs = 27;  // Rows 16 … 2^31 - 1.

  // The position of the highest bit, from 4 on: the exponent of the number as a double. On AMD's processors `bsr`,
  // which is all that there is without BMI, is slow: without it Adam of dim 16 takes 16.4 ns in the caches in place
  // of 17.3.
  static int SlabOf(uint32_t row) {
    const double number = static_cast<int32_t>(row);
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return static_cast<int>(bits >> 52) - (1023 + 4);
  }
  static uint64_t SlabBegin(int slab) { return uint64_t{kFirstRow} << slab; }          // Also the number of its rows.
  size_t SlabBytes(int slab) const { return SlabBegin(slab) * layout_.stride_bytes; }  // Of its values.
  // New rows are on the disk from `begin_at` on, or from a row soon behind it; if a file can be had.
  void GoToDisk(uint32_t begin_at);
  int64_t CommittedBytes(uint32_t end) const {
    return (int64_t{end} - kFirstRow) * (layout_.stride_bytes + static_cast<int64_t>(sizeof(RowMeta)));
  }

  static constexpr uint64_t kAheadBytes = uint64_t{8} << 20;
  static constexpr uint32_t kNoDisk = UINT32_MAX;

  Allocator* const allocator_;
  const RowLayout layout_;
  const RowDisk disk_;
  // A row's place in the file is its number times the stride.
  std::unique_ptr<PageFile> file_;
  std::atomic<uint32_t> disk_begin_{kNoDisk};  // Set after file_, while readers look.
  int first_file_slab_ = kSlabs;               // From here on slabs are the file's from their first page on.
  std::array<uintptr_t, kSlabs> values_{};
  std::array<uintptr_t, kSlabs> metas_{};
  int slabs_ = 0;
  uintptr_t asked_values_ = 0, asked_metas_ = 0;  // Up to where CommitAhead has asked,
  int asked_slab_ = -1;                           // in this slab.
  uint32_t end_ = kFirstRow;
  uint32_t first_free_ = 0;  // 0: none.
  int64_t num_free_ = 0;
  CountPool pool_;
  int64_t sightings_ = 0;  // At least the sum of all rows' frequencies, each up to CountPool::kPooled.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ROW_STORE_H_
