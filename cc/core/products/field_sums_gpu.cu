#include "cc/core/products/field_sums_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/products/field_sums_body.h"

namespace tf_booster {
namespace gpu {

const char* SumFieldsAsync(const Fields& in, const FieldSums& out, const std::vector<FieldCopy>& copies, void* stream) {
  CudaQueue queue(stream);
  SumFieldsOnQueue(queue, in, out, copies);
  return queue.error();
}

const char* SumFieldsGradientAsync(const Fields& in, const std::vector<FieldRange>& ranges, float* gradient,
                                   void* stream) {
  CudaQueue queue(stream);
  SumFieldsGradientOnQueue(queue, in, ranges, gradient);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
