// Sparse optimizer steps on many Variables in the card's memory: one sort of all their indices, then the steps.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_GPU_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_GPU_H_

#include <cstdint>
#include <vector>

#include "cc/core/gpu/row_groups.h"
#include "cc/core/optimizer/multi_apply_gpu.h"

namespace tf_booster {
namespace gpu {

// One Variable and its slots, [rows, dim] each, and its gradient [size, dim]. Step: of row_steps.h.
template <class Step>
struct SparseJob {
  typename Step::Type* arrays[1 + Step::kSlots] = {};
  const typename Step::Type* grads = nullptr;
  int64_t dim = 0;
};

// The Variables of one list of row numbers: jobs [first, first + parts.size()), of which each has the next rows, their
// number in `parts`, from row `begin` on. All have the same gradient. Rows of no job are passed over.
struct JobsOfNumbers {
  size_t first = 0;
  int64_t begin = 0;
  std::vector<int64_t> parts;
};

// How rows step.
struct SparseRule {
  bool every_row = false;          // Rows without a gradient, too.
  bool sum_duplicates = true;      // One step with the sum of a row's gradients, else one for each, in their order.
  bool one_after_another = false;  // Two jobs share memory.
};

// jobs_of[i] have the indices numbers[i]; an index that is no row is passed over, since the card cannot raise an error.
// Indices are below 2^31 in number. Starts all on `stream` and does not wait. `scratch` has SparseScratchBytes() bytes
// that nobody else uses until it is done. Returns null, or CUDA's message where something could not be started.
template <class Step, class Index>
const char* MultiSparseApplyAsync(const std::vector<SparseJob<Step>>& jobs,
                                  const std::vector<RowNumbers<Index>>& numbers,
                                  const std::vector<JobsOfNumbers>& jobs_of,
                                  const StepInputs<typename Step::Type>& inputs, const SparseRule& rule, void* scratch,
                                  void* stream);

template <class Step, class Index>
int64_t SparseScratchBytes(const std::vector<SparseJob<Step>>& jobs, const std::vector<RowNumbers<Index>>& numbers,
                           const std::vector<JobsOfNumbers>& jobs_of, const SparseRule& rule);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_MULTI_SPARSE_APPLY_GPU_H_
