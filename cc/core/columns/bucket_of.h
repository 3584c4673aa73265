// The bucket of a number between boundaries, for host and card.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_

#include <cstdint>

#include "cc/core/base/count_before.h"

namespace tf_booster {

// How many of the `n` boundaries, which never fall, `value` is not below: a NaN is below none.
template <class T>
TFB_HOST_DEVICE int32_t BucketOf(T value, const float* boundaries, int32_t n) {
  return CountBefore(n, [=](int32_t i) { return !(value < boundaries[i]); });
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_BUCKET_OF_H_
