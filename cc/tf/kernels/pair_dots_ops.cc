// TfBoosterPairDots, TfBoosterJoinedPairDots and TfBoosterPairDotsGrad on the CPU.
#include <vector>

#include "cc/tf/kernels/pair_dots_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class PairDotsOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    Tensor* dots = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, size()}, &dots));
    TfParallelFor pf(ctx);
    DotPairs(PairPlan(in.fields, pairs()), in.rows, dim_, in.parts, {dots->flat<float>().data(), size()}, pf);
  }
};

class JoinedPairDotsOp final : public JoinedPairDotsOpBase {
 public:
  using JoinedPairDotsOpBase::JoinedPairDotsOpBase;

 private:
  tensorflow::Status Run(OpKernelContext* ctx, const Vectors& in, const Copies& copied, float* joined, int64_t columns,
                         int64_t first) const override {
    const int64_t row_bytes = columns * static_cast<int64_t>(sizeof(float));
    const auto copy = [&](int64_t begin, int64_t end) {
      for (const auto& [from, column] : copied) {
        PutColumns(from, begin, end, reinterpret_cast<char*>(joined + column), row_bytes);
      }
    };
    TfParallelFor pf(ctx);
    DotPairs(PairPlan(in.fields, pairs()), in.rows, dim_, in.parts, {joined + first, columns}, pf, copy);
    return tensorflow::OkStatus();
  }
};

class PairDotsGradOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    DotColumns<const float> gradient;
    std::vector<FieldPart<float>> gradients;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    OP_REQUIRES_OK(ctx, ReadGradient(ctx, in, &gradient, &gradients));
    TfParallelFor pf(ctx);
    DotPairsGradient(PairPlan(in.fields, pairs()), in.rows, dim_, gradient, in.parts, gradients, pf);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDots").Device(tensorflow::DEVICE_CPU), PairDotsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedPairDots").Device(tensorflow::DEVICE_CPU), JoinedPairDotsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDotsGrad").Device(tensorflow::DEVICE_CPU), PairDotsGradOp);

}  // namespace tf_booster
