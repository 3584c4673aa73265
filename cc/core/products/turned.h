// Columns of a matrix turned.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_TURNED_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_TURNED_H_

#include <algorithm>
#include <cstdint>

namespace tf_booster {

// Columns [begin, end) of `to` [k, n] become rows of `from` [n, k]. Sixteen at a time: they are a cache line of each
// row of the result.
inline void TurnColumns(const float* from, int64_t k, int64_t n, int64_t begin, int64_t end, float* to) {
  constexpr int64_t kColumns = 16;
  for (int64_t first = begin; first < end; first += kColumns) {
    const int64_t last = std::min(end, first + kColumns);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = first; j < last; ++j) to[i * n + j] = from[j * k + i];
    }
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_TURNED_H_
