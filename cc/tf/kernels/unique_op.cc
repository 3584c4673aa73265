// TfBoosterUnique: the distinct values of a tensor, in no promised order.
#include "cc/core/unique/unique.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

template <class T, class Index>
class UniqueOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& x = ctx->input(0);
    tensorflow::Tensor* idx = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, x.shape(), &idx));
    tensorflow::Status allocated;
    const auto allocate = [&](int64_t size, T** values, int64_t**) {
      tensorflow::Tensor* y = nullptr;
      allocated = ctx->allocate_output(0, {size}, &y);
      if (!allocated.ok()) return Status(StatusCode::kInternal, "y was not allocated");
      *values = y->flat<T>().data();
      return Status();
    };
    TfParallelFor parallel_for(ctx);
    const Status status = Unique<T, Index>(x.flat<T>().data(), x.NumElements(), UniqueOptions(),
                                           idx->flat<Index>().data(), allocate, parallel_for);
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, ToTensorFlow(status, "Unique"));
  }
};

#define REGISTER_UNIQUE(T, Index)                                                                                     \
  REGISTER_KERNEL_BUILDER(                                                                                            \
      Name("TfBoosterUnique").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T").TypeConstraint<Index>("out_idx"), \
      UniqueOp<T, Index>)

REGISTER_UNIQUE(int32_t, int32_t);
REGISTER_UNIQUE(int32_t, int64_t);
REGISTER_UNIQUE(int64_t, int32_t);
REGISTER_UNIQUE(int64_t, int64_t);

#undef REGISTER_UNIQUE

}  // namespace tf_booster
