// The card's memory as GPU kernels use it: from TensorFlow's allocator, on TensorFlow's stream. Only for sources that
// are compiled with TF_BOOSTER_CUDA.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GPU_MEMORY_H_
#define TF_BOOSTER_CC_TF_KERNELS_GPU_MEMORY_H_

#include <string>

#include "cc/core/optimizer/sparse_apply_gpu.h"
#include "cc/tf/kernels/gpu_stream.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

// CUDA's message, or null for none, as a Status with op and name.
inline tensorflow::Status GpuStatus(const tensorflow::OpKernel& op, const char* error) {
  if (error == nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::Internal(op.type_string(), " '", op.name(), "' on the GPU: ", error);
}

// For LockedVariables::PrepareToUpdate.
inline tensorflow::Status CopyOnCard(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& from,
                                     tensorflow::Tensor* to) {
  const int64_t bytes = static_cast<int64_t>(from.TotalBytes());
  return GpuStatus(ctx->op_kernel(), gpu::CopyAsync(to->data(), from.data(), bytes, GpuStream(ctx)));
}

// Memory for the rest of the step's kernels on the stream. TensorFlow gives it to nobody else before they are done.
inline tensorflow::Status AllocateScratch(tensorflow::OpKernelContext* ctx, int64_t bytes,
                                          tensorflow::Tensor* scratch) {
  return ctx->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes}), scratch);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GPU_MEMORY_H_
