// One optimizer step on the rows of a Variable that a sparse gradient names, on the card. The formulas are those of the
// CPU.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_GPU_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_GPU_H_

#include <cstdint>

namespace tf_booster {
namespace gpu {

// Hyperparameters, one float each, in the card's memory: a schedule of the learning rate is computed there.
struct MomentumInputs {
  const float* lr;
  const float* momentum;
  bool use_nesterov;
};

struct RMSPropInputs {
  const float* lr;
  const float* rho;
  const float* momentum;
  const float* epsilon;
};

struct CenteredRMSPropInputs {
  const float* lr;
  const float* rho;
  const float* momentum;
  const float* epsilon;
};

// A Variable and its slots, float [rows, dim] each, in the card's memory. Slots in the order of the formula.
struct VariableRows {
  float* value;
  float* slots[3];
  int64_t rows;
  int64_t dim;
};

// indices: [size], grads: float [size, dim], in the card's memory.
template <class Index>
struct RowGradients {
  const Index* indices;
  const float* grads;
  int64_t size;
};

// Starts the step on `stream` (a cudaStream_t) and does not wait. Indices must be distinct, as TensorFlow's optimizers
// make them; one that is no row of the Variable is passed over, since the card cannot raise an error. Returns null, or
// CUDA's message where nothing could be started.
//
// Inputs: one of the structs above. Index: int32_t or int64_t.
template <class Inputs, class Index>
const char* SparseApplyAsync(const Inputs& inputs, const VariableRows& variable, const RowGradients<Index>& gradients,
                             void* stream);

// Copies `bytes` within the card's memory, on `stream`, without waiting. Returns null or CUDA's message.
const char* CopyAsync(void* to, const void* from, int64_t bytes, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_SPARSE_APPLY_GPU_H_
