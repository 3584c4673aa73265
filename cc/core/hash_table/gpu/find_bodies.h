// What finds do on the card: a group a key, from the bucket to the last word of the row. Unit: a key or a code.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

// The embedding of a row, or of a key without one its initial value.
TFB_HOST_DEVICE void WriteEmbedding(const Group& group, const DeviceState& state, const FloatCopy& copy, uint32_t row,
                                    int64_t key, uint32_t id, float* out) {
  if (row != 0) {
    copy(group, state.rows.Values(row), out);
  } else if (id != kNoField) {
    InitialRowBy(group, state.fields[id].initializer, key, state.rows.dim, out);
  } else {
    FillWith(group, 0.0f, state.rows.dim, out);
  }
}

struct FindRows {
  DeviceState state;
  DeviceKeys keys;
  FloatCopy copy;
  float* out;
  uint8_t* found;  // Or null.

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const Group group;
    const uint32_t row = RowOf(group, state, keys, DeviceHandles(), i);
    WriteEmbedding(group, state, copy, row, keys.keys[i], keys.IdOf(state, i), out + i * state.rows.dim);
    if (found != nullptr) group.Once([&] { found[i] = row != 0; });
  }
};

struct FindRowHandles {
  DeviceState state;
  DeviceKeys keys;
  RowHandle* handles;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const Group group;
    const uint32_t row = RowOf(group, state, keys, DeviceHandles(), i);
    group.Once([&] { handles[i] = HandleOf(state, row); });
  }
};

// Part of a gather; units: its codes.
struct GatherJobOfCodes {
  const int64_t* codes = nullptr;
  float* out = nullptr;
  FloatCopy copy;
  int64_t units = 0;
};

struct GatherRows {
  static constexpr uint64_t kPlaceMask = (uint64_t{1} << 40) - 1;
  DeviceState state;
  DeviceKeys keys;
  DeviceHandles handles;

  TFB_HOST_DEVICE void operator()(const GatherJobOfCodes& job, int64_t i) const {
    const Group group;
    const int64_t place = static_cast<int64_t>(static_cast<uint64_t>(job.codes[i]) & kPlaceMask) - 1;
    uint32_t row = 0, id = kNoField;
    int64_t key = 0;
    if (place >= 0 && place < keys.size) {
      row = RowOf(group, state, keys, handles, place);
      id = keys.IdOf(state, place);
      key = keys.keys[place];
    } else if (place >= 0) {
      group.Once([&] { RaiseTo(&state.counters->bad_code, static_cast<uint64_t>(place) + 1); });
    }
    WriteEmbedding(group, state, job.copy, row, key, id, job.out + i * state.rows.dim);
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_
