// A formula for many Variables in the card's memory, by one launch for some 30 of them.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_GPU_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/optimizer/formula.h"

namespace tf_booster {
namespace gpu {

// A Variable with its slots, and the tensors of the formula: `size` elements each, in the card's memory.
template <class T>
struct FormulaJob {
  T* arrays[kMostFormulaArrays] = {};
  const T* tensors[kMostFormulaTensors] = {};
  int64_t size = 0;
  int64_t units = 0;     // Set by the step itself, as is
  bool aligned = false;  // whether all are at multiples of 16 bytes.
};

// The formula, and where its numbers are in the card's memory.
template <class T>
struct FormulaInputs {
  Formula formula;
  const T* numbers[kMostFormulaNumbers] = {};
};

// Starts the step on `stream` (a cudaStream_t) and does not wait. one_after_another: two jobs share memory. Returns
// null, or CUDA's message where something could not be started.
template <class T>
const char* MultiFormulaAsync(const std::vector<FormulaJob<T>>& jobs, const FormulaInputs<T>& inputs,
                              bool one_after_another, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_FORMULA_GPU_H_
