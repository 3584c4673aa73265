// TfBoosterMultiBucketize on the GPU: of float32 and float64. TensorFlow's kernel there compares integers with
// boundaries that it makes integers, the CPU's does not, so that of integers there is one answer less to choose.
#ifdef TF_BOOSTER_CUDA

#include "cc/core/columns/multi_bucketize_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/multi_bucketize_op.h"

namespace tf_booster {
namespace {

template <class T>
class MultiBucketizeGpuOp final : public MultiBucketizeOpBase<T> {
 public:
  using MultiBucketizeOpBase<T>::MultiBucketizeOpBase;

 private:
  tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<Bucketize<T>>& all) const override {
    const std::vector<float>& boundaries = this->boundaries();
    tensorflow::Tensor on_card;
    TF_RETURN_IF_ERROR(AllocateScratch(ctx, static_cast<int64_t>(boundaries.size() * sizeof(float)), &on_card));
    auto* room = reinterpret_cast<float*>(on_card.flat<int8_t>().data());
    return GpuStatus(*this, gpu::WriteBucketsAsync(all, boundaries, room, GpuStream(ctx)));
  }
};

#define REGISTER(T)                                                                                              \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiBucketize").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"), \
                          MultiBucketizeGpuOp<T>)
REGISTER(float);
REGISTER(double);
#undef REGISTER

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
