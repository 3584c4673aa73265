// The bucket of a number between boundaries, for host and card.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_booster {

// How many of the `n` boundaries, which never fall, `value` is not below: a NaN is below none. No branch depends on the
// numbers: which side of a boundary they lie on is chance, and a processor's guesses would be wrong half of the time.
template <class T>
TFB_HOST_DEVICE int32_t BucketOf(T value, const float* boundaries, int32_t n) {
  if (n == 0) return 0;
  int32_t first = 0;
  while (n > 1) {
    const int32_t half = n / 2;
    first += half & -static_cast<int32_t>(!(value < boundaries[first + half - 1]));
    n -= half;
  }
  return first + static_cast<int32_t>(!(value < boundaries[first]));
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_
