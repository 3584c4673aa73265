#include "cc/core/gpu/multi_copy_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/gpu/multi_copy_body.h"

namespace tf_booster {
namespace gpu {

const char* MultiCopyAsync(const std::vector<CopyJob>& jobs, void* stream) {
  CudaQueue queue(stream);
  MultiCopy(queue, jobs);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
