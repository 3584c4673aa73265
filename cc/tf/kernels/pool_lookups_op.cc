// TfBoosterPoolLookups and its gradient: embeddings summed up by the rows of a batch, for many lookups at once.
#include <vector>

#include "cc/core/pooling/segment_pooling.h"
#include "cc/tf/kernels/joined_lookups_op.h"
#include "cc/tf/kernels/pooling_op.h"
#include "cc/tf/kernels/tf_parallel_for.h"

namespace tf_booster {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class T>
class PoolLookupsOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadLookups(ctx, &lookups));
    OP_REQUIRES_OK(ctx, CheckPlaces(lookups));
    std::vector<PoolingJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* pooled = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.rows, s.dim}, &pooled));
      jobs[i] = {s, lookups.rows[i]->flat<T>().data(), pooled->flat<T>().data()};
    }
    TfParallelFor pf(ctx);
    Pool(jobs, pf);
  }
};

template <class T>
class JoinedPoolLookupsOp final : public JoinedPoolLookupsOpBase<T> {
 public:
  using JoinedPoolLookupsOpBase<T>::JoinedPoolLookupsOpBase;

 private:
  using Base = JoinedPoolLookupsOpBase<T>;
  using Target = typename Base::Target;

  tensorflow::Status Run(OpKernelContext* ctx, const typename Base::Lookups& lookups, const std::vector<Target>& beside,
                         const std::vector<Target>& apart, const typename Base::Copies& copied, int64_t,
                         int64_t columns) const override {
    TF_RETURN_IF_ERROR(this->CheckPlaces(lookups));
    return this->RunOnCpu(ctx, lookups, beside, apart, copied, columns, /*far_apart=*/false);
  }
};

template <class T>
class PoolLookupsGradOp : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Compute(OpKernelContext* ctx) override {
    Lookups lookups;
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, &lookups));
    OP_REQUIRES_OK(ctx, CheckPlaces(lookups));
    std::vector<PoolingGradientJob<T>> jobs(n());
    for (int i = 0; i < n(); ++i) {
      const PoolingSegments& s = lookups.segments[i];
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, {s.distinct, s.dim}, &gradient));
      const Tensor& grads = *lookups.grads[i];
      jobs[i] = {s, grads.flat<T>().data() + grad_column(i), gradient->flat<T>().data(), grads.dim_size(1)};
    }
    TfParallelFor pf(ctx);
    PoolGradient(jobs, pf);
  }
};

#define REGISTER_POOLING(T)                                                                                         \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),       \
                          PoolLookupsOp<T>);                                                                        \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPoolLookupsGrad").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),   \
                          PoolLookupsGradOp<T>);                                                                    \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterJoinedPoolLookups").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          JoinedPoolLookupsOp<T>)

REGISTER_POOLING(float);
REGISTER_POOLING(double);

#undef REGISTER_POOLING

}  // namespace tf_booster
