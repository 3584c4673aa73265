// TfBoosterBatchNorm and TfBoosterBatchNormGrad on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/normalization/batch_norm_gpu.h"
#include "cc/tf/kernels/batch_norm_op.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class BatchNormGpuOp final : public BatchNormForwardBase {
 public:
  using BatchNormForwardBase::BatchNormForwardBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const BatchNormInput& in, const BatchNormOutput& out,
                         float* scratch) const override {
    return GpuStatus(*this, gpu::BatchNormAsync(in, out, scratch, GpuStream(ctx)));
  }
};

class BatchNormGradGpuOp final : public BatchNormBackwardBase {
 public:
  using BatchNormBackwardBase::BatchNormBackwardBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const BatchNormGradInput& in, const BatchNormGradOutput& out,
                         float* scratch) const override {
    return GpuStatus(*this, gpu::BatchNormGradAsync(in, out, scratch, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterBatchNorm").Device(tensorflow::DEVICE_GPU), BatchNormGpuOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterBatchNormGrad").Device(tensorflow::DEVICE_GPU), BatchNormGradGpuOp);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
