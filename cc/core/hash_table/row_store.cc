#include "cc/core/hash_table/row_store.h"

#include <algorithm>

#include "cc/core/base/huge_page_pieces.h"

namespace tf_booster {

bool RowStore::Reserve(int64_t more) {
  const int64_t end = end_ + std::max<int64_t>(0, more - num_free_);
  if (end > int64_t{kMaxRow} + 1) return false;
  while (static_cast<int64_t>(SlabBegin(slabs_)) < end) {
    const uint64_t rows = SlabBegin(slabs_);
    void* values = allocator_->Allocate(rows * layout_.stride_bytes);
    void* metas = values == nullptr ? nullptr : allocator_->Allocate(rows * sizeof(RowMeta));
    if (metas == nullptr) {
      allocator_->Free(values, rows * layout_.stride_bytes);
      return false;
    }
    values_[slabs_] = reinterpret_cast<uintptr_t>(values) - rows * layout_.stride_bytes;
    metas_[slabs_] = reinterpret_cast<uintptr_t>(metas) - rows * sizeof(RowMeta);
    ++slabs_;
  }
  return true;
}

void RowStore::ReserveCounts(int64_t more, int64_t sightings, int64_t max_step) {
  sightings_ = sightings > INT64_MAX - sightings_ ? INT64_MAX : sightings_ + sightings;
  const int64_t rows = int64_t{end_} - kFirstRow + more;
  const int64_t high_steps = max_step > CountPool::kGreatest ? rows : 0;
  pool_.Reserve(std::min(rows, sightings_ / CountPool::kPooled) + high_steps);
}

int64_t RowStore::CommitBytes(int64_t more) const {
  return std::max<int64_t>(0, more - num_free_) * (layout_.stride_bytes + static_cast<int64_t>(sizeof(RowMeta)));
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
  commit(values_[slab], layout_.stride_bytes, &asked_values_);
  commit(metas_[slab], sizeof(RowMeta), &asked_metas_);
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
    allocator_->Free(reinterpret_cast<void*>(values_[k] + rows * layout_.stride_bytes), rows * layout_.stride_bytes);
    allocator_->Free(reinterpret_cast<void*>(metas_[k] + rows * sizeof(RowMeta)), rows * sizeof(RowMeta));
  }
  slabs_ = 0;
  asked_slab_ = -1;
  end_ = kFirstRow;
  first_free_ = 0;
  num_free_ = 0;
  pool_.Clear();
  sightings_ = 0;
}

}  // namespace tf_booster
