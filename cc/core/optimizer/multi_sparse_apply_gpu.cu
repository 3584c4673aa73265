#include "cc/core/optimizer/multi_sparse_apply_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/optimizer/multi_sparse_apply_body.h"
#include "cc/core/optimizer/row_steps.h"

namespace tf_booster {
namespace gpu {

template <class Step, class Index>
const char* MultiSparseApplyAsync(const std::vector<SparseJob<Step>>& jobs,
                                  const std::vector<RowNumbers<Index>>& numbers,
                                  const std::vector<JobsOfNumbers>& jobs_of,
                                  const StepInputs<typename Step::Type>& inputs, const SparseRule& rule, void* memory,
                                  void* stream) {
  CudaQueue queue(stream);
  Scratch scratch(memory);
  MultiSparseApply(&queue, jobs, numbers, jobs_of, inputs, rule, &scratch);
  return queue.error();
}

template <class Step, class Index>
int64_t SparseScratchBytes(const std::vector<SparseJob<Step>>& jobs, const std::vector<RowNumbers<Index>>& numbers,
                           const std::vector<JobsOfNumbers>& jobs_of, const SparseRule& rule) {
  Scratch scratch(nullptr);
  MultiSparseApply<Step, Index, CudaQueue>(nullptr, jobs, numbers, jobs_of, {}, rule, &scratch);
  return scratch.used();
}

#define TFB_INSTANTIATE_INDEX(Step, Index)                                                                             \
  template const char* MultiSparseApplyAsync(const std::vector<SparseJob<Step>>&,                                      \
                                             const std::vector<RowNumbers<Index>>&, const std::vector<JobsOfNumbers>&, \
                                             const StepInputs<typename Step::Type>&, const SparseRule&, void*, void*); \
  template int64_t SparseScratchBytes(const std::vector<SparseJob<Step>>&, const std::vector<RowNumbers<Index>>&,      \
                                      const std::vector<JobsOfNumbers>&, const SparseRule&);
#define TFB_INSTANTIATE_TYPE(Step)     \
  TFB_INSTANTIATE_INDEX(Step, int32_t) \
  TFB_INSTANTIATE_INDEX(Step, int64_t)
#define TFB_INSTANTIATE(Name)            \
  TFB_INSTANTIATE_TYPE(row::Name<float>) \
  TFB_INSTANTIATE_TYPE(row::Name<double>)
TFB_ROW_STEPS(TFB_INSTANTIATE)
#undef TFB_INSTANTIATE
#undef TFB_INSTANTIATE_TYPE
#undef TFB_INSTANTIATE_INDEX

}  // namespace gpu
}  // namespace tf_booster
