// The CUDA stream on which a GPU kernel of TensorFlow starts its work.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GPU_STREAM_H_
#define TF_BOOSTER_CC_TF_KERNELS_GPU_STREAM_H_

#include "tensorflow/compiler/xla/stream_executor/stream.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"
#if TF_MAJOR_VERSION == 2 && TF_MINOR_VERSION < 15
#include "tensorflow/compiler/xla/stream_executor/stream_executor_internal.h"
#endif

namespace tf_booster {

// A cudaStream_t. The caller is the kernel of a GPU device.
inline void* GpuStream(tensorflow::OpKernelContext* ctx) {
  auto* stream = ctx->op_device_context()->stream();
#if TF_MAJOR_VERSION == 2 && TF_MINOR_VERSION < 15
  return stream->implementation()->GpuStreamHack();
#else
  return stream->platform_specific_handle().stream;
#endif
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GPU_STREAM_H_
