#include "cc/core/normalization/batch_norm_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/normalization/batch_norm_body.h"

namespace tf_booster {
namespace gpu {

const char* BatchNormAsync(const BatchNormInput& in, const BatchNormOutput& out, float* scratch, void* stream) {
  CudaQueue queue(stream);
  BatchNormOnQueue(queue, in, out, scratch);
  return queue.error();
}

const char* BatchNormGradAsync(const BatchNormGradInput& in, const BatchNormGradOutput& out, float* scratch,
                               void* stream) {
  CudaQueue queue(stream);
  BatchNormGradOnQueue(queue, in, out, scratch);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
