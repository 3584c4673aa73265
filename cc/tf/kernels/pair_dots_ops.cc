// TfBoosterPairDots, TfBoosterJoinedPairDots and TfBoosterPairDotsGrad on the CPU.
#include <utility>
#include <vector>

#include "cc/core/columns/column_copy.h"
#include "cc/tf/kernels/pair_dots_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

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

// Dots that are written where a join of columns would have copied them to.
class JoinedPairDotsOp final : public PairOp {
 public:
  explicit JoinedPairDotsOp(OpKernelConstruction* ctx) : PairOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("order", &order_));
    int num_others;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_others", &num_others));
    std::vector<bool> named(1 + num_others, false);
    bool fits = order_.size() == named.size();
    for (const int64_t part : order_) {
      fits = fits && part >= 0 && part <= num_others && !named[part];
      if (fits) named[part] = true;
    }
    OP_REQUIRES(ctx, fits,
                InvalidArgument(ctx->def().op(), " '", ctx->def().name(), "': order must have each number from 0 to ",
                                num_others, " once"));
  }

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    std::vector<const Tensor*> others;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "others", 2, &others));
    int64_t columns = 0, first = 0;                               // The dots' first one.
    std::vector<std::pair<Columns<const char>, int64_t>> copied;  // And its first column.
    for (const int64_t part : order_) {
      if (part == 0) {
        first = columns;
        columns += size();
        continue;
      }
      const Tensor& other = *others[part - 1];
      OP_REQUIRES(ctx, other.dim_size(0) == in.rows,
                  InvalidArgument(type_string(), " '", name(), "': others[", part - 1, "] has ", other.dim_size(0),
                                  " rows, but the vectors have ", in.rows, "; all must have as many"));
      const int64_t width = other.dim_size(1);
      copied.push_back({{other.tensor_data().data(), width * static_cast<int64_t>(sizeof(float))}, columns});
      columns += width;
    }
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, columns}, &out));
    float* const joined = out->flat<float>().data();
    const int64_t row_bytes = columns * static_cast<int64_t>(sizeof(float));
    const auto copy = [&](int64_t begin, int64_t end) {
      for (const auto& [from, column] : copied) {
        PutColumns(from, begin, end, reinterpret_cast<char*>(joined + column), row_bytes);
      }
    };
    TfParallelFor pf(ctx);
    DotPairs(PairPlan(in.fields, pairs()), in.rows, dim_, in.parts, {joined + first, columns}, pf, copy);
  }

 private:
  std::vector<int64_t> order_;  // The parts of `joined`: 0 are the dots, 1 + i is others[i].
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
