// TfBoosterFieldSums and TfBoosterFieldSumsGrad on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/products/field_sums_gpu.h"
#include "cc/tf/kernels/field_sums_op.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class FieldSumsGpuOp final : public FieldSumsOpBase {
 public:
  using FieldSumsOpBase::FieldSumsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Fields& in, const FieldSums& out,
                         const std::vector<FieldCopy>& copies) const override {
    return GpuStatus(*this, gpu::SumFieldsAsync(in, out, copies, GpuStream(ctx)));
  }
};

class FieldSumsGradGpuOp final : public FieldSumsGradOpBase {
 public:
  using FieldSumsGradOpBase::FieldSumsGradOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Fields& in, const std::vector<FieldRange>& ranges,
                         float* gradient) const override {
    return GpuStatus(*this, gpu::SumFieldsGradientAsync(in, ranges, gradient, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterFieldSums").Device(tensorflow::DEVICE_GPU), FieldSumsGpuOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterFieldSumsGrad").Device(tensorflow::DEVICE_GPU), FieldSumsGradGpuOp);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
