// What finds do on the card: each lane of a group finds a row, then the group copies them one after another. Four
// probes wait for memory at a time, and rows are read by neighbouring lanes.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_

#include "cc/core/hash_table/gpu/device_state.h"

namespace tf_booster {
namespace gpu {

// The address of a row's embedding, for Group::Answers; null for row 0.
TFB_HOST_DEVICE uint64_t AddressOf(const DeviceState& state, uint32_t row) {
  return row == 0 ? 0 : reinterpret_cast<uintptr_t>(state.rows.Values(row));
}

// What a key without a row is given: its initial value, or zeros where it is none.
TFB_HOST_DEVICE void WriteMissing(const Group& group, const DeviceState& state, int64_t key, uint32_t id, float* out) {
  if (id != kNoField) {
    InitialRowBy(group, state.fields[id].initializer, key, state.rows.dim, out);
  } else {
    FillWith(group, 0.0f, state.rows.dim, out);
  }
}

// Calls run(lane, i) for the units of a group that there are, all lanes together.
template <class Run>
TFB_HOST_DEVICE void EachOfGroup(int64_t group_of_units, int64_t size, const Run& run) {
  const int64_t first = group_of_units * kGroupLanes;
  TFB_ROLLED
  for (int lane = 0; lane < kGroupLanes; ++lane) {
    if (first + lane < size) run(lane, first + lane);
  }
}

// Which row a key of a batch has: the table knows,
struct ProbedRows {
  DeviceHandles handles;
  TFB_HOST_DEVICE uint32_t Of(const DeviceState& state, const DeviceKeys& keys, int64_t i) const {
    return RowOf(state, keys, handles, i);
  }
};
// or an array does.
struct KnownRows {
  const uint32_t* rows;
  TFB_HOST_DEVICE uint32_t Of(const DeviceState&, const DeviceKeys&, int64_t i) const { return rows[i]; }
};

// Unit: as many keys as a group has lanes.
template <class Rows>
struct FindRows {
  DeviceState state;
  DeviceKeys keys;
  FloatCopy copy;
  float* out;
  uint8_t* found;  // Or null.
  Rows rows_of;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const Group group;
    const auto rows = group.ByEach([&](int lane) -> uint64_t {
      const int64_t i = unit * kGroupLanes + lane;
      if (i >= keys.size) return 0;
      const uint32_t row = rows_of.Of(state, keys, i);
      if (found != nullptr) found[i] = row != 0;
      return AddressOf(state, row);
    });
    copy.Rows(group, rows, out + unit * kGroupLanes * state.rows.dim);
    EachOfGroup(unit, keys.size, [&](int lane, int64_t i) {
      if (rows[lane] != 0) return;
      WriteMissing(group, state, keys.keys[i], keys.IdOf(state, i), out + i * state.rows.dim);
    });
  }
};

// Unit: a key.
struct FindRowHandles {
  DeviceState state;
  DeviceKeys keys;
  RowHandle* handles;

  TFB_HOST_DEVICE void operator()(int64_t i) const {
    handles[i] = HandleOf(state, RowOf(state, keys, DeviceHandles(), i));
  }
};

// Part of a gather; units: as many codes as a group has lanes.
struct GatherJobOfCodes {
  const int64_t* codes = nullptr;
  float* out = nullptr;
  int64_t size = 0;
  FloatCopy copy;
  int64_t units = 0;

  GatherJobOfCodes(const int64_t* codes, float* out, int64_t size, int64_t dim)
      : codes(codes), out(out), size(size), copy(dim, out), units(CeilDiv(size, kGroupLanes)) {}
  GatherJobOfCodes() = default;
};

template <class Rows>
struct GatherRows {
  static constexpr uint64_t kPlaceMask = (uint64_t{1} << 40) - 1;
  DeviceState state;
  DeviceKeys keys;
  Rows rows_of;

  TFB_HOST_DEVICE void operator()(const GatherJobOfCodes& job, int64_t unit) const {
    const Group group;
    const auto rows = group.ByEach([&](int lane) -> uint64_t {
      const int64_t i = unit * kGroupLanes + lane, place = i < job.size ? PlaceOf(job, i) : -1;
      if (place < 0) return 0;
      if (place < keys.size) return AddressOf(state, rows_of.Of(state, keys, place));
      RaiseTo(&state.counters->bad_code, static_cast<uint64_t>(place) + 1);
      return 0;
    });
    job.copy.Rows(group, rows, job.out + unit * kGroupLanes * state.rows.dim);
    EachOfGroup(unit, job.size, [&](int lane, int64_t i) {
      if (rows[lane] != 0) return;
      const int64_t place = PlaceOf(job, i);
      const bool known = place >= 0 && place < keys.size;
      WriteMissing(group, state, known ? keys.keys[place] : 0, known ? keys.IdOf(state, place) : kNoField,
                   job.out + i * state.rows.dim);
    });
  }

 private:
  TFB_HOST_DEVICE static int64_t PlaceOf(const GatherJobOfCodes& job, int64_t i) {
    return static_cast<int64_t>(static_cast<uint64_t>(job.codes[i]) & kPlaceMask) - 1;
  }
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_FIND_BODIES_H_
