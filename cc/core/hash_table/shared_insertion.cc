#include "cc/core/hash_table/shared_insertion.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/hash_table/initial_row.h"
#include "cc/core/hash_table/insertion.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

// Keys that a thread enters before it lets readers in: about 50 us.
constexpr int64_t kKeysPerVisit = 2048;
// What an entry has until its key has a row: readers take it for a key that is not admitted.
constexpr uint32_t kNoRowYet = kPendingFlag;
// New keys whose values are fetched ahead.
constexpr int64_t kSourceAhead = 12;

}  // namespace

SharedInsertion::SharedInsertion(const TableOptions& options, TableState* state, RoomLock* room, const KeyBatch& keys,
                                 const NewRows& start, const MissingKeys& missing)
    : options_(options),
      state_(state),
      room_(room),
      keys_(keys),
      start_(start),
      missing_(missing),
      numbers_(new uint32_t[keys.size]),
      records_(new Record[keys.size]),
      begins_(missing.num_parts()),
      stride_((missing.num_parts() + 15) / 16 * 16),
      firsts_(kStripes * stride_),
      rows_before_(missing.num_parts() + 1) {}

void SharedInsertion::Sort(int64_t p) {
  const int64_t begin = p * MissingKeys::kPart, count = missing_.counts[p];
  const uint32_t* const places = missing_.places.get() + begin;
  uint8_t stripes[MissingKeys::kPart];
  std::array<uint32_t, kStripes> next{};
  for (int64_t j = 0; j < count; ++j) {
    const int64_t i = begin + places[j];
    stripes[j] = static_cast<uint8_t>(StripeOf(HashKey(keys_.keys[i], state_->IdOf(keys_, i))));
    ++next[stripes[j]];
  }
  Stripes& begins = begins_[p];
  begins[0] = 0;
  for (int s = 0; s < kStripes; ++s) begins[s + 1] = begins[s] + std::exchange(next[s], begins[s]);
  Record* const records = RecordsOf(p);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t i = begin + places[j];
    records[next[stripes[j]]++] = {{keys_.keys[i]}, state_->IdOf(keys_, i), static_cast<uint32_t>(j)};
  }
}

CertainRoom::Counts SharedInsertion::CountStripes() const {
  CertainRoom::Counts counts{};
  for (const Stripes& begins : begins_) {
    for (int s = 0; s < kStripes; ++s) counts[s] += begins[s + 1] - begins[s];
  }
  return counts;
}

bool SharedInsertion::EnterStripe(int s, bool of_update) {
  constexpr uint32_t kAhead = 24;
  StripedIndex& index = state_->index;
  // The record kAhead places on, in whatever part.
  int64_t later_part = 0;
  uint32_t later = begins_[0][s];
  const auto fetch_next = [&] {
    while (later == begins_[later_part][s + 1]) {
      if (later_part + 1 == num_parts()) return;
      later = begins_[++later_part][s];
    }
    const Record& record = RecordsOf(later_part)[later++];
    index.PrefetchToInsert(HashKey(record.key, record.field));
  };
  for (uint32_t i = 0; i < kAhead; ++i) fetch_next();
  bool twice = false;
  for (int64_t p = 0; p < num_parts();) {
    RoomGuard guard(*room_, RoomLock::kWriting);
    for (int64_t done = 0; p < num_parts() && done < kKeysPerVisit; ++p) {
      Record* const records = RecordsOf(p);
      uint32_t firsts = 0;
      for (uint32_t r = begins_[p][s]; r < begins_[p][s + 1]; ++r, ++done) {
        fetch_next();
        Record& record = records[r];
        const uint64_t hash = HashKey(record.key, record.field);
        // One that came in since the lookup may be behind a tombstone.
        IndexEntry* entry = of_update ? index.Find(hash, record.key, record.field) : nullptr;
        if (entry == nullptr) entry = index.FindOrVacancy(hash, record.key, record.field);
        const uint32_t before = entry->state;
        if (IsLive(before)) {
          twice |= before == kNoRowYet;
          record.entry = reinterpret_cast<uintptr_t>(entry) | kWasThere;
          continue;
        }
        index.Fill(hash, entry, {record.key, record.field, kNoRowYet});
        record.entry = reinterpret_cast<uintptr_t>(entry) | (before == kTombstone ? kWasTombstone : 0);
        ++firsts;
      }
      Firsts(s, p) = firsts;
    }
  }
  return twice;
}

void SharedInsertion::Undo() {
  RoomGuard guard(*room_, RoomLock::kWriting);
  for (int64_t p = 0; p < num_parts(); ++p) {
    for (const Record *record = RecordsOf(p), *end = record + missing_.counts[p]; record < end; ++record) {
      if ((record->entry & kWasThere) != 0) continue;
      IndexEntry* const entry = EntryOf(*record);
      const bool tombstone = (record->entry & kWasTombstone) != 0;
      state_->index.Unfill(HashKey(entry->key, entry->field), entry, tombstone ? kTombstone : kEmpty);
    }
  }
}

bool SharedInsertion::Enter(bool of_update, ParallelFor& pf) {
  const int64_t total = missing_.total();
  if (total == 0) return true;
  std::atomic<bool> twice{false};
  pf.Run(kStripes, 20 * total / kStripes, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      if (EnterStripe(static_cast<int>(s), of_update)) twice.store(true, std::memory_order_relaxed);
    }
  });
  if (!of_update || !twice) return true;
  Undo();
  return false;
}

template <int64_t kDim>
void SharedInsertion::FillPart(int64_t p, const uint32_t* numbers) {
  const int64_t dim = kDim > 0 ? kDim : options_.dim;
  const int64_t begin = p * MissingKeys::kPart, count = missing_.counts[p];
  const uint32_t* const places = missing_.places.get() + begin;
  IndexEntry* entries[MissingKeys::kPart];  // By place.
  for (const Record *record = RecordsOf(p), *end = record + count; record < end; ++record) {
    entries[record->place] = (record->entry & kWasThere) != 0 ? nullptr : EntryOf(*record);
  }
  InitialRows initial_rows(dim);
  int64_t firsts = 0;
  for (int64_t j = 0; j < count; ++j) {
    if (start_.values != nullptr && j + kSourceAhead < count) {
      PrefetchRow(start_.values + (begin + places[j + kSourceAhead]) * dim, dim);
    }
    IndexEntry* const entry = entries[j];
    if (entry == nullptr) continue;
    __builtin_prefetch(entry, /*write=*/1, /*locality=*/3);
    const int64_t i = begin + places[j];
    const uint32_t number = numbers[firsts];
    entries[firsts++] = entry;
    const uint32_t id = state_->IdOf(keys_, i);
    StartRow<kDim>(options_, state_, id, number, start_.frequency, [&](float* row) {
      if (start_.values != nullptr) {
        CopyRow<kDim>(row, start_.values + i * dim, dim);
      } else {
        initial_rows.Add(state_->fields[id].initializer, keys_.keys[i], row);
      }
    });
  }
  initial_rows.Write();
  // Keys of a field come mostly one after another; the other parts' threads count in the same places.
  uint32_t counted = kNoField;
  int64_t more = 0;
  const auto count_row = [&](uint32_t field) {
    if (field != counted && counted != kNoField) state_->fields[counted].rows += std::exchange(more, 0);
    counted = field;
    ++more;
  };
  for (int64_t visit = 0; visit < firsts; visit += kKeysPerVisit) {
    RoomGuard guard(*room_, RoomLock::kWriting);
    for (int64_t j = visit; j < std::min(firsts, visit + kKeysPerVisit); ++j) {
      entries[j]->state = numbers[j];
      count_row(entries[j]->field);
    }
  }
  count_row(kNoField);
}

void SharedInsertion::GiveRows(int64_t p, uint32_t* states) const {
  const int64_t begin = p * MissingKeys::kPart;
  for (const Record *record = RecordsOf(p), *end = record + missing_.counts[p]; record < end; ++record) {
    states[begin + missing_.places[begin + record->place]] = EntryOf(*record)->state;
  }
}

void SharedInsertion::Complete(MemoryProbe* memory, uint32_t* states, ParallelFor& pf) {
  const int64_t total = missing_.total();
  if (total == 0) return;
  for (int64_t p = 0; p < num_parts(); ++p) {
    rows_before_[p + 1] = rows_before_[p];
    for (int s = 0; s < kStripes; ++s) rows_before_[p + 1] += Firsts(s, p);
  }
  for (int64_t k = 0; k < rows_before_.back(); ++k) numbers_[k] = state_->rows.Take();
  const int64_t cost = 10 + state_->rows.layout().values() / 4;
  pf.Run(num_parts(), cost * total / num_parts(), [&](int64_t begin, int64_t end) {
    DispatchDim(options_.dim, [&](auto dim) {
      for (int64_t p = begin; p < end; ++p) FillPart<dim.value>(p, numbers_.get() + rows_before_[p]);
    });
  });
  if (states != nullptr) {  // Now that all keys have rows: one may have come first in another part.
    pf.Run(num_parts(), 5 * total / num_parts(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) GiveRows(p, states);
    });
  }
  AskForNextPages(state_, int64_t{state_->rows.end()} - state_->readable_end, memory);
  RoomGuard guard(*room_, RoomLock::kWriting);
  state_->readable_end = state_->rows.end();
}

}  // namespace tf_booster
