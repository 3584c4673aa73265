// TfBoosterAllFinite on the GPU.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/finite/all_finite_gpu.h"
#include "cc/tf/kernels/all_finite_op.h"
#include "cc/tf/kernels/gpu_memory.h"

namespace tf_booster {
namespace {

template <class T>
class AllFiniteGpuOp final : public AllFiniteOpBase<T> {
 public:
  using AllFiniteOpBase<T>::AllFiniteOpBase;
  using typename AllFiniteOpBase<T>::Word;

 private:
  tensorflow::Status Look(tensorflow::OpKernelContext* ctx, const std::vector<Words<Word>>& all,
                          bool* result) const override {
    return GpuStatus(*this, gpu::AreAllFiniteAsync<Word>(all, ExponentBits<T>::kValue, result, GpuStream(ctx)));
  }
};

#define REGISTER(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterAllFinite").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"), \
                          AllFiniteGpuOp<T>)
REGISTER(Eigen::half);
REGISTER(Eigen::bfloat16);
REGISTER(float);
REGISTER(double);
#undef REGISTER

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
