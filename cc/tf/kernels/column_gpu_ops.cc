// TfBoosterConcatColumns and TfBoosterSplitColumns on the GPU. (TensorFlow keeps int32 in host memory there.)
#ifdef TF_BOOSTER_CUDA

#include "cc/core/columns/column_copy_gpu.h"
#include "cc/tf/kernels/column_ops.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

class ConcatColumnsGpuOp final : public ConcatColumnsOpBase {
 public:
  using ConcatColumnsOpBase::ConcatColumnsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const std::vector<Columns<const char>>& parts, int64_t rows,
                         char* wide) const override {
    int64_t step = 0;
    for (const auto& part : parts) step += part.width;
    std::vector<gpu::ColumnsJob> jobs;
    for (const auto& part : parts) {
      jobs.push_back({rows, part.width, part.data, part.width, wide, step});
      wide += part.width;
    }
    return GpuStatus(*this, gpu::CopyColumnsAsync(jobs, GpuStream(ctx)));
  }
};

class SplitColumnsGpuOp final : public SplitColumnsOpBase {
 public:
  using SplitColumnsOpBase::SplitColumnsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const char* wide, int64_t rows,
                         const std::vector<Columns<char>>& parts) const override {
    int64_t step = 0;
    for (const auto& part : parts) step += part.width;
    std::vector<gpu::ColumnsJob> jobs;
    for (const auto& part : parts) {
      jobs.push_back({rows, part.width, wide, step, part.data, part.width});
      wide += part.width;
    }
    return GpuStatus(*this, gpu::CopyColumnsAsync(jobs, GpuStream(ctx)));
  }
};

#define REGISTER_COLUMNS(T)                                                                                          \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterConcatColumns").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"),      \
                          ConcatColumnsGpuOp);                                                                       \
  REGISTER_KERNEL_BUILDER(                                                                                           \
      Name("TfBoosterSplitColumns").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T").HostMemory("size_splits"), \
      SplitColumnsGpuOp)
REGISTER_COLUMNS(float);
REGISTER_COLUMNS(double);
REGISTER_COLUMNS(Eigen::half);
REGISTER_COLUMNS(tensorflow::bfloat16);
REGISTER_COLUMNS(int64_t);
REGISTER_COLUMNS(bool);
#undef REGISTER_COLUMNS

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
