// TfBoosterMultiBucketize on the CPU.
#include "cc/tf/kernels/multi_bucketize_op.h"

#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {
namespace {

template <class T>
class MultiBucketizeOp final : public MultiBucketizeOpBase<T> {
 public:
  using MultiBucketizeOpBase<T>::MultiBucketizeOpBase;

 private:
  tensorflow::Status Write(tensorflow::OpKernelContext* ctx, const std::vector<Bucketize<T>>& all) const override {
    TfParallelFor pf(ctx);
    WriteBuckets(all, pf);
    return tensorflow::OkStatus();
  }
};

#define REGISTER(T)                                                                                              \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiBucketize").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          MultiBucketizeOp<T>)
REGISTER(int32_t);
REGISTER(int64_t);
REGISTER(float);
REGISTER(double);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
