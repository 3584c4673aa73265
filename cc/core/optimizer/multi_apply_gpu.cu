#include "cc/core/optimizer/multi_apply_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/optimizer/element_steps.h"
#include "cc/core/optimizer/multi_apply_body.h"

namespace tf_booster {
namespace gpu {

template <class Step>
const char* MultiApplyAsync(const std::vector<DenseJob<Step>>& jobs, const StepInputs<typename Step::Type>& inputs,
                            bool one_after_another, void* stream) {
  CudaQueue queue(stream);
  MultiApply(queue, jobs, inputs, one_after_another);
  return queue.error();
}

#define TFB_INSTANTIATE_TYPE(Step)                                                                                 \
  template const char* MultiApplyAsync(const std::vector<DenseJob<Step>>&, const StepInputs<typename Step::Type>&, \
                                       bool, void*);
#define TFB_INSTANTIATE(Name)                  \
  TFB_INSTANTIATE_TYPE(element::Name<float>)   \
  TFB_INSTANTIATE_TYPE(element::Name<double>)  \
  TFB_INSTANTIATE_TYPE(element::Name<Float16>) \
  TFB_INSTANTIATE_TYPE(element::Name<BFloat16>)
TFB_DENSE_STEPS(TFB_INSTANTIATE)
#undef TFB_INSTANTIATE
#undef TFB_INSTANTIATE_TYPE

}  // namespace gpu
}  // namespace tf_booster
