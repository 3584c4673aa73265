// TfBoosterUnique and TfBoosterUniqueWithCounts on the GPU. They wait once, for the count, which is the size of y.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/unique/unique_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

template <class T, class Index, bool kCounts>
class UniqueGpuOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& x = ctx->input(0);
    OP_REQUIRES(ctx, x.NumElements() < int64_t{1} << 30,
                tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': x has ", x.NumElements(),
                                                    " values, but on the GPU there may be fewer than 2^30"));
    tensorflow::Tensor *y = nullptr, *idx = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, x.shape(), &idx));
    std::vector<gpu::UniqueJob<T, Index>> jobs(1);
    jobs[0].values = x.flat<T>().data();
    jobs[0].idx = idx->flat<Index>().data();
    jobs[0].units = x.NumElements();
    tensorflow::Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::UniqueScratchBytes(jobs), &scratch));
    int64_t count = 0;
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::UniqueFindAsync(jobs, scratch.data(), GpuStream(ctx), &count)));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {count}, &y));
    gpu::UniqueOutputs<T> out = {y->flat<T>().data(), nullptr, nullptr};
    tensorflow::Tensor wide;
    tensorflow::Tensor* counts = nullptr;
    if (kCounts) {
      OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {count}, &counts));
      OP_REQUIRES_OK(ctx, AllocateScratch(ctx, x.NumElements() * static_cast<int64_t>(sizeof(int64_t)), &wide));
      out.counts = static_cast<int64_t*>(wide.data());
    }
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::UniqueWriteAsync(jobs, 0, out, scratch.data(), GpuStream(ctx))));
    if (kCounts) {
      Index* const narrow = counts->flat<Index>().data();
      OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::CopyCountsAsync(out.counts, count, narrow, GpuStream(ctx))));
    }
  }
};

#define REGISTER_UNIQUE_AS(name, T, Index, counts)                                                       \
  REGISTER_KERNEL_BUILDER(                                                                               \
      Name(name).Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T").TypeConstraint<Index>("out_idx"), \
      UniqueGpuOp<T, Index, counts>)
#define REGISTER_UNIQUE(T, Index)                         \
  REGISTER_UNIQUE_AS("TfBoosterUnique", T, Index, false); \
  REGISTER_UNIQUE_AS("TfBoosterUniqueWithCounts", T, Index, true)

// Not of int32: unique_op.cc has kernels for it that work in host memory.
REGISTER_UNIQUE(int64_t, int32_t);
REGISTER_UNIQUE(int64_t, int64_t);

#undef REGISTER_UNIQUE
#undef REGISTER_UNIQUE_AS

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
