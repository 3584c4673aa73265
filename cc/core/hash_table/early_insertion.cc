#include "cc/core/hash_table/early_insertion.h"

#include <algorithm>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/hash_table/insertion.h"
#include "cc/core/hash_table/new_row.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

// Keys that are entered before readers are let in: about 50 us.
constexpr int64_t kKeysPerVisit = 1024;

}  // namespace

EarlyInsertion::EarlyInsertion(const TableOptions& options, TableState* state, RoomLock* room, const KeyBatch& keys,
                               const float* values, CertainRoom* space)
    : options_(options),
      state_(state),
      room_(room),
      keys_(keys),
      values_(values),
      space_(space),
      entered_(new uintptr_t[keys.size]),
      new_rows_(state->fields.size(), 0),
      readable_before_(state->readable_end) {}

int64_t EarlyInsertion::PartSize(int64_t dim) {
  // Of buckets, rows and values: a part stays in a second-level cache. Parts of 128 to 512 KiB are alike (dim 16, 10 %
  // new: 20.2 to 20.8 ns a key), with one part for the whole batch it is 27 (Zen 5, 1 MiB).
  constexpr int64_t kBytes = 256 << 10;
  return std::max<int64_t>(256, kBytes / (64 + 2 * dim * static_cast<int64_t>(sizeof(float))));
}

bool EarlyInsertion::Add(int64_t begin, const uint32_t* places, int64_t count) {
  if (count == 0) return true;
  // The parts to come bring as many, as a rule: better found out before the first key is in.
  const int64_t parts = num_entered_ > 0 ? 1 : (keys_.size - begin) / PartSize(options_.dim) + 1;
  if (!space_->MayHave(count * parts)) return false;
  CertainRoom::Counts counts{};
  for (int64_t j = 0; j < count; ++j) {
    const int64_t i = begin + places[j];
    ++counts[StripeOf(HashKey(keys_.keys[i], state_->IdOf(keys_, i)))];
  }
  if (!space_->Take(counts)) return false;
  DispatchDim(options_.dim, [&](auto dim) { AddSome<dim.value>(begin, places, count); });
  return true;
}

template <int64_t kDim>
void EarlyInsertion::AddSome(int64_t begin, const uint32_t* places, int64_t count) {
  const int64_t dim = kDim > 0 ? kDim : options_.dim;
  while (count > 0) {
    RoomGuard guard(*room_, RoomLock::kWriting);
    const int64_t visit = std::min(count, kKeysPerVisit);
    for (int64_t j = 0; j < visit; ++j) {
      const int64_t i = begin + places[j];
      const int64_t key = keys_.keys[i];
      const uint32_t id = state_->IdOf(keys_, i);
      const uint64_t hash = HashKey(key, id);
      IndexEntry* const entry = state_->index.FindOrVacancy(hash, key, id);
      if (IsLive(entry->state)) continue;  // The batch has the key before this place.
      const uint32_t number = state_->rows.Take();
      entered_[num_entered_++] = reinterpret_cast<uintptr_t>(entry) | (entry->state == kTombstone);
      state_->index.Fill(hash, entry, {key, id, number});
      ++new_rows_[id];
      StartRow<kDim>(options_, state_, id, number, /*frequency=*/1,
                     [&](float* row) { CopyRow<kDim>(row, values_ + i * dim, dim); });
    }
    state_->readable_end = state_->rows.end();
    places += visit;
    count -= visit;
  }
}

void EarlyInsertion::Finish(MemoryProbe* memory) {
  if (num_entered_ == 0) return;
  for (size_t f = 0; f < new_rows_.size(); ++f) {
    if (new_rows_[f] > 0) state_->fields[f].rows += new_rows_[f];
  }
  AskForNextPages(state_, int64_t{state_->rows.end()} - readable_before_, memory);
}

bool EarlyInsertion::Undo() {
  if (num_entered_ == 0) return false;
  RoomGuard guard(*room_, RoomLock::kWriting);
  state_->readable_end = readable_before_;
  while (num_entered_ > 0) {
    const uintptr_t word = entered_[--num_entered_];
    IndexEntry* const entry = reinterpret_cast<IndexEntry*>(word & ~uintptr_t{1});
    state_->rows.GiveBack(entry->state, readable_before_);
    state_->index.Unfill(HashKey(entry->key, entry->field), entry, (word & 1) != 0 ? kTombstone : kEmpty);
  }
  return true;
}

}  // namespace tf_booster
