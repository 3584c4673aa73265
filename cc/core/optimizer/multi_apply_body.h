// Dense steps on many Variables as a body for the GPU: a unit is 16 bytes of a Variable.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_

#include <algorithm>
#include <vector>

#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/optimizer/multi_apply_gpu.h"

namespace tf_booster {
namespace gpu {

// Hyperparameters as values, read once by each thread: they are in the card's memory, where a schedule computes them.
template <class Step>
TFB_HOST_DEVICE Step MakeStep(const StepInputs<typename Step::Type>& inputs) {
  typename Step::Type scalars[Step::kScalars];
  TFB_UNROLL
  for (int i = 0; i < Step::kScalars; ++i) scalars[i] = *inputs.scalars[i];
  return Step(scalars, inputs.flag);
}

// change(i, values) for each element i of packs of an array and its slots.
template <int kArrays, class V, class Change>
TFB_HOST_DEVICE void ChangeColumns(V* arrays, const Change& change) {
  TFB_UNROLL
  for (int i = 0; i < V::kSize; ++i) {
    typename V::Type values[kArrays];
    TFB_UNROLL
    for (int k = 0; k < kArrays; ++k) values[k] = arrays[k].at[i];
    change(i, values);
    TFB_UNROLL
    for (int k = 0; k < kArrays; ++k) arrays[k].at[i] = values[k];
  }
}

template <class Step>
struct ApplyUnit {
  using T = typename Step::Type;
  static constexpr int kArrays = 1 + Step::kSlots;
  Step step;

  TFB_HOST_DEVICE void operator()(const DenseJob<Step>& job, int64_t unit) const {
    const int64_t begin = unit * Pack<T>::kSize;
    if (job.aligned && begin + Pack<T>::kSize <= job.size) {
      Pack<T> arrays[kArrays];
      const Pack<T> grad = *reinterpret_cast<const Pack<T>*>(job.grad + begin);
      TFB_UNROLL
      for (int k = 0; k < kArrays; ++k) arrays[k] = *reinterpret_cast<const Pack<T>*>(job.arrays[k] + begin);
      ChangeColumns<kArrays>(arrays, [&](int i, T* values) { step.Step(grad.at[i], values); });
      TFB_UNROLL
      for (int k = 0; k < kArrays; ++k) StorePack(reinterpret_cast<Pack<T>*>(job.arrays[k] + begin), arrays[k]);
      return;
    }
    for (int64_t i = begin; i < Min(begin + Pack<T>::kSize, job.size); ++i) {
      T values[kArrays];
      TFB_UNROLL
      for (int k = 0; k < kArrays; ++k) values[k] = job.arrays[k][i];
      step.Step(job.grad[i], values);
      TFB_UNROLL
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
    job.units = CeilDiv(job.size, Pack<T>::kSize);
    job.aligned = IsPackAligned(job.grad) && std::all_of(job.arrays, job.arrays + 1 + Step::kSlots, IsPackAligned);
  }
  const ApplyUnits<Step> body = {inputs};
  if (!one_after_another) return ForEachUnit(queue, jobs, body);
  for (const DenseJob<Step>& job : jobs) ForEachUnit(queue, std::vector<DenseJob<Step>>{job}, body);
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_APPLY_BODY_H_
