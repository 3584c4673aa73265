// TfBoosterPairDots and TfBoosterPairDotsGrad on the CPU.
#include "cc/tf/kernels/pair_dots_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {

using tensorflow::OpKernelContext;

class PairDotsOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    tensorflow::Tensor* dots = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, size()}, &dots));
    TfParallelFor pf(ctx);
    DotPairs(PairPlan(in.fields, pairs()), in.rows, dim_, in.parts, dots->flat<float>().data(), pf);
  }
};

class PairDotsGradOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    std::vector<FieldPart<float>> gradients;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    OP_REQUIRES_OK(ctx, ReadGradient(ctx, in, &gradients));
    TfParallelFor pf(ctx);
    const float* const gradient = ctx->input(0).flat<float>().data();
    DotPairsGradient(PairPlan(in.fields, pairs()), in.rows, dim_, gradient, in.parts, gradients, pf);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDots").Device(tensorflow::DEVICE_CPU), PairDotsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDotsGrad").Device(tensorflow::DEVICE_CPU), PairDotsGradOp);

}  // namespace tf_booster
