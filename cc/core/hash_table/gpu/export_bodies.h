// Rows and pending keys into arrays, piece by piece.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EXPORT_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EXPORT_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

// Unit: a row from `first` on. Wanted are those of `id` that were used after the step `since`.
struct FlagRows {
  DeviceState state;
  int64_t first;
  uint32_t id;
  int64_t since;
  int32_t* flags;
  TFB_HOST_DEVICE void operator()(int64_t r) const {
    const uint32_t row = static_cast<uint32_t>(first + r);
    flags[r] = state.IdOfRow(row) == id && state.rows.Counts(row).last_step > since;
  }
};

// Arrays of a piece.
struct ExportArrays {
  int64_t* keys = nullptr;
  int64_t* frequencies = nullptr;
  int64_t* last_steps = nullptr;
  float* values = nullptr;  // [n, columns], from the row's first_column on.
  int64_t first_column = 0, columns = 0;
};

// Unit: a row from `first` on; a group.
struct ExportRows {
  DeviceState state;
  int64_t first;
  const int32_t* flags;
  const int32_t* ranks;
  ExportArrays out;

  TFB_HOST_DEVICE void operator()(int64_t r) const {
    if (flags[r] == 0) return;
    const Group group;
    const uint32_t row = static_cast<uint32_t>(first + r);
    const int64_t i = ranks[r] - 1;
    group.Once([&] {
      const DeviceEntry& entry = state.EntryOf(row);
      const RowCounts counts = state.rows.Counts(row);
      out.keys[i] = static_cast<int64_t>(entry.key);
      out.frequencies[i] = counts.frequency;
      out.last_steps[i] = counts.last_step;
    });
    const float* values = state.rows.Values(row) + out.first_column;
    if (out.columns > 0) CopyFloats(group, out.columns, values, out.values + i * out.columns);
  }
};

// Unit: an entry of the index. Pending keys of an id, in any order: the host sorts by hash.
struct CollectPending {
  DeviceState state;
  uint32_t id;
  uint64_t* count;
  int64_t* keys;
  int64_t* counts;
  TFB_HOST_DEVICE void operator()(int64_t e) const {
    const DeviceEntry& entry = state.index.entries[e];
    if (!IsPending(StateOf(entry.tag)) || LowOf(entry.tag) != id) return;
    const uint64_t at = AtomicAdd(count, uint64_t{1});
    keys[at] = static_cast<int64_t>(entry.key);
    counts[at] = PendingCount(StateOf(entry.tag));
  }
};

// Unit: one of `rows`; a group. Rows out to [n, width], or back.
struct CopyWholeRows {
  DeviceState state;
  const uint32_t* rows;
  float* values;
  bool back;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const Group group;
    const int64_t width = (1 + state.rows.num_slots) * state.rows.dim;
    float* row = state.rows.Values(rows[i]);
    float* array = values + i * width;
    back ? CopyFloats(group, width, array, row) : CopyFloats(group, width, row, array);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_EXPORT_BODIES_H_
