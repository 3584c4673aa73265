#include "cc/core/optimizer/multi_formula_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/optimizer/multi_formula_body.h"

namespace tf_booster {
namespace gpu {

template <class T>
const char* MultiFormulaAsync(const std::vector<FormulaJob<T>>& jobs, const FormulaInputs<T>& inputs,
                              bool one_after_another, void* stream) {
  CudaQueue queue(stream);
  MultiFormula(queue, jobs, inputs, one_after_another);
  return queue.error();
}

#define TFB_INSTANTIATE(T) \
  template const char* MultiFormulaAsync(const std::vector<FormulaJob<T>>&, const FormulaInputs<T>&, bool, void*);
TFB_INSTANTIATE(float)
TFB_INSTANTIATE(double)
TFB_INSTANTIATE(Float16)
TFB_INSTANTIATE(BFloat16)
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
