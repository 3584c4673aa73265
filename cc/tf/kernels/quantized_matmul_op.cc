// TfBoosterQuantizedMatMul on the CPU.
#include <memory>
#include <string>
#include <vector>

#include "cc/core/products/quantized_products.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
namespace errors = tensorflow::errors;

class QuantizedMatMulOp final : public tensorflow::OpKernel {
 public:
  explicit QuantizedMatMulOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_biases;
    std::string precision;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_biases", &num_biases));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_b", &transpose_b_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("relu", &relu_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("precision", &precision));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keep_weights", &keep_weights_));
    OP_REQUIRES_OK(ctx, CheckListSize(ctx, "bias", num_biases, 1, true));
    type_ = precision == "int8" ? QuantizedType::kInt8 : QuantizedType::kInt16;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &a = ctx->input(0), &b = ctx->input(1);
    for (const Tensor* matrix : {&a, &b}) {
      OP_REQUIRES(ctx, matrix->dims() == 2,
                  errors::InvalidArgument(type_string(), " '", name(), "': ", matrix == &a ? "a" : "b", " has shape ",
                                          matrix->shape().DebugString(), ", wanted rank 2"));
    }
    const int64_t m = a.dim_size(0), k = a.dim_size(1), n = b.dim_size(transpose_b_ ? 0 : 1);
    OP_REQUIRES(ctx, b.dim_size(transpose_b_ ? 1 : 0) == k,
                errors::InvalidArgument(type_string(), " '", name(), "': b has shape ", b.shape().DebugString(),
                                        ", wanted ", k, transpose_b_ ? " columns" : " rows", ", as a of shape ",
                                        a.shape().DebugString(), " has columns"));
    std::vector<const Tensor*> bias;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "bias", 1, &bias));
    OP_REQUIRES(ctx, bias.empty() || bias[0]->dim_size(0) == n,
                errors::InvalidArgument(type_string(), " '", name(), "': bias has shape ",
                                        bias.empty() ? "" : bias[0]->shape().DebugString(), ", wanted [", n, "]"));
    Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {m, n}, &out));
    if (out->NumElements() == 0) return;
    TfParallelFor pf(ctx);
    const std::shared_ptr<const Weights> weights = WeightsOf(b, k, n, pf);
    QuantizedProduct product;
    product.m = m;
    product.a = a.flat<float>().data();
    product.bias = bias.empty() ? nullptr : bias[0]->flat<float>().data();
    product.relu = relu_;
    product.c = out->flat<float>().data();
    MultiplyQuantized(product, weights->quantized, pf);
  }

 private:
  // The rounded weights with what they were made of. While `source` refers to its buffer, nothing else can have its
  // address, and whoever updates a resource Variable makes a new buffer (PrepareToUpdateVariable in TensorFlow's
  // training_op_helpers.h, OwnBuffer here): what is kept is right as long as the address is the same.
  struct Weights {
    Weights(QuantizedType type, const Tensor& b, int64_t k, int64_t n, bool transposed, ParallelFor& pf)
        : source(b), quantized(type, b.flat<float>().data(), k, n, transposed, pf) {}

    const Tensor source;
    const QuantizedWeights quantized;
  };

  std::shared_ptr<const Weights> WeightsOf(const Tensor& b, int64_t k, int64_t n, ParallelFor& pf) {
    if (keep_weights_) {
      tensorflow::mutex_lock lock(mutex_);
      if (kept_ != nullptr && kept_->source.data() == b.data() && kept_->source.shape() == b.shape()) return kept_;
    }
    auto made = std::make_shared<const Weights>(type_, b, k, n, transpose_b_, pf);
    if (keep_weights_ && IsTensorFlows(b)) {
      tensorflow::mutex_lock lock(mutex_);
      kept_ = made;
    }
    return made;
  }

  // Whether the memory is not lent by the program, as an array of NumPy's that is fed, which it may write to.
  static bool IsTensorFlows(const Tensor& b) {
    const tensorflow::TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&b);
    return buffer != nullptr && const_cast<tensorflow::TensorBuffer*>(buffer)->root_buffer()->OwnsMemory();
  }

  bool transpose_b_ = false, relu_ = false, keep_weights_ = false;
  QuantizedType type_ = QuantizedType::kInt8;
  tensorflow::mutex mutex_;
  std::shared_ptr<const Weights> kept_ TF_GUARDED_BY(mutex_);
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterQuantizedMatMul").Device(tensorflow::DEVICE_CPU), QuantizedMatMulOp);

}  // namespace tf_booster

// For Python, by ctypes: the instructions that quantised products use here.
extern "C" __attribute__((visibility("default"))) const char* tf_booster_quantized_level() {
  return tf_booster::QuantizedLevelName(tf_booster::BestQuantizedLevel());
}
