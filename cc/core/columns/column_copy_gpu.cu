#include "cc/core/columns/column_copy_gpu.h"

#include "cc/core/columns/column_copy_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

const char* CopyColumnsAsync(const std::vector<ColumnsJob>& jobs, void* stream) {
  CudaQueue queue(stream);
  CopyColumnsOnQueue(queue, jobs);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
