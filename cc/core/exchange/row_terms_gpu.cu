#include "cc/core/exchange/row_terms_gpu.h"

#include "cc/core/exchange/row_terms_body.h"
#include "cc/core/gpu/cuda_queue.cuh"

namespace tf_booster {
namespace gpu {

const char* SumTermsAsync(const std::vector<TermsJob>& jobs, void* stream) {
  CudaQueue queue(stream);
  SumTermsOn(queue, jobs);
  return queue.error();
}

}  // namespace gpu
}  // namespace tf_booster
