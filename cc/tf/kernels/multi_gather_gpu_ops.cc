// TfBoosterMultiGather and TfBoosterPartitionedGather on the GPU. An index outside its table gives zeros, as
// TensorFlow's ResourceGather does there.
#ifdef TF_BOOSTER_CUDA

#include <vector>

#include "cc/core/gpu/multi_gather_gpu.h"
#include "cc/tf/kernels/gathered_parts.h"
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
  explicit MultiGatherGpuOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, parts_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> indices;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "indices", -1, &indices));
    LockedVariables variables;
    OP_REQUIRES_OK(ctx, variables.Lock(ctx, 0, parts_.num_variables(), tensorflow::DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(ctx, variables.PrepareToGather(ctx, CopyOnCard));
    std::vector<gpu::GatherJob<Index>> jobs;
    for (int i = 0; i < static_cast<int>(indices.size()); ++i) {
      std::vector<const Tensor*> values;
      for (int p = 0; p < parts_.parts(i); ++p) values.push_back(&variables.value(parts_.first_variable(i) + p));
      gpu::GatherJob<Index> job;
      tensorflow::TensorShape row;
      OP_REQUIRES_OK(ctx, parts_.Check(*this, i, values, &job.table, &row));
      tensorflow::TensorShape shape = indices[i]->shape();
      OP_REQUIRES_OK(ctx, shape.AppendShapeWithStatus(row));
      Tensor* rows = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &rows));
      job.indices = indices[i]->flat<Index>().data();
      job.size = indices[i]->NumElements();
      job.row_bytes = row.num_elements() * static_cast<int64_t>(sizeof(T));
      job.out = static_cast<char*>(rows->data());
      for (const Tensor* value : values) {
        job.params = static_cast<const char*>(value->data());
        jobs.push_back(job);
        ++job.part;
      }
    }
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::MultiGatherAsync(jobs, GpuStream(ctx))));
  }

 private:
  GatheredParts parts_;
};

#define REGISTER_INDEX(op, T, Index)                              \
  REGISTER_KERNEL_BUILDER(Name(op)                                \
                              .Device(tensorflow::DEVICE_GPU)     \
                              .HostMemory("resources")            \
                              .TypeConstraint<T>("dtype")         \
                              .TypeConstraint<Index>("Tindices"), \
                          MultiGatherGpuOp<T, Index>)
// Not int32, which TensorFlow keeps in host memory.
#define REGISTER(T)                                         \
  REGISTER_INDEX("TfBoosterMultiGather", T, int32_t);       \
  REGISTER_INDEX("TfBoosterMultiGather", T, int64_t);       \
  REGISTER_INDEX("TfBoosterPartitionedGather", T, int32_t); \
  REGISTER_INDEX("TfBoosterPartitionedGather", T, int64_t)
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
