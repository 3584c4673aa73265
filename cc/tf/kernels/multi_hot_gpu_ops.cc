// TfBoosterMultiHot on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/columns/multi_hot_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_hot_op.h"

namespace tf_booster {
namespace {

class MultiHotGpuOp final : public MultiHotOpBase {
 public:
  using MultiHotOpBase::MultiHotOpBase;

 private:
  tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<MultiHot>& all) const override {
    return GpuStatus(*this, gpu::WriteMultiHotsAsync(all, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiHot").Device(tensorflow::DEVICE_GPU), MultiHotGpuOp);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
