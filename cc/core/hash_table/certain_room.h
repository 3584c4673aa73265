// Room for a batch's new keys, taken before it is known which of them are equal: what gets it cannot fail afterwards.
// Who does not get it may still fit; Insertion finds out.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_CERTAIN_ROOM_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_CERTAIN_ROOM_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include "cc/core/hash_table/memory_limit.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

class CertainRoom {
 public:
  using Counts = std::array<uint32_t, kStripes>;  // Keys of each stripe.

  CertainRoom(TableState* state, MemoryProbe* memory) : state_(state), memory_(memory) {
    for (const FieldState& field : state->fields) {
      if (field.pending != 0 || field.queue.enabled()) keys_ = 0;
      if (field.options->max_rows > 0) keys_ = std::min(keys_, field.options->max_rows - field.rows);
    }
    for (int s = 0; s < kStripes; ++s) stripes_[s] = state->index.RoomOf(s);
  }

  // Whether so many keys, spread evenly, may get room. None do where a field counts keys that it has not admitted, or
  // has an eviction.
  bool MayHave(int64_t keys) const {
    return keys <= keys_ && keys / kStripes < *std::min_element(stripes_.begin(), stripes_.end());
  }

  // Room for keys that are seen once each, as rows; false: they might not fit.
  bool Take(const Counts& counts) {
    int64_t total = 0;
    for (int s = 0; s < kStripes; ++s) {
      stripes_[s] -= counts[s];
      if (stripes_[s] < 0) return false;
      total += counts[s];
    }
    keys_ -= total;
    if (keys_ < 0) return false;
    try {
      int64_t left = 0, max_step = 0;
      if (!state_->rows.Grant(total, 0, memory_, &left)) return false;
      for (const FieldState& field : state_->fields) max_step = std::max<int64_t>(max_step, field.step);
      state_->rows.ReserveCounts(total, total, max_step);
      return state_->rows.Reserve(total);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

 private:
  TableState* const state_;
  MemoryProbe* const memory_;
  int64_t keys_ = kMaxRow;
  std::array<int64_t, kStripes> stripes_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_CERTAIN_ROOM_H_
