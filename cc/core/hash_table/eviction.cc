#include "cc/core/hash_table/eviction.h"

#include <algorithm>

#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

uint64_t OrderOf(int64_t key) { return HashKey(key, 0); }

}  // namespace

int64_t EvictionQueue::GrowthBytes(int64_t more) const {
  if (!enabled() || heap_.size() + more <= heap_.capacity()) return 0;
  return static_cast<int64_t>(std::max<size_t>(heap_.size() + more, heap_.capacity() * 2) * sizeof(Entry));
}

void EvictionQueue::Reserve(int64_t more, int64_t rows, const RowStore& store) {
  if (!enabled()) return;
  if (static_cast<int64_t>(heap_.size()) > 2 * rows + 64) DropStale(store);
  if (heap_.size() + more > heap_.capacity())
    heap_.reserve(std::max<size_t>(heap_.size() + more, heap_.capacity() * 2));
}

void EvictionQueue::Push(uint32_t row, const RowStore& store) {
  if (!enabled()) return;
  const RowMeta& meta = *store.Meta(row);
  heap_.push_back({Score(meta), OrderOf(meta.key), row});
  std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
}

bool EvictionQueue::MustLeave(int64_t score, int64_t rows, int64_t step) const {
  return options_.max_idle_steps > 0 ? step - score >= options_.max_idle_steps : rows > options_.max_rows;
}

// False for an entry whose row was erased, whether or not another key has the row now.
bool EvictionQueue::Belongs(const Entry& entry, const RowMeta& meta) const {
  return meta.field == field_ && OrderOf(meta.key) == entry.hash;
}

uint32_t EvictionQueue::PopVictim(int64_t rows, int64_t step, const RowStore& store) {
  while (!heap_.empty() && MustLeave(heap_.front().score, rows, step)) {
    std::pop_heap(heap_.begin(), heap_.end(), LeavesLater);
    Entry& entry = heap_.back();
    const RowMeta& meta = *store.Meta(entry.row);
    if (!Belongs(entry, meta)) {
      heap_.pop_back();
    } else if (entry.score != Score(meta)) {
      entry.score = Score(meta);
      std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
    } else {
      const uint32_t row = entry.row;
      heap_.pop_back();
      return row;
    }
  }
  return 0;
}

// A key that was erased and came back to the same row has two entries; equal ones meet when all are up to date and
// sorted.
void EvictionQueue::DropStale(const RowStore& store) {
  const auto stale = [&](const Entry& entry) { return !Belongs(entry, *store.Meta(entry.row)); };
  heap_.erase(std::remove_if(heap_.begin(), heap_.end(), stale), heap_.end());
  for (Entry& entry : heap_) entry.score = Score(*store.Meta(entry.row));
  std::sort(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) { return LeavesLater(b, a); });
  const auto same = [](const Entry& a, const Entry& b) { return a.row == b.row; };
  heap_.erase(std::unique(heap_.begin(), heap_.end(), same), heap_.end());
}

}  // namespace tf_booster
