// How a new row begins that is entered without an Insertion, on one thread and on several.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

// What a batch's new rows begin with: row i of [n, dim] for key i, or its initial values where `values` is null.
struct NewRows {
  const float* values = nullptr;
  int64_t frequency = 1;
};

// Row `number` as the new row of a key of the field with this id: counts, values by write(row), slots as they begin, in
// the order of their addresses. kDim: DispatchDim's.
template <int64_t kDim, class Write>
void StartRow(const TableOptions& options, TableState* state, uint32_t id, uint32_t number, int64_t frequency,
              const Write& write) {
  const int64_t dim = kDim > 0 ? kDim : options.dim;
  state->rows.SetCounts({frequency, state->fields[id].step}, state->rows.Meta(number));
  float* row = state->rows.Values(number);
  write(row);
  for (const float start : options.slot_initial_values) std::fill_n(row += dim, dim, start);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_
