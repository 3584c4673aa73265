// What the kernels of TfBoosterAllFinite for CPU and GPU have in common: the bits of a type, inputs and output.
#ifndef TF_BOOSTER_CC_TF_KERNELS_ALL_FINITE_OP_H_
#define TF_BOOSTER_CC_TF_KERNELS_ALL_FINITE_OP_H_

#include <cstdint>
#include <vector>

#include "cc/core/finite/all_finite.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// The bits of T's exponent, in a word of its size.
template <class T>
struct ExponentBits;
template <>
struct ExponentBits<Eigen::half> {
  static constexpr uint16_t kValue = 0x7C00;
};
template <>
struct ExponentBits<Eigen::bfloat16> {
  static constexpr uint16_t kValue = 0x7F80;
};
template <>
struct ExponentBits<float> {
  static constexpr uint32_t kValue = 0x7F800000;
};
template <>
struct ExponentBits<double> {
  static constexpr uint64_t kValue = 0x7FF0000000000000;
};

template <class T>
class AllFiniteOpBase : public tensorflow::OpKernel {
 public:
  using Word = std::remove_const_t<decltype(ExponentBits<T>::kValue)>;
  static_assert(sizeof(Word) == sizeof(T), "a word is as large as a number");

  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<Words<Word>> all;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& numbers = ctx->input(i);
      all.push_back({reinterpret_cast<const Word*>(numbers.flat<T>().data()), numbers.NumElements()});
    }
    tensorflow::Tensor* result = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &result));
    OP_REQUIRES_OK(ctx, Look(ctx, all, result->scalar<bool>().data()));
  }

 private:
  virtual tensorflow::Status Look(tensorflow::OpKernelContext* ctx, const std::vector<Words<Word>>& all,
                                  bool* result) const = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_ALL_FINITE_OP_H_
