// TfBoosterAllFinite on the CPU.
#include "cc/tf/kernels/all_finite_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

template <class T>
class AllFiniteOp final : public AllFiniteOpBase<T> {
 public:
  using AllFiniteOpBase<T>::AllFiniteOpBase;
  using typename AllFiniteOpBase<T>::Word;

 private:
  tensorflow::Status Look(tensorflow::OpKernelContext* ctx, const std::vector<Words<Word>>& all,
                          bool* result) const override {
    TfParallelFor pf(ctx);
    *result = AreAllFinite<Word>(all, ExponentBits<T>::kValue, pf);
    return tensorflow::OkStatus();
  }
};

#define REGISTER(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterAllFinite").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          AllFiniteOp<T>)
REGISTER(Eigen::half);
REGISTER(Eigen::bfloat16);
REGISTER(float);
REGISTER(double);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
