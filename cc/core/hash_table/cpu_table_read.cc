// The readers: Find, FindHandles, Gather.
//
// A find is two cache misses, one for the bucket and one for the row, and nothing else to speak of: 240 ns or more when they
// are waited for, 4 to 6 ns each when many are under way. So keys go through three stages group by group: hash and prefetch
// the bucket; probe and prefetch the row; copy.
#include <algorithm>
#include <atomic>

#include "cc/core/hash_table/cpu_table_impl.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

constexpr int64_t kGroup = 32;
// Keys of one visit to the reading room: about 50 us, against some 50 ns for entering.
constexpr int64_t kPart = 4096;

int64_t FindCost(int64_t dim) { return 20 + dim / 4; }

// Calls visit(begin, end) for the parts of [begin, end).
template <class Visit>
void ForParts(int64_t begin, int64_t end, Visit visit) {
  for (; begin < end; begin += kPart) visit(begin, std::min(end, begin + kPart));
}

// Runs a pipeline of stages over the groups of [begin, end): stage s works on the group that stage 0 saw s rounds before.
// Each stage is called with (first key of the group, number of keys, which third of a ring of three groups is the group's).
template <class Hash, class Probe, class Finish>
void Pipeline(int64_t begin, int64_t end, Hash hash, Probe probe, Finish finish) {
  const int64_t groups = (end - begin + kGroup - 1) / kGroup;
  const auto run = [&](auto& stage, int64_t g) {
    if (g < 0 || g >= groups) return;
    const int64_t first = begin + g * kGroup;
    stage(first, std::min(kGroup, end - first), static_cast<int>(g % 3));
  };
  for (int64_t g = 0; g < groups + 2; ++g) {
    run(hash, g);
    run(probe, g - 1);
    run(finish, g - 2);
  }
}

}  // namespace

void CpuTable::LocatePart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end,
                          uint32_t* states) const {
  uint64_t hashes[3][kGroup];
  const auto hash = [&](int64_t first, int64_t n, int third) {
    for (int64_t j = 0; j < n; ++j) {
      hashes[third][j] = HashKey(keys.keys[first + j], FieldOf(keys, first + j));
      state.index.Prefetch(hashes[third][j]);
    }
  };
  const auto probe = [&](int64_t first, int64_t n, int third) {
    for (int64_t j = 0; j < n; ++j) {
      states[first + j] = state.index.StateOf(hashes[third][j], keys.keys[first + j], FieldOf(keys, first + j));
    }
  };
  const auto finish = [](int64_t, int64_t, int) {};
  Pipeline(begin, end, hash, probe, finish);
}

void CpuTable::FindPart(const TableState& state, const KeyBatch& keys, int64_t begin, int64_t end, float* out,
                        uint8_t* found, uint32_t* states) const {
  const int64_t dim = options_.dim;
  DispatchDim(dim, [&](auto constant) {
    uint64_t hashes[3][kGroup];
    uint32_t located[3][kGroup];
    const auto hash = [&](int64_t first, int64_t n, int third) {
      for (int64_t j = 0; j < n; ++j) {
        hashes[third][j] = HashKey(keys.keys[first + j], FieldOf(keys, first + j));
        state.index.Prefetch(hashes[third][j]);
      }
    };
    const auto probe = [&](int64_t first, int64_t n, int third) {
      for (int64_t j = 0; j < n; ++j) {
        const uint32_t row = state.index.StateOf(hashes[third][j], keys.keys[first + j], FieldOf(keys, first + j));
        located[third][j] = row;
        if (IsRow(row)) PrefetchRow(state.rows.Values(row), dim);
      }
    };
    const auto finish = [&](int64_t first, int64_t n, int third) {
      for (int64_t j = 0; j < n; ++j) {
        const uint32_t row = located[third][j];
        float* to = out + (first + j) * dim;
        if (IsRow(row)) {
          CopyRow<constant.value>(to, state.rows.Values(row), dim);
        } else {
          InitialRow(state.fields[FieldOf(keys, first + j)].initializer, keys.keys[first + j], dim, to);
        }
        if (found != nullptr) found[first + j] = IsRow(row);
        if (states != nullptr) states[first + j] = row;
      }
    };
    Pipeline(begin, end, hash, probe, finish);
  });
}

Status CpuTable::Find(const KeyBatch& keys, float* out, uint8_t* found, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(keys));
  pf.Run(keys.size, FindCost(options_.dim), [&](int64_t begin, int64_t end) {
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      RoomGuard guard(room_, RoomLock::kReading);
      FindPart(*state_, keys, first, last, out, found, nullptr);
    });
  });
  return Status();
}

Status CpuTable::FindHandles(const KeyBatch& keys, RowHandle* handles, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(keys));
  pf.Run(keys.size, FindCost(0), [&](int64_t begin, int64_t end) {
    uint32_t states[kPart];
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      RoomGuard guard(room_, RoomLock::kReading);
      const KeyBatch part = {keys.keys + first, keys.fields == nullptr ? nullptr : keys.fields + first, last - first};
      LocatePart(*state_, part, 0, part.size, states);
      for (int64_t i = 0; i < part.size; ++i) handles[first + i] = IsRow(states[i]) ? HandleOf(states[i]) : kNoRow;
    });
  });
  return Status();
}

uint32_t CpuTable::RowOf(const TableState& state, RowHandle handle, int64_t key, uint32_t field) const {
  const uint32_t row = static_cast<uint32_t>(handle) & kMaxRow;
  if (handle >= 0 && row >= kFirstRow && row < state.readable_end) {
    if (static_cast<uint32_t>(handle >> 31) == epoch_) return row;
    const RowMeta& meta = *state.rows.Meta(row);
    if (meta.key == key && meta.field == field) return row;
  }
  const uint32_t found = state.index.StateOf(HashKey(key, field), key, field);
  return IsRow(found) ? found : 0;
}

Status CpuTable::Gather(const KeyBatch& keys, const RowHandle* handles, const int64_t* codes, int64_t num_codes,
                        float* out, ParallelFor& pf) const {
  TFB_RETURN_IF_ERROR(CheckFields(keys));
  constexpr int64_t kCodeMask = (int64_t{1} << 40) - 1;
  const int64_t dim = options_.dim;
  std::atomic<int64_t> wrong{-1};
  const auto gather_part = [&](auto constant, const TableState& state, int64_t begin, int64_t end) {
    uint32_t rows[3][kGroup];
    const auto nothing = [](int64_t, int64_t, int) {};
    const auto locate = [&](int64_t first, int64_t n, int third) {
      for (int64_t j = 0; j < n; ++j) {
        const int64_t code = codes[first + j] & kCodeMask;
        if (code > keys.size) wrong = first + j;
        rows[third][j] = 0;
        if (code == 0 || code > keys.size) continue;
        const int64_t k = code - 1;
        rows[third][j] = RowOf(state, handles == nullptr ? kNoRow : handles[k], keys.keys[k], FieldOf(keys, k));
        if (rows[third][j] != 0) PrefetchRow(state.rows.Values(rows[third][j]), dim);
      }
    };
    const auto copy = [&](int64_t first, int64_t n, int third) {
      for (int64_t j = 0; j < n; ++j) {
        const int64_t code = codes[first + j] & kCodeMask;
        float* to = out + (first + j) * dim;
        if (rows[third][j] != 0) {
          CopyRow<constant.value>(to, state.rows.Values(rows[third][j]), dim);
        } else if (code == 0 || code > keys.size) {
          std::fill_n(to, dim, 0.0f);
        } else {
          InitialRow(state.fields[FieldOf(keys, code - 1)].initializer, keys.keys[code - 1], dim, to);
        }
      }
    };
    Pipeline(begin, end, nothing, locate, copy);
  };
  pf.Run(num_codes, FindCost(dim), [&](int64_t begin, int64_t end) {
    ForParts(begin, end, [&](int64_t first, int64_t last) {
      RoomGuard guard(room_, RoomLock::kReading);
      DispatchDim(dim, [&](auto constant) { gather_part(constant, *state_, first, last); });
    });
  });
  if (wrong < 0) return Status();
  return Status(StatusCode::kInvalidArgument,
                "Table '" + options_.name + "': code " + std::to_string(codes[wrong] & kCodeMask) + " at place " +
                    std::to_string(wrong) + " names no key, there are " + std::to_string(keys.size) +
                    "; gather with the keys and handles of the probe that made the codes");
}

}  // namespace tf_booster
