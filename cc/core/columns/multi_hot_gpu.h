// multi_hot.h on the card: all features by one launch or few.
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_GPU_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_GPU_H_

#include <vector>

#include "cc/core/columns/multi_hot.h"

namespace tf_booster {
namespace gpu {

// Starts on `stream` and does not wait. Null, or CUDA's message.
const char* WriteMultiHotsAsync(const std::vector<MultiHot>& all, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_MULTI_HOT_GPU_H_
