// Batch normalization on the card: as batch_norm.h has it, with the same bits.
#ifndef TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_GPU_H_
#define TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_GPU_H_

#include "cc/core/normalization/batch_norm.h"

namespace tf_booster {
namespace gpu {

// Started on `stream`; arrays, `scratch` among them, are in the card's memory, and nothing waits. Null, or CUDA's
// message.
const char* BatchNormAsync(const BatchNormInput& in, const BatchNormOutput& out, float* scratch, void* stream);
const char* BatchNormGradAsync(const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch,
                               void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_NORMALIZATION_BATCH_NORM_GPU_H_
