// What changes rows that exist: counting a step, assigning, erasing, evicting.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

// Unit: a key of an update, all distinct.
struct CountSightings {
  DeviceState state;
  DeviceKeys keys;
  const uint32_t* rows;
  const int64_t* counts;  // Or null: 1 each.

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (rows[i] == 0) return;
    const int64_t count = counts == nullptr ? 1 : counts[i], before = state.rows.Counts(rows[i]).frequency;
    state.rows.SetCounts(rows[i],
                         {before > INT64_MAX - count ? INT64_MAX : before + count, state.steps[keys.IdOf(state, i)]});
  }
};

// Unit: a row from kFirstRow on. The highest frequency, on counters->frequency, which was 0.
struct FindMostFrequent {
  DeviceState state;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    const uint32_t row = static_cast<uint32_t>(kFirstRow + r);
    if (*state.rows.Entry(row) >= kLeavingRow) return;
    const uint64_t frequency = static_cast<uint64_t>(state.rows.Counts(row).frequency);
    if (frequency > LoadRelaxed(&state.counters->frequency)) RaiseTo(&state.counters->frequency, frequency);
  }
};

// Of places with one row the last one is chosen, or the first one, by a hash set of the rows: {row, mark} in a word, so
// that the greatest mark of a row is an atomic maximum. Of zeros before Mark, and at most half full.
struct MarkRows {
  DeviceState state;
  const uint32_t* rows;
  bool first;
  int64_t size;
  uint64_t* set = nullptr;
  uint64_t set_mask = 0;

  static int64_t SetSize(int64_t places) {
    int64_t size = 2;
    while (size < 2 * places) size *= 2;
    return size;
  }
  TFB_HOST_DEVICE uint64_t WordOf(int64_t i) const {
    return uint64_t{rows[i]} << 32 | static_cast<uint64_t>(first ? size - i : i + 1);
  }
  // Where the row's word is, or an empty one; `word` is what stands there.
  TFB_HOST_DEVICE uint64_t* PlaceOf(uint32_t row, uint64_t* word) const {
    for (uint64_t at = Mix64(row) & set_mask;; at = (at + 1) & set_mask) {
      *word = LoadRelaxed(set + at);
      if (*word == 0 || *word >> 32 == row) return set + at;
    }
  }
  TFB_HOST_DEVICE bool Chosen(int64_t i) const {
    uint64_t word = 0;
    if (rows[i] != 0) PlaceOf(rows[i], &word);
    return word != 0 && word == WordOf(i);
  }
};

// Unit: a place.
struct Mark : MarkRows {
  explicit Mark(const MarkRows& marks) : MarkRows(marks) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (rows[i] == 0) return;
    for (;;) {  // Until the place is the row's; each failure is another row's success.
      uint64_t word = 0;
      uint64_t* const place = PlaceOf(rows[i], &word);
      if (word == 0) word = AtomicCompareExchange(place, uint64_t{0}, WordOf(i));
      if (word == 0) return;
      if (word >> 32 == rows[i]) return RaiseTo(place, WordOf(i));
    }
  }
};

// Unit: a place; a group. The chosen place's values become the row's embedding.
struct AssignRows : MarkRows {
  const uint32_t* places;
  FloatCopy copy;
  const float* values;
  AssignRows(const MarkRows& marks, const uint32_t* p, const FloatCopy& c, const float* v)
      : MarkRows(marks), places(p), copy(c), values(v) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (!Chosen(i)) return;
    const Group group;
    copy(group, values + i * state.rows.dim, state.rows.Values(places[i]));
  }
};

// Unit: a key. Finds the rows that go, and takes pending keys out at once.
struct FindErased {
  DeviceState state;
  DeviceKeys keys;
  uint32_t* rows;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t id = keys.IdOf(state, i);
    const Probe probe = id == kNoField ? Probe() : FindEntry<true>(state.index, keys.keys[i], id);
    const uint32_t before = probe.entry < 0 ? kEmpty : StateOf(probe.tag);
    rows[i] = IsRow(before) ? before : 0;
    if (!IsPending(before)) return;
    // Of equal keys one wins: the state in between is one that no other kernel ever sees.
    uint64_t* tag = &state.index.entries[probe.entry].tag;
    if (AtomicCompareExchange(tag, probe.tag, MakeTag(id, kClaimedPending)) != probe.tag) return;
    if (Vacate(state.index, probe.entry)) CountAt(&state.counters->used, 0, -1);
    CountAt(state.field_pending, id, -1);
  }
};

// Unit: a place. 1 for those that free a row.
struct FlagChosen : MarkRows {
  int32_t* flags;
  FlagChosen(const MarkRows& marks, int32_t* f) : MarkRows(marks), flags(f) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const { flags[i] = Chosen(i); }
};

// Takes a row out of the index and puts it on the stack of free ones.
TFB_HOST_DEVICE void FreeOne(const DeviceState& state, uint32_t row, uint64_t rank) {
  const int64_t entry = *state.rows.Entry(row);
  CountAt(state.field_rows, LowOf(state.index.entries[entry].tag), -1);
  if (Vacate(state.index, entry)) CountAt(&state.counters->used, 0, -1);
  *state.rows.Entry(row) = kFreeRow;
  *state.rows.FreeRow(state.counters->free + rank) = row;
}

// Unit: a place. Those that are flagged, by rank.
struct FreeRows {
  DeviceState state;
  const uint32_t* rows;
  const int32_t* flags;
  const int32_t* ranks;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (flags[i] == 0) return;
    FreeOne(state, rows[i], static_cast<uint64_t>(ranks[i] - 1));
  }
};

// One unit.
struct CommitFreed {
  DeviceCounters* counters;
  const int32_t* total;
  TFB_HOST_DEVICE void operator()(int64_t) const {
    counters->free += static_cast<uint64_t>(*total);
    if (*total != 0) ++counters->epoch;
  }
};

// One unit. Handles that were given out lead to other rows.
struct NextEpoch {
  DeviceCounters* counters;
  TFB_HOST_DEVICE void operator()(int64_t) const { ++counters->epoch; }
};

// Fields that were exchanged: their old ids leave. Unit: a place of the index. Pending keys go here, entries of rows as
// well; the rows themselves, which are leaving now, are for FlagLeaving and FreeLeaving.
struct PurgeEntries {
  DeviceState state;
  const uint8_t* is_old;  // By id.

  TFB_HOST_DEVICE void operator()(int64_t e) const {
    const uint64_t tag = LoadRelaxed(&state.index.entries[e].tag);
    if (!IsLive(StateOf(tag)) || is_old[LowOf(tag)] == 0) return;
    if (IsPending(StateOf(tag))) {
      CountAt(state.field_pending, LowOf(tag), -1);
    } else {
      CountAt(state.field_rows, LowOf(tag), -1);
      *state.rows.Entry(StateOf(tag)) = kLeavingRow;
    }
    if (Vacate(state.index, e)) CountAt(&state.counters->used, 0, -1);
  }
};

// Unit: a row from `first` on.
struct FlagLeaving {
  DeviceState state;
  int64_t first;
  int32_t* flags;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    flags[r] = *state.rows.Entry(static_cast<uint32_t>(first + r)) == kLeavingRow;
  }
};

struct FreeLeaving {
  DeviceState state;
  int64_t first;
  const int32_t* flags;
  const int32_t* ranks;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    if (flags[r] == 0) return;
    const uint32_t row = static_cast<uint32_t>(first + r);
    *state.rows.Entry(row) = kFreeRow;
    *state.rows.FreeRow(state.counters->free + static_cast<uint64_t>(ranks[r] - 1)) = row;
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_
