#include "cc/core/gpu/multi_gather_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/gpu/multi_gather_body.h"

namespace tf_booster {
namespace gpu {

template <class Index>
const char* MultiGatherAsync(const std::vector<GatherJob<Index>>& jobs, void* stream) {
  CudaQueue queue(stream);
  MultiGather(queue, jobs);
  return queue.error();
}

template const char* MultiGatherAsync(const std::vector<GatherJob<int32_t>>&, void*);
template const char* MultiGatherAsync(const std::vector<GatherJob<int64_t>>&, void*);

}  // namespace gpu
}  // namespace tf_booster
