// TfBoosterPackTensors on the GPU: tensors in the card's memory become one there.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/gpu/multi_copy_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/pack_tensors_op.h"

namespace tf_booster {
namespace {

class PackTensorsGpuOp final : public PackTensorsOpBase {
 public:
  using PackTensorsOpBase::PackTensorsOpBase;

 protected:
  tensorflow::Status AllocatePacked(tensorflow::OpKernelContext* ctx, int64_t bytes,
                                    tensorflow::Tensor** packed) const override {
    return ctx->allocate_output(0, tensorflow::TensorShape({bytes}), packed);
  }

  tensorflow::Status Fill(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& ends,
                          char* packed) const override {
    std::vector<gpu::CopyJob> jobs(ends.size());
    int64_t begin = 0;
    for (size_t i = 0; i < ends.size(); begin = ends[i++]) {
      const tensorflow::Tensor& tensor = ctx->input(static_cast<int>(i));
      jobs[i].from = static_cast<const char*>(tensor.data());
      jobs[i].bytes = static_cast<int64_t>(tensor.TotalBytes());
      jobs[i].to = packed + begin;
      jobs[i].room = ends[i] - begin;
    }
    return GpuStatus(*this, gpu::MultiCopyAsync(jobs, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPackTensors").Device(tensorflow::DEVICE_GPU).HostMemory("layout"),
                        PackTensorsGpuOp);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
