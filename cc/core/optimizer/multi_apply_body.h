// Dense steps on many Variables as a body for the GPU: a unit is 16 bytes of a Variable.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_

#include <algorithm>
#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/optimizer/multi_apply_gpu.h"

namespace tf_booster {
namespace gpu {

inline constexpr int64_t kPackBytes = 16;

template <class T>
struct alignas(kPackBytes) Pack {
  static constexpr int kSize = static_cast<int>(kPackBytes / sizeof(T));
  T at[kSize];
};

// Hyperparameters as values, read once by each thread: they are in the card's memory, where a schedule computes them.
template <class Step>
TFB_HOST_DEVICE Step MakeStep(const StepInputs<typename Step::Type>& inputs) {
  typename Step::Type scalars[Step::kScalars];
  for (int i = 0; i < Step::kScalars; ++i) scalars[i] = *inputs.scalars[i];
  return Step(scalars, inputs.flag);
}

template <class Step>
struct ApplyUnit {
  using T = typename Step::Type;
  static constexpr int kArrays = 1 + Step::kSlots;
  Step step;

  TFB_HOST_DEVICE void operator()(const DenseJob<Step>& job, int64_t unit) const {
    const int64_t begin = unit * Pack<T>::kSize;
    if (job.aligned && begin + Pack<T>::kSize <= job.size) {
      Pack<T> grad = *reinterpret_cast<const Pack<T>*>(job.grad + begin), packs[kArrays];
      for (int k = 0; k < kArrays; ++k) packs[k] = *reinterpret_cast<const Pack<T>*>(job.arrays[k] + begin);
      for (int i = 0; i < Pack<T>::kSize; ++i) {
        T values[kArrays];
        for (int k = 0; k < kArrays; ++k) values[k] = packs[k].at[i];
        step.Step(grad.at[i], values);
        for (int k = 0; k < kArrays; ++k) packs[k].at[i] = values[k];
      }
      for (int k = 0; k < kArrays; ++k) *reinterpret_cast<Pack<T>*>(job.arrays[k] + begin) = packs[k];
      return;
    }
    for (int64_t i = begin; i < Min(begin + Pack<T>::kSize, job.size); ++i) {
      T values[kArrays];
      for (int k = 0; k < kArrays; ++k) values[k] = job.arrays[k][i];
      step.Step(job.grad[i], values);
      for (int k = 0; k < kArrays; ++k) job.arrays[k][i] = values[k];
    }
  }
};

template <class Step>
struct ApplyUnits {
  StepInputs<typename Step::Type> inputs;
  TFB_HOST_DEVICE ApplyUnit<Step> Prepare() const { return {MakeStep<Step>(inputs)}; }
};

template <class Step, class Queue>
void MultiApply(Queue& queue, std::vector<DenseJob<Step>> jobs, const StepInputs<typename Step::Type>& inputs,
                bool one_after_another) {
  using T = typename Step::Type;
  for (DenseJob<Step>& job : jobs) {
    const auto is_aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0; };
    job.units = CeilDiv(job.size, Pack<T>::kSize);
    job.aligned = is_aligned(job.grad) && std::all_of(job.arrays, job.arrays + 1 + Step::kSlots, is_aligned);
  }
  const ApplyUnits<Step> body = {inputs};
  if (!one_after_another) return ForEachUnit(queue, jobs, body);
  for (const DenseJob<Step>& job : jobs) ForEachUnit(queue, std::vector<DenseJob<Step>>{job}, body);
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_
