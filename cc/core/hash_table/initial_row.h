// InitialRow for this machine's processor: the same bits, faster where there is AVX2.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/hash_table/initializer.h"

namespace tf_booster {

// Of a kind that is not constant.
void DrawInitialRow(const RowInitializer& init, int64_t key, int64_t dim, float* out);

inline void WriteInitialRow(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
  if (init.kind == InitializerKind::kConstant) {
    std::fill_n(out, dim, init.a);
  } else {
    DrawInitialRow(init, key, dim, out);
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_INITIAL_ROW_H_
