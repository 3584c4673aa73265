#include "cc/core/hash_table/row_swap.h"

#include <algorithm>
#include <utility>

#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

// Of the updates between two turns the last quarter is noted: their rows are still in memory. When all 64 updates of a
// turn were noted, with twice as many rows as the kernel had pages for, a turn took up to 10 s. Mean times of steps 700
// to 800 of `disk_rows_bench` (8,400 distinct keys, a quarter of the rows in memory, pages for another 5 %; lookup and
// update): without swaps 78 and 12.5 ms; a turn every 64 updates with the last 4 noted 57 and 10, every 16 with 1 56
// and 10, every 16 with 4 42 and 8, every 4 with 1 39 and 6.6, but then handles given out for the next step are stale
// at every fourth step.
constexpr int kNotedPart = 4;
constexpr size_t kMostNoted = size_t{1} << 18;  // 4 MiB.
constexpr size_t kPairsPerVisit = 128;
// The hand passes so many entries for each idle row that it is to find, and then gives up for this turn: of a table of
// which a tenth is in memory, in an index half full, one entry in twenty is of a row there. It costs 2 ns an entry, and
// a miss for those.
constexpr int64_t kEntriesPerRow = 64;
constexpr int64_t kEntriesAtOnce = 256;  // Whose metas are fetched together.

}  // namespace

void RowSwap::AfterUpdate(const KeyBatch& keys, const uint32_t* states, TableState* state, RoomLock* room,
                          uint32_t* epoch) {
  if (!state->rows.uses_disk()) return;
  if (updates_ >= period_ - std::max(1, period_ / kNotedPart)) Note(keys, states, *state);
  if (++updates_ < period_) return;
  updates_ = 0;
  const std::vector<IndexEntry*> to_memory = TakeUsed(state), to_disk = FindIdle(to_memory.size(), state);
  const size_t pairs = std::min(to_memory.size(), to_disk.size());
  for (size_t visit = 0; visit < pairs; visit += kPairsPerVisit) {
    RoomGuard guard(*room, RoomLock::kWriting);
    ++*epoch;
    for (size_t p = visit; p < std::min(pairs, visit + kPairsPerVisit); ++p) {
      state->rows.Swap(to_memory[p]->state, to_disk[p]->state);
      std::swap(to_memory[p]->state, to_disk[p]->state);
    }
  }
}

void RowSwap::Note(const KeyBatch& keys, const uint32_t* states, const TableState& state) {
  const uint32_t disk_begin = state.rows.disk_begin();
  for (int64_t i = 0; i < keys.size && used_.size() < kMostNoted; ++i) {
    if (!IsRow(states[i]) || states[i] < disk_begin) continue;
    // A key that was seen once is most likely not seen soon.
    if (state.rows.Counts(states[i]).frequency > 1) used_.push_back({keys.keys[i], state.IdOf(keys, i)});
  }
}

std::vector<IndexEntry*> RowSwap::TakeUsed(TableState* state) {
  const auto order = [](const UsedKey& k) { return std::pair(k.id, k.key); };
  std::sort(used_.begin(), used_.end(), [&](const UsedKey& a, const UsedKey& b) { return order(a) < order(b); });
  const auto end =
      std::unique(used_.begin(), used_.end(), [&](const UsedKey& a, const UsedKey& b) { return order(a) == order(b); });
  std::vector<IndexEntry*> entries;
  std::vector<uint32_t> rows;
  for (auto k = used_.begin(); k != end; ++k) {
    IndexEntry* const entry = state->index.Find(HashKey(k->key, k->id), k->key, k->id);
    // It may have been evicted since, and may be back in memory.
    if (entry == nullptr || !IsRow(entry->state) || entry->state < state->rows.disk_begin()) continue;
    entries.push_back(entry);
    rows.push_back(entry->state);
  }
  state->rows.ReadAhead(rows.data(), static_cast<int64_t>(rows.size()));
  used_.clear();
  return entries;
}

std::vector<IndexEntry*> RowSwap::FindIdle(size_t wanted, TableState* state) {
  std::vector<IndexEntry*> idle, in_memory;
  idle.reserve(wanted);
  const RowStore& rows = state->rows;
  const int64_t all = state->index.capacity();
  int64_t budget = std::min(all, kEntriesPerRow * static_cast<int64_t>(wanted) + kEntriesAtOnce);
  while (idle.size() < wanted && budget > 0) {
    const int64_t capacity = state->index.stripe_capacity(stripe_);
    if (entry_ >= capacity) {
      stripe_ = (stripe_ + 1) % kStripes;
      entry_ = 0;
      if (state->index.stripe_capacity(stripe_) == 0) --budget;
      continue;
    }
    const int64_t end = std::min({capacity, entry_ + kEntriesAtOnce, entry_ + budget});
    in_memory.clear();
    state->index.ForEachOfPart(stripe_, entry_, end, [&](IndexEntry* entry) {
      if (!IsRow(entry->state) || entry->state >= rows.disk_begin()) return;
      FetchLine(rows.Meta(entry->state));
      in_memory.push_back(entry);
    });
    for (IndexEntry* const entry : in_memory) {
      const int64_t idle_since = state->fields[entry->field].step - period_;
      if (idle.size() < wanted && rows.Counts(entry->state).last_step <= idle_since) idle.push_back(entry);
    }
    budget -= end - entry_;
    entry_ = end;
  }
  return idle;
}

}  // namespace tf_booster
