#include "cc/core/optimizer/table_apply_gpu.h"

#include "cc/core/gpu/cuda_queue.cuh"
#include "cc/core/optimizer/table_apply_body.h"

namespace tf_booster {
namespace gpu {

template <class Step>
Status TableApplyAsync(GpuTable& table, const SparseApplyBatch& batch, const StepInputs<float>& inputs,
                       Allocator* allocator, void* stream) {
  CudaQueue queue(stream);
  TFB_RETURN_IF_ERROR(TableApply<CudaQueue>(queue, table, batch, allocator).template Run<Step>(inputs));
  if (queue.error() == nullptr) return Status();
  return Status(StatusCode::kInternal, "Table '" + table.options().name + "': the card said: " + queue.error());
}

#define TFB_INSTANTIATE(Name)                                                                                     \
  template Status TableApplyAsync<table_step::Name>(GpuTable&, const SparseApplyBatch&, const StepInputs<float>&, \
                                                    Allocator*, void*);
TFB_TABLE_STEPS(TFB_INSTANTIATE)
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
