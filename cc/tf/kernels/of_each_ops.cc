// TfBoosterUnaryOfEach and TfBoosterBinaryOfEach: TensorFlow's own functions of single elements.
#include <limits>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/kernels/cwise_ops.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

namespace functor = tensorflow::functor;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// By an instruction of each element, as TensorFlow's scalar functions have it first: on its threads numbers too small
// for a normal one become zeros by that, which a comparison and a choice, or the C library's integers, would hand on.
template <class T>
class Flush {
 public:
  T operator()(T x) const { return x * one_; }

 private:
  static inline volatile T opaque_ = T(1);  // A product with a constant 1 would be left out.
  const T one_ = opaque_;
};

template <class T, class Function>
struct FlushedBoth {
  struct func {
    T operator()(T x, T y) const { return function(flush(x), flush(y)); }
    const typename Function::func function;
    const Flush<T> flush;
  };
};

// TensorFlow's wheels call the C library's log by the interface of its first version, whose NaN for a negative number
// is a positive one; of today's it is negative.
template <class T>
struct Log {
  struct func {
    T operator()(T given) const {
      const T x = flush(given);
      return x < T(0) ? std::numeric_limits<T>::quiet_NaN() : typename functor::log<T>::func()(x);
    }
    const Flush<T> flush;
  };
};

template <class T>
class UnaryOfEachOp final : public tensorflow::OpKernel {
 public:
  explicit UnaryOfEachOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string name;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("function", &name));
    if (name == "Log") compute_ = ComputeAll<Log<T>>;
    if (name == "Log1p") compute_ = ComputeAll<functor::log1p<T>>;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& x = ctx->input(0);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output({0}, 0, x.shape(), &y));
    compute_(x.flat<T>().data(), x.NumElements(), y->flat<T>().data());
  }

 private:
  template <class Function>
  static void ComputeAll(const T* x, int64_t n, T* y) {
    const typename Function::func function{};
    for (int64_t i = 0; i < n; ++i) y[i] = function(x[i]);
  }

  void (*compute_)(const T* x, int64_t n, T* y);
};

template <class T>
class BinaryOfEachOp final : public tensorflow::OpKernel {
 public:
  explicit BinaryOfEachOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string name;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("function", &name));
    if (name == "Maximum") compute_ = ComputeAll<FlushedBoth<T, functor::maximum<T>>>;
    if (name == "Minimum") compute_ = ComputeAll<FlushedBoth<T, functor::minimum<T>>>;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &x = ctx->input(0), &y = ctx->input(1);
    const bool one_x = x.NumElements() == 1, one_y = y.NumElements() == 1;
    OP_REQUIRES(
        ctx, one_x || one_y || x.shape() == y.shape(),
        tensorflow::errors::InvalidArgument("BinaryOfEach: x and y must have one shape, or one element; they have ",
                                            x.shape().DebugString(), " and ", y.shape().DebugString()));
    const bool as_x = one_x == one_y ? x.dims() >= y.dims() : one_y;
    const Tensor& larger = as_x ? x : y;
    Tensor* z = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, larger.shape(), &z));
    compute_(x.flat<T>().data(), !one_x, y.flat<T>().data(), !one_y, larger.NumElements(), z->flat<T>().data());
  }

 private:
  // `x_step`, `y_step`: whether there is one for each element, 0 or 1.
  template <class Function>
  static void ComputeAll(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n, T* z) {
    const typename Function::func function{};
    for (int64_t i = 0; i < n; ++i) z[i] = function(x[i * x_step], y[i * y_step]);
  }

  void (*compute_)(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n, T* z);
};

#define TFB_REGISTER(type)                                                                                        \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterUnaryOfEach").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"),  \
                          UnaryOfEachOp<type>);                                                                   \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterBinaryOfEach").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), \
                          BinaryOfEachOp<type>)
TFB_REGISTER(float);
TFB_REGISTER(double);
#undef TFB_REGISTER

}  // namespace
}  // namespace tf_booster
