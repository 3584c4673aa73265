#include "cc/core/clipping/clip_rows_gpu.h"

#include "cc/core/clipping/clip_rows_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

const char* ClipAllRowsAsync(const std::vector<ClipRows>& all, void* stream) {
  CudaQueue queue(stream);
  ClipAllRowsOn(queue, all);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
