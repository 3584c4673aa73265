// TfBoosterPoolLookups, TfBoosterJoinedPoolLookups and their gradient on the GPU.
#ifdef TF_BOOSTER_CUDA

#include <limits>
#include <vector>

#include "cc/core/columns/column_copy_gpu.h"
#include "cc/core/pooling/pooling_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/joined_lookups_op.h"
#include "cc/tf/kernels/pooling_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class T>
class PoolLookupsGpuOp final : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &lookups));
    std::vector<gpu::PoolJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.rows, s.dim}, &pooled));
      jobs[i] = {s, lookups.ids[i], lookups.rows[i]->flat<T>().data(), pooled->flat<T>().data()};
    }
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::PoolAsync(jobs, GpuStream(ctx))));
  }
};

template <class T>
class JoinedPoolLookupsGpuOp final : public JoinedPoolLookupsOpBase<T> {
 public:
  using JoinedPoolLookupsOpBase<T>::JoinedPoolLookupsOpBase;

 private:
  using Base = JoinedPoolLookupsOpBase<T>;
  using Target = typename Base::Target;

  tensorflow::Status Run(OpKernelContext* ctx, const typename Base::Lookups& lookups, const std::vector<Target>& beside,
                         const std::vector<Target>& apart, const typename Base::Copies& copied, int64_t rows,
                         int64_t columns) const override {
    std::vector<gpu::PoolJob<T>> jobs;
    for (const std::vector<Target>* targets : {&beside, &apart}) {
      for (const auto& [i, to, step] : *targets) {
        jobs.push_back({lookups.segments[i], lookups.ids[i], Base::Rows(lookups, i), to, step});
      }
    }
    std::vector<gpu::ColumnsJob> copies;
    for (const auto& [from, to] : copied) {
      copies.push_back({rows, from.width, from.data, from.width, reinterpret_cast<char*>(to),
                        columns * static_cast<int64_t>(sizeof(T))});
    }
    TF_RETURN_IF_ERROR(GpuStatus(*this, gpu::PoolAsync(jobs, GpuStream(ctx))));
    return GpuStatus(*this, gpu::CopyColumnsAsync(copies, GpuStream(ctx)));
  }
};

template <class T>
class PoolLookupsGradGpuOp final : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, &lookups));
    std::vector<gpu::PoolJob<T>> jobs(n());
    int64_t ids = 0;
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.distinct, s.dim}, &gradient));
      const Tensor& grads = *lookups.grads[i];
      jobs[i] = {s, lookups.ids[i], grads.flat<T>().data() + grad_column(i), gradient->flat<T>().data(),
                 grads.dim_size(1)};
      ids += lookups.ids[i];
    }
    OP_REQUIRES(ctx, ids <= std::numeric_limits<int32_t>::max(),
                tensorflow::errors::InvalidArgument(type_string(), " '", name(), "': there are ", ids,
                                                    " ids; the GPU takes 2147483647 at most; split the batch"));
    Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::PoolGradientScratchBytes(jobs), &scratch));
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::PoolGradientAsync(jobs, scratch.data(), GpuStream(ctx))));
  }
};

#define REGISTER_POOLING(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookups").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"),       \
                          PoolLookupsGpuOp<T>);                                                                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedPoolLookups").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"), \
                          JoinedPoolLookupsGpuOp<T>);                                                               \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookupsGrad").Device(tensorflow::DEVICE_GPU).TypeConstraint<T>("T"),   \
                          PoolLookupsGradGpuOp<T>)
REGISTER_POOLING(float);
REGISTER_POOLING(double);
#undef REGISTER_POOLING

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
