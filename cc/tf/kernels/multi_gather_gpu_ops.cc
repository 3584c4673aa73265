// TfBoosterMultiGather on the GPU. An index outside its Variable gives zeros, as TensorFlow's ResourceGather does
// there.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/gpu/multi_gather_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/variable_access.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class T, class Index>
class MultiGatherGpuOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> indices;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "indices", -1, &indices));
    const int n = static_cast<int>(indices.size());
    LockedVariables variables;
    OP_REQUIRES_OK(ctx, variables.Lock(ctx, 0, n, tensorflow::DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(ctx, variables.PrepareToGather(ctx, CopyOnCard));
    std::vector<gpu::GatherJob<Index>> jobs(n);
    for (int i = 0; i < n; ++i) {
      const Tensor& params = variables.value(i);
      OP_REQUIRES(ctx, params.dims() >= 1,
                  tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': resources[", i,
                                                      "] is a scalar; wanted rows"));
      tensorflow::TensorShape shape = indices[i]->shape();
      int64_t dim = 1;
      for (int d = 1; d < params.dims(); ++d) {
        OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(params.dim_size(d)));
        dim *= params.dim_size(d);
      }
      Tensor* rows = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &rows));
      jobs[i].indices = indices[i]->flat<Index>().data();
      jobs[i].size = indices[i]->NumElements();
      jobs[i].params = static_cast<const char*>(params.data());
      jobs[i].rows = params.dim_size(0);
      jobs[i].row_bytes = dim * static_cast<int64_t>(sizeof(T));
      jobs[i].out = static_cast<char*>(rows->data());
    }
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiGatherAsync(jobs, GpuStream(ctx))));
  }
};

#define REGISTER_INDEX(T, Index)                                  \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiGather")            \
                              .Device(tensorflow::DEVICE_GPU)     \
                              .HostMemory("resources")            \
                              .TypeConstraint<T>("dtype")         \
                              .TypeConstraint<Index>("Tindices"), \
                          MultiGatherGpuOp<T, Index>)
// Not int32, which TensorFlow keeps in host memory.
#define REGISTER(T)           \
  REGISTER_INDEX(T, int32_t); \
  REGISTER_INDEX(T, int64_t)
REGISTER(float);
REGISTER(double);
REGISTER(Eigen::half);
REGISTER(tensorflow::bfloat16);
REGISTER(int64_t);
#undef REGISTER
#undef REGISTER_INDEX

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
