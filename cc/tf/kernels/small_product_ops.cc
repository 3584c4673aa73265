// TfBoosterMultiMatMul and TfBoosterMultiBiasGrad on the CPU.
#include <string>
#include <vector>

#include "cc/core/products/bias_gradients.h"
#include "cc/core/products/small_products.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
namespace errors = tensorflow::errors;

class MultiMatMulOp final : public tensorflow::OpKernel {
 public:
  explicit MultiMatMulOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n, num_biases;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_biases", &num_biases));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_a", &transpose_a_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_b", &transpose_b_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("relu", &relu_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "bias", num_biases, n, true));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> a, b, bias;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "a", 2, &a));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "b", 2, &b));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "bias", 1, &bias));
    std::vector<Product> products(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      Product& p = products[i];
      p.m = a[i]->dim_size(transpose_a_ ? 1 : 0);
      p.k = a[i]->dim_size(transpose_a_ ? 0 : 1);
      p.n = b[i]->dim_size(transpose_b_ ? 0 : 1);
      OP_REQUIRES(
          ctx, b[i]->dim_size(transpose_b_ ? 1 : 0) == p.k,
          errors::InvalidArgument(type_string(), " '", name(), "': a[", i, "] has shape ", a[i]->shape().DebugString(),
                                  ", which does not fit b[", i, "] of shape ", b[i]->shape().DebugString()));
      OP_REQUIRES(ctx, bias.empty() || bias[i]->dim_size(0) == p.n,
                  errors::InvalidArgument(type_string(), " '", name(), "': bias[", i, "] has shape ",
                                          bias[i]->shape().DebugString(), ", wanted [", p.n, "]"));
      Tensor* product = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {p.m, p.n}, &product));
      p.a = a[i]->flat<float>().data();
      p.b = b[i]->flat<float>().data();
      p.a_transposed = transpose_a_;
      p.b_transposed = transpose_b_;
      p.bias = bias.empty() ? nullptr : bias[i]->flat<float>().data();
      p.relu = relu_;
      p.c = product->flat<float>().data();
    }
    TfParallelFor pf(ctx);
    Multiply(products, pf);
  }

 private:
  bool transpose_a_ = false, transpose_b_ = false, relu_ = false;
};

class MultiBiasGradOp final : public tensorflow::OpKernel {
 public:
  explicit MultiBiasGradOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n, num_relus;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_relus", &num_relus));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "relu", num_relus, n, true));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> upstream, relu;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "upstream", 2, &upstream));
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "relu", 2, &relu));
    const int n = static_cast<int>(upstream.size());
    std::vector<BiasGradient> gradients(n);
    for (int i = 0; i < n; ++i) {
      BiasGradient& g = gradients[i];
      g.rows = upstream[i]->dim_size(0);
      g.columns = upstream[i]->dim_size(1);
      g.upstream = upstream[i]->flat<float>().data();
      Tensor* out = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {g.columns}, &out));
      g.bias = out->flat<float>().data();
      if (relu.empty()) continue;
      OP_REQUIRES(ctx, relu[i]->shape() == upstream[i]->shape(),
                  errors::InvalidArgument(type_string(), " '", name(), "': relu[", i, "] has shape ",
                                          relu[i]->shape().DebugString(), ", wanted that of upstream[", i, "], ",
                                          upstream[i]->shape().DebugString()));
      g.relu = relu[i]->flat<float>().data();
      OP_REQUIRES_OK(ctx, ctx->allocate_output(n + i, upstream[i]->shape(), &out));
      g.gradient = out->flat<float>().data();
    }
    TfParallelFor pf(ctx);
    SumBiasGradients(gradients, pf);
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiMatMul").Device(tensorflow::DEVICE_CPU), MultiMatMulOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiBiasGrad").Device(tensorflow::DEVICE_CPU), MultiBiasGradOp);

}  // namespace tf_booster
