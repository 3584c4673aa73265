// TfBoosterUnique and TfBoosterUniqueWithCounts: the distinct values of a tensor, in no promised order.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "cc/core/unique/unique.h"
#include "cc/tf/kernels/helped_parallel_for.h"
#include "cc/tf/kernels/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

template <class T, class Index, bool kCounts>
class UniqueOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& x = ctx->input(0);
    tensorflow::Tensor* idx = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, x.shape(), &idx));
    tensorflow::Status allocated;
    std::vector<int64_t> own_counts;  // Where those of the output are narrower.
    tensorflow::Tensor* count = nullptr;
    const auto allocate = [&](int64_t size, T** values, int64_t** counts) {
      tensorflow::Tensor* y = nullptr;
      allocated = ctx->allocate_output(0, {size}, &y);
      if (kCounts && allocated.ok()) {
        allocated = ctx->allocate_output(2, {size}, &count);
        if (std::is_same_v<Index, int64_t> && allocated.ok()) {
          *counts = reinterpret_cast<int64_t*>(count->flat<Index>().data());
        } else {
          own_counts.resize(size);
          *counts = own_counts.data();
        }
      }
      if (!allocated.ok()) return Status(StatusCode::kInternal, "y was not allocated");
      *values = y->flat<T>().data();
      return Status();
    };
    HelpedParallelFor parallel_for(ctx->device()->tensorflow_cpu_worker_threads()->workers);
    UniqueOptions options;
    options.with_counts = kCounts;
    const Status status = Unique<T, Index>(x.flat<T>().data(), x.NumElements(), options, idx->flat<Index>().data(),
                                           allocate, parallel_for);
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, ToTensorFlow(status, "Unique"));
    if (!own_counts.empty()) std::copy(own_counts.begin(), own_counts.end(), count->flat<Index>().data());
  }
};

#define REGISTER_UNIQUE_AS(name, T, Index, counts)                                                       \
  REGISTER_KERNEL_BUILDER(                                                                               \
      Name(name).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T").TypeConstraint<Index>("out_idx"), \
      UniqueOp<T, Index, counts>)
#define REGISTER_UNIQUE(T, Index)                         \
  REGISTER_UNIQUE_AS("TfBoosterUnique", T, Index, false); \
  REGISTER_UNIQUE_AS("TfBoosterUniqueWithCounts", T, Index, true)

REGISTER_UNIQUE(int32_t, int32_t);
REGISTER_UNIQUE(int32_t, int64_t);
REGISTER_UNIQUE(int64_t, int32_t);
REGISTER_UNIQUE(int64_t, int64_t);

#undef REGISTER_UNIQUE
#undef REGISTER_UNIQUE_AS

// Among ops on a GPU: int32 is in host memory there, as TensorFlow's own Unique has it.
#define HOST_UNIQUE(name) Name(name).Device(tensorflow::DEVICE_GPU).HostMemory("x").HostMemory("y").HostMemory("idx")
#define REGISTER_HOST_UNIQUE(Index)                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                          \
      HOST_UNIQUE("TfBoosterUnique").TypeConstraint<int32_t>("T").TypeConstraint<Index>("out_idx"), \
      UniqueOp<int32_t, Index, false>);                                                             \
  REGISTER_KERNEL_BUILDER(HOST_UNIQUE("TfBoosterUniqueWithCounts")                                  \
                              .HostMemory("count")                                                  \
                              .TypeConstraint<int32_t>("T")                                         \
                              .TypeConstraint<Index>("out_idx"),                                    \
                          UniqueOp<int32_t, Index, true>)

REGISTER_HOST_UNIQUE(int32_t);
REGISTER_HOST_UNIQUE(int64_t);

#undef REGISTER_HOST_UNIQUE
#undef HOST_UNIQUE

}  // namespace tf_booster
