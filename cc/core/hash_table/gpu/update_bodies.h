// What changes rows that exist: counting a step, assigning, erasing, evicting.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

// The larger one of *mark and `value` from now on.
TFB_HOST_DEVICE void RaiseMark(uint32_t* mark, uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(mark, value);
#else
  uint32_t now = LoadRelaxed(mark);
  while (value > now && !__atomic_compare_exchange_n(mark, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// Unit: a key of an update, all distinct.
struct CountSightings {
  DeviceState state;
  const uint32_t* rows;
  const int64_t* counts;  // Or null: 1 each.

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (rows[i] == 0) return;
    DeviceMeta& meta = *state.rows.Meta(rows[i]);
    const int64_t count = counts == nullptr ? 1 : counts[i];
    meta.frequency = meta.frequency > INT64_MAX - count ? INT64_MAX : meta.frequency + count;
    meta.last_step = state.steps[meta.field];
  }
};

// Of places with one row the last one is chosen, or the first one. Three kernels: Mark, what is done with the chosen
// place, and Unmark by it, so that marks are 0 again.
struct MarkRows {
  DeviceState state;
  const uint32_t* rows;
  bool first;
  int64_t size;

  TFB_HOST_DEVICE uint32_t MarkOf(int64_t i) const { return static_cast<uint32_t>(first ? size - i : i + 1); }
  TFB_HOST_DEVICE bool Chosen(int64_t i) const {
    return rows[i] != 0 && LoadRelaxed(&state.rows.Meta(rows[i])->mark) == MarkOf(i);
  }
};

// Unit: a place.
struct Mark : MarkRows {
  explicit Mark(const MarkRows& marks) : MarkRows(marks) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (rows[i] != 0) RaiseMark(&state.rows.Meta(rows[i])->mark, MarkOf(i));
  }
};

// Unit: a place. Marks of other places of the row are above 0 and not this one's, so they are not chosen afterwards.
struct Unmark : MarkRows {
  explicit Unmark(const MarkRows& marks) : MarkRows(marks) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (Chosen(i)) StoreRelaxed(&state.rows.Meta(rows[i])->mark, uint32_t{0});
  }
};

// Unit: a place; a group. The chosen place's values become the row's embedding.
struct AssignRows : MarkRows {
  FloatCopy copy;
  const float* values;
  AssignRows(const MarkRows& marks, const FloatCopy& c, const float* v) : MarkRows(marks), copy(c), values(v) {}

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (!Chosen(i)) return;
    const Group group;
    copy(group, values + i * state.rows.dim, state.rows.Values(rows[i]));
  }
};

// Unit: a key; a group. Finds the rows that go, and takes pending keys out at once.
struct FindErased {
  DeviceState state;
  DeviceKeys keys;
  uint32_t* rows;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const Group group;
    const uint32_t id = keys.IdOf(state, i);
    const Probe probe = id == kNoField ? Probe() : FindEntry(group, state.index, keys.keys[i], id);
    group.Once([&] {
      const uint32_t before = probe.entry < 0 ? kEmpty : StateOf(probe.tag);
      rows[i] = IsRow(before) ? before : 0;
      if (!IsPending(before)) return;
      // Of equal keys one wins: the state in between is one that no other kernel ever sees.
      uint64_t* tag = &state.index.entries[probe.entry].tag;
      if (AtomicCompareExchange(tag, probe.tag, MakeTag(id, kClaimedPending)) != probe.tag) return;
      if (Vacate(state.index, probe.entry)) CountAt(&state.counters->used, 0, -1);
      CountAt(state.field_pending, id, -1);
    });
  }
};

// Unit: a place. 1 for those that free a row.
struct FlagChosen : MarkRows {
  int32_t* flags;
  FlagChosen(const MarkRows& marks, int32_t* f) : MarkRows(marks), flags(f) {}
  TFB_HOST_DEVICE void operator()(int64_t i) const { flags[i] = Chosen(i); }
};

// Takes a row out of the index and puts it on the stack of free ones.
TFB_HOST_DEVICE void FreeOne(const Group& group, const DeviceState& state, uint32_t row, uint64_t rank) {
  DeviceMeta& meta = *state.rows.Meta(row);
  const int64_t key = meta.key;
  const uint32_t id = meta.field;
  const Probe probe = FindEntry(group, state.index, key, id);
  group.Once([&] {
    if (Vacate(state.index, probe.entry)) CountAt(&state.counters->used, 0, -1);
    CountAt(state.field_rows, id, -1);
    meta.field = kNoField;
    meta.mark = 0;
    *state.rows.FreeRow(state.counters->free + rank) = row;
  });
}

// Unit: a place; a group. Those that are flagged, by rank.
struct FreeRows {
  DeviceState state;
  const uint32_t* rows;
  const int32_t* flags;
  const int32_t* ranks;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    if (flags[i] == 0) return;
    FreeOne(Group(), state, rows[i], static_cast<uint64_t>(ranks[i] - 1));
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
// well; the rows themselves are for FlagOld and FreeOld.
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
    }
    if (Vacate(state.index, e)) CountAt(&state.counters->used, 0, -1);
  }
};

// Unit: a row from kFirstRow on.
struct FlagOld {
  DeviceState state;
  const uint8_t* is_old;
  int64_t first;
  int32_t* flags;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    const uint32_t id = state.rows.Meta(static_cast<uint32_t>(first + r))->field;
    flags[r] = id != kNoField && is_old[id] != 0;
  }
};

struct FreeOld {
  DeviceState state;
  int64_t first;
  const int32_t* flags;
  const int32_t* ranks;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    if (flags[r] == 0) return;
    const uint32_t row = static_cast<uint32_t>(first + r);
    DeviceMeta& meta = *state.rows.Meta(row);
    meta.field = kNoField;
    meta.mark = 0;
    *state.rows.FreeRow(state.counters->free + static_cast<uint64_t>(ranks[r] - 1)) = row;
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_UPDATE_BODIES_H_
