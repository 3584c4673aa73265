#include "cc/core/products/quantized_outliers.h"

#include "cc/core/products/quantized_rounding.h"

namespace tf_booster {

bool FindOutliers(const float* x, int64_t k, std::vector<int64_t>* places) {
  constexpr int kExponents = 256;
  int64_t counts[kExponents] = {};
  for (int64_t i = 0; i < k; ++i) ++counts[MagnitudeBits(x[i]) >> 23];
  int top = kExponents - 1;
  while (top > 0 && counts[top] == 0) --top;
  int rest = top;  // The largest exponent that is none of an outlier's.
  for (int64_t found = 0; rest > 0 && found + counts[rest] <= k / 32; --rest) found += counts[rest];
  if (top - rest < 3) return false;
  places->clear();
  for (int64_t i = 0; i < k; ++i) {
    if (static_cast<int>(MagnitudeBits(x[i]) >> 23) > rest) places->push_back(i);
  }
  return true;
}

}  // namespace tf_booster
