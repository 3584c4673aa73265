#include "cc/core/hash_table/eviction.h"

#include <algorithm>

#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

// Of a field's rows, those in its queue: a scan, some 10 ns a row, is made for each 32nd of the rows at most.
constexpr int64_t kPart = 16;
constexpr int64_t kLeast = 64;

}  // namespace

size_t EvictionQueue::RoomFor(int64_t rows, int64_t share) {
  return static_cast<size_t>(std::max(rows / kPart, std::min(2 * rows, share / kPart)) + kLeast);
}

// Grows by an eighth.
int64_t EvictionQueue::GrowthBytes(int64_t rows, int64_t share) const {
  const size_t room = RoomFor(rows, share);
  return !enabled() || room <= heap_.capacity() ? 0 : static_cast<int64_t>((room + room / 8) * sizeof(Rank));
}

void EvictionQueue::Reserve(int64_t rows, int64_t share) {
  const int64_t bytes = GrowthBytes(rows, share);
  if (bytes > 0) heap_.reserve(static_cast<size_t>(bytes) / sizeof(Rank));
}

void EvictionQueue::Halve() {
  const auto middle = heap_.begin() + static_cast<int64_t>(heap_.size() / 2);
  std::nth_element(heap_.begin(), middle, heap_.end());
  bound_ = *middle;
  heap_.erase(middle, heap_.end());
}

void EvictionQueue::Keep(const Rank& rank) {
  if (!(rank < bound_)) return;
  if (heap_.size() == heap_.capacity()) {
    Halve();
    std::make_heap(heap_.begin(), heap_.end(), LeavesLater);
    if (!(rank < bound_)) return;
  }
  heap_.push_back(rank);
  std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
}

void EvictionQueue::StartScan() {
  heap_.clear();
  bound_ = kAboveAll;
}

void EvictionQueue::Offer(int64_t key, const RowCounts& counts) {
  const int64_t score = Score(counts);
  if (score > bound_.score) return;
  const Rank rank = {score, HashKey(key, 0)};
  if (!(rank < bound_)) return;
  if (heap_.size() == heap_.capacity()) Halve();
  if (rank < bound_) heap_.push_back(rank);
}

void EvictionQueue::EndScan() { std::make_heap(heap_.begin(), heap_.end(), LeavesLater); }

bool EvictionQueue::MustLeave(int64_t score, int64_t rows, int64_t step) const {
  return options_.max_idle_steps > 0 ? score <= step - options_.max_idle_steps : rows > options_.max_rows;
}

uint32_t EvictionQueue::RowOf(int64_t key, const StripedIndex& index) const {
  const uint32_t state = index.StateOf(HashKey(key, field_), key, field_);
  return IsRow(state) ? state : 0;
}

// A key that was erased and came back may have two entries: the one that is out of date goes when it comes to the top,
// before its row or after.
bool EvictionQueue::PopVictim(int64_t rows, int64_t step, const StripedIndex& index, const RowStore& store,
                              int64_t* key) {
  while (!heap_.empty() && MustLeave(heap_.front().score, rows, step)) {
    std::pop_heap(heap_.begin(), heap_.end(), LeavesLater);
    const Rank rank = heap_.back();
    heap_.pop_back();
    *key = KeyOfHash(rank.hash, 0);
    const uint32_t row = RowOf(*key, index);
    if (row == 0) continue;
    const int64_t score = Score(store.Counts(row));
    if (score == rank.score) return true;
    Keep({score, rank.hash});
  }
  return false;
}

void EvictionQueue::Clear() {
  std::vector<Rank>().swap(heap_);
  bound_ = kAboveAll;
}

}  // namespace tf_booster
