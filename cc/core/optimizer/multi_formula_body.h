// A formula for many Variables as a body for the GPU: a unit is 16 bytes of a Variable. All threads are at the same
// step of the formula, so that its branches cost what their comparisons do; what a thread computes lies in its local
// memory, which the first-level cache holds.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_BODY_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_BODY_H_

#include <algorithm>
#include <vector>

#include "cc/core/base/half.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/optimizer/multi_formula_gpu.h"

namespace tf_booster {
namespace gpu {

template <class T>
TFB_HOST_DEVICE T Operate(Operation operation, T a, T b) {
  switch (operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSub:
      return a - b;
    case Operation::kMul:
      return a * b;
    case Operation::kDiv:
      return a / b;
    case Operation::kMaximum:
      return a < b || !(b == b) ? b : a;
    case Operation::kMinimum:
      return b < a || !(b == b) ? b : a;
    case Operation::kNeg:
      return -a;
    case Operation::kAbs:
      return Abs(a);
    case Operation::kSign:
      return a > T(0) ? T(1) : a < T(0) ? T(-1) : a;
    case Operation::kSquare:
      return a * a;
    case Operation::kSqrt:
      return Sqrt(a);
    case Operation::kRsqrt:
      return T(1) / Sqrt(a);
  }
  return a;
}

template <class T>
struct FormulaUnit {
  const FormulaInputs<T>& inputs;

  TFB_HOST_DEVICE void operator()(const FormulaJob<T>& job, int64_t unit) const {
    const int64_t begin = unit * Pack<T>::kSize;
    if (job.aligned && begin + Pack<T>::kSize <= job.size) return Run<Pack<T>>(job, begin);
    for (int64_t i = begin; i < Min(begin + Pack<T>::kSize, job.size); ++i) Run<One<T>>(job, i);
  }

 private:
  static constexpr int kMemory = kMostFormulaArrays + kMostFormulaTensors;

  template <class V>
  TFB_HOST_DEVICE V Value(const V* values, int place) const {
    const Formula& formula = inputs.formula;
    const int number = place - formula.arrays - formula.tensors;
    if (number < 0) return values[place];
    if (number >= formula.numbers) return values[kMemory + number - formula.numbers];
    V value;
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) value.at[i] = *inputs.numbers[number];
    return value;
  }

  template <class V>
  TFB_HOST_DEVICE void Run(const FormulaJob<T>& job, int64_t begin) const {
    const Formula& formula = inputs.formula;
    V values[kMemory + kMostFormulaSteps];  // Of the arrays and the tensors, then the temporaries.
    for (int k = 0; k < formula.arrays; ++k) values[k] = *reinterpret_cast<const V*>(job.arrays[k] + begin);
    for (int k = 0; k < formula.tensors; ++k) {
      values[formula.arrays + k] = *reinterpret_cast<const V*>(job.tensors[k] + begin);
    }
    TFB_ROLLED
    for (int s = 0; s < formula.size; ++s) {
      const FormulaStep step = formula.steps[s];
      const V a = Value(values, step.a), b = Value(values, step.b);
      V result;
      TFB_UNROLL
      for (int i = 0; i < V::kSize; ++i) result.at[i] = Operate(step.operation, a.at[i], b.at[i]);
      values[kMemory + step.to - formula.arrays - formula.tensors - formula.numbers] = result;
    }
    for (int k = 0; k < formula.arrays; ++k) {
      if (formula.results[k] != k) {
        StorePack(reinterpret_cast<V*>(job.arrays[k] + begin), Value(values, formula.results[k]));
      }
    }
  }
};

template <class T>
struct FormulaUnits {
  FormulaInputs<T> inputs;
  TFB_HOST_DEVICE FormulaUnit<T> Prepare() const { return {inputs}; }
};

template <class T, class Queue>
void MultiFormula(Queue& queue, std::vector<FormulaJob<T>> jobs, const FormulaInputs<T>& inputs,
                  bool one_after_another) {
  const Formula& formula = inputs.formula;
  for (FormulaJob<T>& job : jobs) {
    job.units = CeilDiv(job.size, Pack<T>::kSize);
    job.aligned = std::all_of(job.arrays, job.arrays + formula.arrays, IsPackAligned) &&
                  std::all_of(job.tensors, job.tensors + formula.tensors, IsPackAligned);
  }
  const FormulaUnits<T> body = {inputs};
  if (!one_after_another) return ForEachUnit(queue, jobs, body);
  for (const FormulaJob<T>& job : jobs) ForEachUnit(queue, std::vector<FormulaJob<T>>{job}, body);
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_BODY_H_
