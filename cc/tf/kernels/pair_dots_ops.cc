// TfBoosterPairDots and TfBoosterPairDotsGrad on the CPU.
#include <memory>
#include <string>
#include <vector>

#include "cc/core/products/pair_dots.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;
namespace errors = tensorflow::errors;

class PairOp : public tensorflow::OpKernel {
 public:
  explicit PairOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pairs", &pairs_));
  }

 protected:
  struct Vectors {
    int64_t rows = 0;  // That all parts have.
    std::vector<FieldPart<const float>> parts;
    std::unique_ptr<PairPlan> plan;
  };

  // InvalidArgument: parts of other shapes, pairs of other fields.
  TfStatus ReadVectors(OpKernelContext* ctx, Vectors* vectors) const {
    std::vector<const Tensor*> tensors;
    TF_RETURN_IF_ERROR(TensorsOf(ctx, "parts", -1, &tensors));
    int64_t fields = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const tensorflow::TensorShape& shape = tensors[i]->shape();
      int64_t width = 1;
      for (int d = 1; d < shape.dims(); ++d) width *= shape.dim_size(d);
      if (shape.dims() < 2 || width % dim_ != 0 || shape.dim_size(0) != tensors[0]->dim_size(0)) {
        return errors::InvalidArgument(type_string(), " '", name(), "': parts[", i, "] has shape ", shape.DebugString(),
                                       ", wanted as many rows as parts[0] has, ", tensors[0]->shape().DebugString(),
                                       ", of whole vectors of ", dim_);
      }
      vectors->parts.push_back({tensors[i]->flat<float>().data(), width / dim_});
      fields += width / dim_;
    }
    vectors->rows = tensors[0]->dim_size(0);
    std::vector<bool> seen(fields * fields, false);
    for (const int64_t pair : pairs_) {
      if (pair < 0 || pair >= fields * fields || seen[pair]) {
        return errors::InvalidArgument(type_string(), " '", name(), "': pairs has ", pair,
                                       ", wanted different numbers from 0 to below ", fields * fields);
      }
      seen[pair] = true;
    }
    vectors->plan = std::make_unique<PairPlan>(fields, pairs_);
    return tensorflow::OkStatus();
  }

  int64_t dim_ = 0;

 private:
  std::vector<int64_t> pairs_;
};

class PairDotsOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    Tensor* dots = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {in.rows, in.plan->size()}, &dots));
    TfParallelFor pf(ctx);
    DotPairs(*in.plan, in.rows, dim_, in.parts, dots->flat<float>().data(), pf);
  }
};

class PairDotsGradOp final : public PairOp {
 public:
  using PairOp::PairOp;

  void Compute(OpKernelContext* ctx) override {
    Vectors in;
    OP_REQUIRES_OK(ctx, ReadVectors(ctx, &in));
    const Tensor& gradient = ctx->input(0);
    OP_REQUIRES(
        ctx, gradient.shape() == tensorflow::TensorShape({in.rows, in.plan->size()}),
        errors::InvalidArgument(type_string(), " '", name(), "': gradient has shape ", gradient.shape().DebugString(),
                                ", wanted [", in.rows, ",", in.plan->size(), "]"));
    std::vector<FieldPart<float>> gradients;
    for (size_t i = 0; i < in.parts.size(); ++i) {
      Tensor* out = nullptr;
      const int index = static_cast<int>(i);
      OP_REQUIRES_OK(ctx, ctx->allocate_output(index, ctx->input(1 + index).shape(), &out));
      gradients.push_back({out->flat<float>().data(), in.parts[i].fields});
    }
    TfParallelFor pf(ctx);
    DotPairsGradient(*in.plan, in.rows, dim_, gradient.flat<float>().data(), in.parts, gradients, pf);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDots").Device(tensorflow::DEVICE_CPU), PairDotsOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterPairDotsGrad").Device(tensorflow::DEVICE_CPU), PairDotsGradOp);

}  // namespace tf_booster
