#include "cc/core/columns/multi_bucketize_gpu.h"

#include "cc/core/columns/multi_bucketize_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

template <class T>
const char* WriteBucketsAsync(const std::vector<Bucketize<T>>& all, const std::vector<float>& boundaries,
                              float* on_card, void* stream) {
  CudaQueue queue(stream);
  WriteBucketsOn(queue, all, boundaries, on_card);
  return queue.error();
}

template const char* WriteBucketsAsync(const std::vector<Bucketize<float>>&, const std::vector<float>&, float*, void*);
template const char* WriteBucketsAsync(const std::vector<Bucketize<double>>&, const std::vector<float>&, float*, void*);

}  // namespace gpu
}  // namespace tf_booster
