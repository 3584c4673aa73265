#include "cc/core/hash_table/row_store.h"

#include <sys/mman.h>

#include <algorithm>

#include "cc/core/base/huge_page_pieces.h"

namespace tf_booster {

bool RowStore::Reserve(int64_t more) {
  const int64_t end = end_ + std::max<int64_t>(0, more - num_free_);
  if (end > int64_t{kMaxRow} + 1) return false;
  while (static_cast<int64_t>(SlabBegin(slabs_)) < end) {
    const uint64_t rows = SlabBegin(slabs_);
    const size_t bytes = SlabBytes(slabs_);
    void* metas = allocator_->Allocate(rows * sizeof(RowMeta));
    void* values = metas == nullptr             ? nullptr
                   : slabs_ >= first_file_slab_ ? file_->Map(nullptr, bytes, static_cast<int64_t>(bytes))
                                                : allocator_->Allocate(bytes);
    if (values == nullptr) {
      allocator_->Free(metas, rows * sizeof(RowMeta));
      return false;
    }
    values_[slabs_] = reinterpret_cast<uintptr_t>(values) - bytes;
    metas_[slabs_] = reinterpret_cast<uintptr_t>(metas) - rows * sizeof(RowMeta);
    ++slabs_;
  }
  return end <= disk_begin() || file_->HaveUntil(end * layout_.stride_bytes);
}

bool RowStore::Grant(int64_t more, int64_t beside, MemoryProbe* memory, int64_t* left) {
  const int64_t of_rows = CommitBytes(more);
  if (!disk_.folder.empty() && !uses_disk() && of_rows > 0 && !disk_.memory->Grant(of_rows, left)) {
    // A table that is restored brings all its rows at once; some of them have room.
    const int64_t a_row = layout_.stride_bytes + static_cast<int64_t>(sizeof(RowMeta));
    const int64_t have_room = std::clamp<int64_t>(*left / a_row, 0, int64_t{kMaxRow} - end_);
    int64_t left_then = 0;
    const bool in_memory = disk_.memory->Grant(have_room * a_row, &left_then) && Reserve(num_free_ + have_room);
    GoToDisk(in_memory ? end_ + static_cast<uint32_t>(have_room) : end_);
  }
  const int64_t bytes = CommitBytes(more) + beside;
  return bytes == 0 || memory->Grant(bytes, left);
}

void RowStore::GoToDisk(uint32_t begin_at) {
  std::string why;  // Whoever made the table knows: it has tried.
  std::unique_ptr<PageFile> file = PageFile::New(disk_.folder, &why);
  if (file == nullptr) return;
  const uintptr_t page = PageFile::PageBytes();
  int first = slabs_;
  while (SlabBytes(first) % page != 0) ++first;
  uint64_t begin = SlabBegin(first);
  // What nobody has used of huge pages that are there is mapped over: with slabs that double it can be half of a
  // table. Smaller slabs are committed already and stay what they are.
  for (int slab = SlabOf(begin_at); first == slabs_ && slab < slabs_; ++slab) {
    const uintptr_t row_zero = values_[slab], end = row_zero + 2 * SlabBytes(slab);
    const uintptr_t unused = row_zero + std::max<uint64_t>(begin_at, SlabBegin(slab)) * layout_.stride_bytes;
    const uintptr_t at = (unused + kHugePage - 1) / kHugePage * kHugePage;
    if (SlabBytes(slab) < kHugePage || at >= end || SlabBytes(slab) % page != 0) continue;
    void* const place = reinterpret_cast<void*>(at);
    if (!allocator_->LeavePages(place, end - at)) continue;
    const uint64_t offset = at - row_zero;
    if (file->Map(place, (end - at + page - 1) / page * page, static_cast<int64_t>(offset)) == nullptr) continue;
    begin = std::min(begin, (offset + layout_.stride_bytes - 1) / layout_.stride_bytes);
  }
  file_ = std::move(file);
  first_file_slab_ = first;
  disk_begin_.store(static_cast<uint32_t>(std::min<uint64_t>(begin, kNoDisk - 1)), std::memory_order_release);
}

void RowStore::ReadAhead(int64_t begin, int64_t end) const {
  begin = std::max<int64_t>(begin, disk_begin());
  end = std::min<int64_t>(end, end_);
  if (begin < end) file_->ReadAhead(begin * layout_.stride_bytes, (end - begin) * layout_.stride_bytes);
}

void RowStore::ReadAhead(const uint32_t* rows, int64_t size) const {
  constexpr int64_t kPart = 1024;
  const uint32_t disk_begin = this->disk_begin();
  if (disk_begin == kNoDisk) return;
  int64_t wanted[kPart];
  for (int64_t done = 0; done < size; done += kPart) {
    int64_t count = 0;
    for (int64_t i = done; i < std::min(size, done + kPart); ++i) {
      wanted[count] = rows[i] * layout_.stride_bytes;
      count += IsRow(rows[i]) && rows[i] >= disk_begin;
    }
    file_->ReadAhead(wanted, count, layout_.stride_bytes);
  }
}

void RowStore::ReserveCounts(int64_t more, int64_t sightings, int64_t max_step) {
  sightings_ = sightings > INT64_MAX - sightings_ ? INT64_MAX : sightings_ + sightings;
  const int64_t rows = int64_t{end_} - kFirstRow + more;
  const int64_t high_steps = max_step > CountPool::kGreatest ? rows : 0;
  pool_.Reserve(std::min(rows, sightings_ / CountPool::kPooled) + high_steps);
}

int64_t RowStore::CommitBytes(int64_t more) const {
  const int64_t rows = std::max<int64_t>(0, more - num_free_);
  const int64_t in_memory = std::clamp<int64_t>(int64_t{disk_begin()} - end_, 0, rows);
  return in_memory * layout_.stride_bytes + rows * static_cast<int64_t>(sizeof(RowMeta));
}

void RowStore::CommitAhead(int64_t more, FunctionRef<bool(int64_t)> grant) {
  const int slab = SlabOf(end_);
  if (more <= 0 || slab >= slabs_) return;
  const uint64_t stop = std::min(end_ + static_cast<uint64_t>(more), SlabBegin(slab + 1));
  if (slab != asked_slab_) asked_values_ = asked_metas_ = 0;
  asked_slab_ = slab;
  const auto commit = [&](uintptr_t row_zero, uint64_t stride, uintptr_t* asked) {
    if (SlabBegin(slab) * stride < kHugePage) return;
    const auto page_from = [&](uint64_t row) { return (row_zero + row * stride + kHugePage - 1) & ~(kHugePage - 1); };
    const uintptr_t begin = std::max(*asked, page_from(end_));
    const uintptr_t end = std::min(page_from(stop), begin + kAheadBytes);
    if (begin >= end || !grant(static_cast<int64_t>(end - begin))) return;
    allocator_->CommitSoon(reinterpret_cast<void*>(begin), end - begin);
    *asked = end;
  };
  if (!uses_disk()) commit(values_[slab], layout_.stride_bytes, &asked_values_);
  commit(metas_[slab], sizeof(RowMeta), &asked_metas_);
}

void RowStore::Swap(uint32_t a, uint32_t b) {
  std::swap_ranges(Values(a), Values(a) + layout_.values(), Values(b));
  std::swap(*Meta(a), *Meta(b));
}

uint32_t RowStore::Take() {
  if (first_free_ == 0) return end_++;
  const uint32_t row = first_free_;
  RowMeta* meta = Meta(row);
  first_free_ = meta->frequency;
  meta->frequency = 0;
  --num_free_;
  return row;
}

void RowStore::Free(uint32_t row) {
  RowMeta* meta = Meta(row);
  SetCounts({0, 0}, meta);
  static_assert(kMaxRow <= CountPool::kGreatest, "a row number passes for a count");
  meta->frequency = first_free_;
  first_free_ = row;
  ++num_free_;
}

void RowStore::GiveBack(uint32_t row, uint32_t end_before) {
  if (row < end_before) return Free(row);
  SetCounts({0, 0}, Meta(row));
  end_ = row;
}

void RowStore::Clear() {
  for (int k = 0; k < slabs_; ++k) {
    const uint64_t rows = SlabBegin(k);
    void* const values = reinterpret_cast<void*>(values_[k] + SlabBytes(k));
    if (k >= first_file_slab_) {
      munmap(values, SlabBytes(k));
    } else {
      allocator_->Free(values, SlabBytes(k));
    }
    allocator_->Free(reinterpret_cast<void*>(metas_[k] + rows * sizeof(RowMeta)), rows * sizeof(RowMeta));
  }
  slabs_ = 0;
  disk_begin_ = kNoDisk;
  first_file_slab_ = kSlabs;
  file_ = nullptr;
  asked_slab_ = -1;
  end_ = kFirstRow;
  first_free_ = 0;
  num_free_ = 0;
  pool_.Clear();
  sightings_ = 0;
}

}  // namespace tf_booster
