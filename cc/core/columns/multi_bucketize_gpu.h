// multi_bucketize.h on the card: all features by one launch or few.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_GPU_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_GPU_H_

#include <vector>

#include "cc/core/columns/multi_bucketize.h"

namespace tf_booster {
namespace gpu {

// T: float or double. boundaries: those of all features, in the host's memory, which each feature's point into.
// on_card: room for as many. Starts on `stream` and does not wait. Null, or CUDA's message.
template <class T>
const char* WriteBucketsAsync(const std::vector<Bucketize<T>>& all, const std::vector<float>& boundaries,
                              float* on_card, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_BUCKETIZE_GPU_H_
