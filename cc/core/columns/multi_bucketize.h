// The buckets of many features' numbers, as bucketized columns have them.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// T: float, double, int32_t or int64_t, compared with boundaries as C++ compares it with a float.
template <class T>
struct Bucketize {
  const T* numbers = nullptr;  // [n]
  int64_t n = 0;
  const float* boundaries = nullptr;  // [num_boundaries], which never fall.
  int32_t num_boundaries = 0;
  int32_t* buckets = nullptr;  // [n], in [0, num_boundaries].
};

template <class T>
void WriteBuckets(const std::vector<Bucketize<T>>& all, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_H_
