#include "cc/core/pooling/pooling_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/pooling/pooling_gradient_body.h"

namespace tf_booster {
namespace gpu {

template <class T>
const char* PoolAsync(const std::vector<PoolJob<T>>& jobs, void* stream) {
  CudaQueue queue(stream);
  PoolOnQueue(queue, jobs);
  return queue.error();
}

template <class T>
const char* PoolGradientAsync(const std::vector<PoolJob<T>>& jobs, void* memory, void* stream) {
  CudaQueue queue(stream);
  Scratch scratch(memory);
  PoolGradientOnQueue(&queue, jobs, &scratch);
  return queue.error();
}

template <class T>
int64_t PoolGradientScratchBytes(const std::vector<PoolJob<T>>& jobs) {
  Scratch scratch(nullptr);
  PoolGradientOnQueue<CudaQueue>(nullptr, jobs, &scratch);
  return scratch.used();
}

#define TFB_INSTANTIATE(T)                                                              \
  template const char* PoolAsync(const std::vector<PoolJob<T>>&, void*);                \
  template const char* PoolGradientAsync(const std::vector<PoolJob<T>>&, void*, void*); \
  template int64_t PoolGradientScratchBytes(const std::vector<PoolJob<T>>&)
TFB_INSTANTIATE(float);
TFB_INSTANTIATE(double);
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
