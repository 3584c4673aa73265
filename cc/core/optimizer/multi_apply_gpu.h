// Dense optimizer steps on many Variables in the card's memory, by one launch for some 75 of them.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_GPU_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_GPU_H_

#include <cstdint>
#include <vector>

namespace tf_booster {
namespace gpu {

// Hyperparameters of a step, in the order of the op's inputs: one value each, in the card's memory.
template <class T>
struct StepInputs {
  const T* scalars[6];
  bool flag;
};

// One Variable and its slots, and its gradient: `size` elements each, in the card's memory. Step: of element_steps.h.
template <class Step>
struct DenseJob {
  typename Step::Type* arrays[1 + Step::kSlots] = {};
  const typename Step::Type* grad = nullptr;
  int64_t size = 0;
  int64_t units = 0;     // Set by the step itself, as is
  bool aligned = false;  // whether all are at multiples of 16 bytes.
};

// Starts the step on `stream` (a cudaStream_t) and does not wait. one_after_another: two jobs share memory. Returns
// null, or CUDA's message where something could not be started.
template <class Step>
const char* MultiApplyAsync(const std::vector<DenseJob<Step>>& jobs, const StepInputs<typename Step::Type>& inputs,
                            bool one_after_another, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_GPU_H_
