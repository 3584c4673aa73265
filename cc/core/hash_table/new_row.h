// How a row begins that FindOrInsert makes, on one thread and on several.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/hash_table/row_copy.h"
#include "cc/core/hash_table/table_state.h"

namespace tf_booster {

// Row `number` as the new row of a key of the field with this id, seen once: values from `values`, slots as they begin.
// kDim: DispatchDim's.
template <int64_t kDim>
void StartRow(const TableOptions& options, TableState* state, uint32_t id, uint32_t number, const float* values) {
  const int64_t dim = kDim > 0 ? kDim : options.dim;
  state->rows.SetCounts({1, state->fields[id].step}, state->rows.Meta(number));
  float* row = state->rows.Values(number);
  CopyRow<kDim>(row, values, dim);
  for (const float start : options.slot_initial_values) std::fill_n(row += dim, dim, start);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_NEW_ROW_H_
