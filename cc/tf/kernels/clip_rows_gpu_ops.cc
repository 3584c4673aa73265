// TfBoosterClipRows and its gradient on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/clipping/clip_rows_gpu.h"
#include "cc/tf/kernels/clip_rows_op.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

template <bool gradient>
class ClipRowsGpuOp final : public ClipRowsOpBase<gradient> {
 public:
  using ClipRowsOpBase<gradient>::ClipRowsOpBase;

 private:
  tensorflow::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<ClipRows>& all) const override {
    return GpuStatus(*this, gpu::ClipAllRowsAsync(all, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterClipRows").Device(tensorflow::DEVICE_GPU), ClipRowsGpuOp<false>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterClipRowsGrad").Device(tensorflow::DEVICE_GPU), ClipRowsGpuOp<true>);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
