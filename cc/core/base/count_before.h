// A binary search without branches, for host and card.
#ifndef TF_BOOSTER_CC_CORE_BASE_COUNT_BEFORE_H_
#define TF_BOOSTER_CC_CORE_BASE_COUNT_BEFORE_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

// How many of the first `n` integers fulfil is_before(i), those that do being in front. No branch depends on them:
// where they end is chance, and a processor's guesses would be wrong half of the time.
template <class IsBefore>
TFB_HOST_DEVICE int32_t CountBefore(int32_t n, const IsBefore& is_before) {
  if (n == 0) return 0;
  int32_t first = 0;
  while (n > 1) {
    const int32_t half = n / 2;
    first += half & -static_cast<int32_t>(is_before(first + half - 1));
    n -= half;
  }
  return first + static_cast<int32_t>(is_before(first));
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_COUNT_BEFORE_H_
