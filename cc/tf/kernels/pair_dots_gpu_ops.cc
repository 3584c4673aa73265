// TfBoosterPairDots, TfBoosterJoinedPairDots and TfBoosterPairDotsGrad on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/columns/column_copy_gpu.h"
#include "cc/core/products/pair_dots_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/pair_dots_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;

template <bool kGradient>
class PairDotsGpuOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    gpu::PairDotsJob job;
    if (kGradient) {
      DotColumns<const float> gradient;
      OP_REQUIRES_OK(ctx, ReadGradient(ctx, in, &gradient, &job.gradients));
      job.dots = {const_cast<float*>(gradient.data), gradient.step};
    } else {
      tensorflow::Tensor* dots = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, size()}, &dots));
      job.dots = {dots->flat<float>().data(), size()};
    }
    job.pairs = &pairs();
    job.rows = in.rows;
    job.dim = dim_;
    job.parts = in.parts;
    tensorflow::Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::PairDotsScratchBytes(job), &scratch));
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::PairDotsAsync(job, scratch.data(), GpuStream(ctx))));
  }
};

class JoinedPairDotsGpuOp final : public JoinedPairDotsOpBase {
 public:
  using JoinedPairDotsOpBase::JoinedPairDotsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Vectors& in, const Copies& copied, float* joined, int64_t columns,
                         int64_t first) const override {
    gpu::PairDotsJob job;
    job.pairs = &pairs();
    job.rows = in.rows;
    job.dim = dim_;
    job.parts = in.parts;
    job.dots = {joined + first, columns};
    std::vector<gpu::ColumnsJob> copies;
    for (const auto& [from, column] : copied) {
      copies.push_back({in.rows, from.width, from.data, from.width, reinterpret_cast<char*>(joined + column),
                        columns * static_cast<int64_t>(sizeof(float))});
    }
    tensorflow::Tensor scratch;
    TF_RETURN_IF_ERROR(AllocateScratch(ctx, gpu::PairDotsScratchBytes(job), &scratch));
    TF_RETURN_IF_ERROR(GpuStatus(*this, gpu::PairDotsAsync(job, scratch.data(), GpuStream(ctx))));
    return GpuStatus(*this, gpu::CopyColumnsAsync(copies, GpuStream(ctx)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedPairDots").Device(tensorflow::DEVICE_GPU), JoinedPairDotsGpuOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDots").Device(tensorflow::DEVICE_GPU), PairDotsGpuOp<false>);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDotsGrad").Device(tensorflow::DEVICE_GPU), PairDotsGpuOp<true>);

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
