#include "cc/core/hash_table/eviction.h"

#include <algorithm>

#include "cc/core/hash_table/hash.h"

namespace tf_booster {

// Grows by a quarter: doubling would leave 7 bytes a row unused on average, a quarter leaves 2.
int64_t EvictionQueue::CapacityFor(int64_t more) const {
  const int64_t wanted = static_cast<int64_t>(heap_.size()) + more, now = static_cast<int64_t>(heap_.capacity());
  return wanted <= now ? now : std::max(wanted, now + now / 4);
}

int64_t EvictionQueue::GrowthBytes(int64_t more) const {
  const int64_t capacity = enabled() ? CapacityFor(more) : 0;
  return capacity > static_cast<int64_t>(heap_.capacity()) ? capacity * static_cast<int64_t>(sizeof(Entry)) : 0;
}

void EvictionQueue::Reserve(int64_t more, int64_t rows, const StripedIndex& index, const RowStore& store) {
  if (!enabled()) return;
  if (static_cast<int64_t>(heap_.size()) > 2 * rows + 64) DropStale(index, store);
  heap_.reserve(CapacityFor(more));
}

void EvictionQueue::Push(int64_t key, const RowCounts& counts) {
  if (!enabled()) return;
  heap_.push_back({Score(counts), HashKey(key, 0)});
  std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
}

bool EvictionQueue::MustLeave(int64_t score, int64_t rows, int64_t step) const {
  return options_.max_idle_steps > 0 ? step - score >= options_.max_idle_steps : rows > options_.max_rows;
}

uint32_t EvictionQueue::RowOf(const Entry& entry, const StripedIndex& index) const {
  const int64_t key = KeyOfHash(entry.hash, 0);
  const uint32_t state = index.StateOf(HashKey(key, field_), key, field_);
  return IsRow(state) ? state : 0;
}

bool EvictionQueue::PopVictim(int64_t rows, int64_t step, const StripedIndex& index, const RowStore& store,
                              int64_t* key) {
  while (!heap_.empty() && MustLeave(heap_.front().score, rows, step)) {
    std::pop_heap(heap_.begin(), heap_.end(), LeavesLater);
    Entry& entry = heap_.back();
    const uint32_t row = RowOf(entry, index);
    if (row == 0) {
      heap_.pop_back();
      continue;
    }
    const int64_t score = Score(store.Counts(row));
    if (entry.score != score) {
      entry.score = score;
      std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
    } else {
      *key = KeyOfHash(entry.hash, 0);
      heap_.pop_back();
      return true;
    }
  }
  return false;
}

// A key that was erased and came back has two entries; equal ones meet when all are up to date and sorted.
void EvictionQueue::DropStale(const StripedIndex& index, const RowStore& store) {
  const auto erased = [&](const Entry& entry) { return RowOf(entry, index) == 0; };
  heap_.erase(std::remove_if(heap_.begin(), heap_.end(), erased), heap_.end());
  for (Entry& entry : heap_) entry.score = Score(store.Counts(RowOf(entry, index)));
  std::sort(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) { return LeavesLater(b, a); });
  const auto same = [](const Entry& a, const Entry& b) { return a.hash == b.hash; };
  heap_.erase(std::unique(heap_.begin(), heap_.end(), same), heap_.end());
}

}  // namespace tf_booster
