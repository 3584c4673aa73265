#include "cc/core/products/gathered_products_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/products/gathered_products_body.h"

namespace tf_booster {
namespace gpu {

template <class Index>
const char* MultiplyGatheredAsync(const GatheredOnCard<Index>& products, void* stream) {
  CudaQueue queue(stream);
  MultiplyGatheredOn(queue, products);
  return queue.error();
}

template const char* MultiplyGatheredAsync(const GatheredOnCard<int32_t>&, void*);
template const char* MultiplyGatheredAsync(const GatheredOnCard<int64_t>&, void*);

}  // namespace gpu
}  // namespace tf_booster
