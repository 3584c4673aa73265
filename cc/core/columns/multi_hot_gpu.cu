#include "cc/core/columns/multi_hot_gpu.h"

#include "cc/core/columns/multi_hot_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

const char* WriteMultiHotsAsync(const std::vector<MultiHot>& all, void* stream) {
  CudaQueue queue(stream);
  WriteMultiHotsOn(queue, all);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
