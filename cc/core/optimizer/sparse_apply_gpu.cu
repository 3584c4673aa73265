#include "cc/core/optimizer/sparse_apply_gpu.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "cc/core/optimizer/centered_rmsprop.h"
#include "cc/core/optimizer/momentum.h"
#include "cc/core/optimizer/rmsprop.h"

namespace tf_booster {
namespace gpu {
namespace {

// A thread an element: neighbours in a warp read neighbours in a row. More blocks than keep a card busy only queue.
constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 132 * 16;

__device__ Momentum Formula(const MomentumInputs& in) { return {{*in.lr, *in.momentum, in.use_nesterov}}; }
__device__ RMSProp Formula(const RMSPropInputs& in) { return {{*in.lr, *in.rho, *in.momentum, *in.epsilon}}; }
__device__ CenteredRMSProp Formula(const CenteredRMSPropInputs& in) {
  return {{*in.lr, *in.rho, *in.momentum, *in.epsilon}};
}

__device__ void ApplyAt(const Momentum& formula, float grad, const VariableRows& v, int64_t at) {
  formula(grad, v.value[at], v.slots[0][at]);
}
__device__ void ApplyAt(const RMSProp& formula, float grad, const VariableRows& v, int64_t at) {
  formula(grad, v.value[at], v.slots[0][at], v.slots[1][at]);
}
__device__ void ApplyAt(const CenteredRMSProp& formula, float grad, const VariableRows& v, int64_t at) {
  formula(grad, v.value[at], v.slots[0][at], v.slots[1][at], v.slots[2][at]);
}

template <class Inputs, class Index>
__global__ void __launch_bounds__(kThreads)
    ApplyRows(Inputs inputs, VariableRows variable, RowGradients<Index> gradients) {
  const auto formula = Formula(inputs);
  const int64_t elements = gradients.size * variable.dim;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += stride) {
    const int64_t place = i / variable.dim;
    const int64_t row = static_cast<int64_t>(gradients.indices[place]);
    if (row < 0 || row >= variable.rows) continue;
    ApplyAt(formula, gradients.grads[i], variable, row * variable.dim + (i - place * variable.dim));
  }
}

const char* Message(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

}  // namespace

template <class Inputs, class Index>
const char* SparseApplyAsync(const Inputs& inputs, const VariableRows& variable, const RowGradients<Index>& gradients,
                             void* stream) {
  const int64_t elements = gradients.size * variable.dim;
  if (elements == 0) return nullptr;
  const int64_t blocks = std::min(kMaxBlocks, (elements + kThreads - 1) / kThreads);
  ApplyRows<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(inputs, variable,
                                                                                               gradients);
  return Message(cudaGetLastError());
}

const char* CopyAsync(void* to, const void* from, int64_t bytes, void* stream) {
  return Message(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
}

#define TFB_INSTANTIATE(Inputs)                                                                                   \
  template const char* SparseApplyAsync(const Inputs&, const VariableRows&, const RowGradients<int32_t>&, void*); \
  template const char* SparseApplyAsync(const Inputs&, const VariableRows&, const RowGradients<int64_t>&, void*)
TFB_INSTANTIATE(MomentumInputs);
TFB_INSTANTIATE(RMSPropInputs);
TFB_INSTANTIATE(CenteredRMSPropInputs);
#undef TFB_INSTANTIATE

}  // namespace gpu
}  // namespace tf_booster
